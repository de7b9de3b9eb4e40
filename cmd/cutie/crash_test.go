package main_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

const (
	crashClients = 64
	crashLatest  = 700 * time.Millisecond // of load before a kill
)

// underLoad returns how long clients work before a kill: between least and most, or a
// quarter of it in a short test. Each operation is verified afterwards several times.
func underLoad(random *rand.Rand, least, most time.Duration) time.Duration {
	return (least + time.Duration(random.Int64N(int64(most-least)))) / time.Duration(long.N(4, 1))
}

// listEntries is the option for short Change Lists: a round under load closes some.
func listEntries() []string { return []string{"--list-entries", strconv.Itoa(long.N(500, 2000))} }

// TestAcknowledgedWorkSurvivesKills kills the daemon under load at random
// instants, again and again on one home, and compares what it then knows and
// publishes with what its clients were told. In every third round the next
// daemon is killed as well, while it starts.
//
// CUTIE_CRASH_ROUNDS is the number of rounds; by default 3, and 30 if tests are to
// be long. CUTIE_CRASH_SEED repeats the choices of a run, though
// not its timing.
func TestAcknowledgedWorkSurvivesKills(t *testing.T) {
	t.Parallel()
	surviveKills(t, filepath.Join(t.TempDir(), "home"), func(int) []string { return nil }, nil)
}

// surviveKills is the test on a home. options gives the daemon of each round its own. The
// last round goes on until there was enough; nil: as long as the others.
func surviveKills(t *testing.T, home string, options func(round int) []string, enough func() bool) {
	rounds := int(environment(t, "CUTIE_CRASH_ROUNDS", uint64(long.N(3, 30))))
	seed := environment(t, "CUTIE_CRASH_SEED", rand.Uint64())
	t.Logf("CUTIE_CRASH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	// References must stay what they are, so all daemons have one address: a
	// loopback one of its own, so that nobody else takes it meanwhile.
	args := append(listEntries(), // lists are closed, and get packages, in each round
		"--listen", fmt.Sprintf("127.%d.%d.%d:8080", 1+random.IntN(254), random.IntN(256), 1+random.IntN(254)))
	d := serveHome(t, home, append(args, options(-1)...)...)
	transport := &http.Transport{MaxIdleConnsPerHost: crashClients}
	hc := &http.Client{Transport: transport, Timeout: time.Minute}
	l := newLedger(t, hc, d.url)
	var count atomic.Int64
	clients := make([]*loader, crashClients)
	for i := range clients {
		clients[i] = &loader{number: i, base: d.url, http: hc, random: rand.New(rand.NewPCG(seed, uint64(i+1))), count: &count}
	}
	begun := time.Now()
	torn := 0 // ends of the journal
	var slowest time.Duration
	for round := range rounds {
		over := func() bool { return round < rounds-1 || enough == nil || enough() }
		w := crash(t, d, clients, underLoad(random, 0, crashLatest), over)
		transport.CloseIdleConnections()
		torn += complained(t, d)
		args := append(slices.Clip(args), options(round)...)
		if round%3 == 1 {
			crashStart(t, home, args, time.Duration(random.Int64N(int64(60*time.Millisecond))))
		}
		begin := time.Now()
		d = serveHome(t, home, args...)
		slowest = max(slowest, time.Since(begin))
		l.round(clients, w)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	l.fetch(slices.Collect(func(yield func(queuefs.JobID) bool) {
		for id := range l.jobs {
			if !yield(id) {
				return
			}
		}
	}))
	if out, err := cutie(t, "--home", home, "publish", "--now"); err != nil {
		t.Errorf("publish: %v: %s", err, out)
	}
	packages := 0
	for _, f := range []*follower{&l.pending, &l.replica} {
		if err := f.unchanged(); err != nil {
			t.Error(err)
		}
		n, err := f.packages(true)
		if packages += n; err != nil {
			t.Errorf("packages of %s: %v", f.set, err)
		}
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Errorf("daemon ended badly: %v", err)
	}
	torn += complained(t, d)
	if options(rounds) == nil {
		out, err := cutie(t, "check", home)
		if err != nil || !strings.Contains(out, fmt.Sprintf("1 queues, %d jobs, ", len(l.jobs))) || !strings.HasSuffix(out, " 0 mended, 0 problems\n") {
			t.Errorf("check: %v: %s", err, out)
		}
	}
	t.Logf("%d rounds in %v, %d operations acknowledged, %d events, %d jobs, %d and %d closed lists, %d packages, %d torn ends, slowest start %v",
		rounds, time.Since(begun).Round(time.Second), count.Load(), l.replica.seq, len(l.jobs), len(l.pending.closed), len(l.replica.closed), packages, torn, slowest.Round(time.Millisecond))
}

// complained reads what a daemon that has ended had to say. There should be
// nothing but that a write was broken off, which was never acknowledged; it
// returns how often.
func complained(t *testing.T, d *daemon) (torn int) {
	t.Helper()
	for said := range strings.Lines(d.stderr.String()) {
		if !strings.Contains(said, "the last batch does not verify and was cut") {
			t.Errorf("the daemon said: %s", said)
		}
		torn++
	}
	return torn
}

// environment returns a number that may be set from outside.
func environment(t *testing.T, name string, absent uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return absent
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// crash lets the clients at the daemon and kills it when the time is over, and there was
// enough; nil: there was. It returns when all clients have noticed.
func crash(t *testing.T, d *daemon, clients []*loader, load time.Duration, enough func() bool) *watcher {
	t.Helper()
	w := &watcher{entries: map[string][]byte{}}
	get := getter(clients[0].http, d.url)
	errs := make(chan error, len(clients))
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() { errs <- c.run() })
	}
	wg.Go(func() { w.run(get) })
	var early error
	select {
	case early = <-errs:
	case <-time.After(load):
		if enough != nil {
			eventually(t, "enough was done", enough)
		}
	}
	if err := d.stop(syscall.SIGKILL); err == nil {
		t.Error("daemon survived")
	}
	wg.Wait()
	close(errs)
	if early != nil {
		t.Error(early)
	}
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.Fatalf("the daemon said: %s", d.stderr.String())
	}
	return w
}

// crashStart kills a daemon that has just been started.
func crashStart(t *testing.T, home string, args []string, after time.Duration) {
	t.Helper()
	cmd := exec.Command("cutie", append([]string{"serve", "--home", home}, args...)...)
	if err := processes.Start(cmd); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(after, func() { cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("daemon did not live to be killed: %v", err)
	}
}

// A watcher reads what is published while the clients work. What it has seen
// must still hold after the crash.
type watcher struct {
	baseline [][]byte          // a Resource List of the set pending
	entries  map[string][]byte // of the open Change List, by set
}

func (w *watcher) run(get func(path string) ([]byte, error)) {
	for {
		pages, err := fetchBaseline(get)
		if err != nil {
			return
		}
		w.baseline = pages
		for _, set := range []string{"pending", "replica"} {
			octets, err := get(published + set + "/changelist.xml")
			if err != nil {
				return
			}
			w.entries[set] = nil
			if text := entriesOf(octets); len(text) > 0 {
				w.entries[set] = text
			}
		}
	}
}
