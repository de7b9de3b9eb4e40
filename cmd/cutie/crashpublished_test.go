package main_test

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cutie/sitemap"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// lateResult is the size from which a result comes into a package at its end.
const lateResult = 1 << 20

// A throng is clients of all kinds of changes. Refusals are fine with them.
type throng struct {
	base   string
	http   *http.Client
	mu     sync.Mutex
	random *rand.Rand
	number int      // of payloads
	jobs   []string // that were seen
}

// dice returns a number below n, and one of the jobs seen, mostly a late one.
func (c *throng) dice(n int) (k int, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.jobs) > 0 {
		id = c.jobs[len(c.jobs)-1-c.random.IntN(min(len(c.jobs), 60))]
	}
	return c.random.IntN(n), id
}

// text returns a payload like no other.
func (c *throng) text(size int) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	return bytes.Repeat(fmt.Appendf(nil, "text %d\n", c.number), 1+size/10)
}

func (c *throng) ask(method, what string, body []byte, header ...string) (*http.Response, error) {
	resp, _, err := processes.Request(c.http, method, c.base+what, string(body), header...)
	if resp == nil {
		return nil, err
	}
	if at := cmp.Or(resp.Header.Get("Content-Location"), resp.Header.Get("Location")); at != "" {
		c.mu.Lock()
		c.jobs = append(c.jobs, path.Base(at))
		c.mu.Unlock()
	}
	return resp, err
}

// run makes changes until the daemon is gone.
func (c *throng) run() {
	for {
		if err := c.change(); err != nil {
			return
		}
	}
}

func (c *throng) change() error {
	kind, id := c.dice(100)
	size, _ := c.dice(2 << 10)
	var err error
	switch {
	case kind < 40:
		_, err = c.ask("POST", "content/jobs", c.text(size), "Content-Type", "text/plain", "Accept", "application/json")
	case kind < 42:
		_, err = c.ask("POST", "content/jobs", c.text(latePayload+size), "Content-Type", "text/plain", "Accept", "application/json")
	case kind < 60:
		_, err = c.ask("POST", "consume/jobs", nil, "Accept", "application/octet-stream")
	case kind < 75:
		err = c.work(size)
	case kind < 80 && id != "":
		_, err = c.ask("DELETE", "content/jobs/"+id, nil)
	case kind < 90 && id != "":
		_, err = c.ask("POST", "requeue/jobs/"+id, nil)
	case kind < 94 && id != "":
		_, err = c.ask("POST", "hold/jobs/"+id, nil)
	case id != "":
		_, err = c.ask("POST", "release/jobs/"+id, nil)
	}
	return err
}

// work takes a job, stores results, and reports.
func (c *throng) work(size int) error {
	resp, err := c.ask("POST", "consume/jobs?lease=86400", nil, "Accept", "application/octet-stream")
	if err != nil || resp.StatusCode != http.StatusOK {
		return err
	}
	lease, id := resp.Header.Get("Cutie-Lease"), path.Base(resp.Header.Get("Content-Location"))
	results, _ := c.dice(3)
	for n := range results {
		length := size
		if size%50 == 0 {
			length += lateResult
		}
		if _, err := c.ask("PUT", fmt.Sprintf("result/jobs/%s/r%d", id, n), c.text(length), "Cutie-Lease", lease, "Content-Type", "text/plain"); err != nil {
			return err
		}
	}
	if size%3 == 0 {
		return nil // it stays in work
	}
	_, err = c.ask("POST", "outcome/jobs/"+id+"?outcome="+[]string{"completed", "released"}[size%2], nil, "Cutie-Lease", lease)
	return err
}

// TestWhatIsPublishedSurvivesKills kills the daemon again and again under changes of all
// kinds, with short lists and with culling. After each start the Source breaks no rule, all
// its packages agree with its lists, and a copy that follows from the beginning is the same
// as the directory. At the end so are copies made by the Resource List and by the Resource
// Dump, of both sets.
func TestWhatIsPublishedSurvivesKills(t *testing.T) {
	t.Parallel()
	rounds := int(environment(t, "CUTIE_CRASH_ROUNDS", uint64(long.N(1, 40))))
	seed := environment(t, "CUTIE_CRASH_SEED", rand.Uint64())
	t.Logf("CUTIE_CRASH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	args := append(listEntries(), "--listen", ownAddress(random),
		"--package-size", "300K", "--period", "150ms", "--dump-period", "1s", "--keep-size", "0")
	d := processes.Serve(t, home, args...)
	run(t, "--home", home, "set", "jobs", "--size", "150")
	transport := &http.Transport{MaxIdleConnsPerHost: crashClients}
	c := &throng{base: d.URL, http: &http.Client{Transport: transport, Timeout: time.Minute}, random: rand.New(rand.NewPCG(seed, 1))}
	get := getter(c.http, d.URL)
	fixed := map[string][sha256.Size]byte{} // closed lists never change
	for round := range rounds {
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(c.run)
		}
		time.Sleep(underLoad(random, 0, crashLatest))
		if err := d.Stop(syscall.SIGKILL); err == nil {
			t.Fatal("daemon survived")
		}
		wg.Wait()
		transport.CloseIdleConnections()
		complained(t, d)
		if round%3 == 2 {
			crashStart(t, home, args, time.Duration(random.Int64N(int64(60*time.Millisecond))))
		}
		d = processes.Serve(t, home, args...)
		run(t, "--home", home, "publish", "--now")
		run(t, "--home", home, "cull", "jobs", "-q")
		run(t, "--home", home, "publish", "--now")
		for _, set := range []string{"pending", "replica"} {
			f := follower{set: set, get: get}
			if _, err := f.packages(true); err != nil {
				t.Errorf("round %d: packages of %s: %v", round, set, err)
			}
			rememberFixed(t, get, set, fixed)
		}
		run(t, "sync", "--by", "list", d.URL, filepath.Join(dir, "followed"))
		run(t, "audit", filepath.Join(dir, "followed"))
		run(t, "audit", "--source", d.URL, "--dumps", "--sample", "-1")
	}
	for name, want := range fixed {
		if text, err := get(name); err != nil || sha256.Sum256(text) != want {
			t.Errorf("%s has changed: %v", name, err)
		}
	}
	for _, by := range []string{"list", "dump"} {
		run(t, "sync", "--by", by, d.URL, filepath.Join(dir, by))
	}
	d.End(t)
	complained(t, d)
	if out, err := cutie(t, "check", home); err != nil || !strings.HasSuffix(out, " 0 mended, 0 problems\n") {
		t.Errorf("check: %v: %s", err, out)
	}
	want := readTree(t, home, "queues")
	for _, copied := range []string{"followed", "list", "dump"} {
		diffTrees(t, readTree(t, filepath.Join(dir, copied), "queues"), want)
	}
	t.Logf("%d rounds, %d files, %d documents that never change", rounds, len(want), len(fixed))
}

// rememberFixed keeps the digests of the closed lists of a set.
func rememberFixed(t *testing.T, get func(path string) ([]byte, error), set string, fixed map[string][sha256.Size]byte) {
	t.Helper()
	text, err := get(published + set + "/changelist-index.xml")
	must(t, err)
	_, entries, err := parseList(text)
	must(t, err)
	for _, e := range entries {
		name := published + set + "/" + path.Base(e.Loc)
		if _, known := fixed[name]; known || e.Until.IsZero() {
			continue
		}
		if text, err = get(name); err != nil {
			t.Fatal(err)
		}
		fixed[name] = sha256.Sum256(text)
	}
}

// readPackage returns the entries of a package, and its files by name.
func readPackage(octets []byte) (entries []sitemap.Entry, files map[string][]byte, err error) {
	z, err := zip.NewReader(bytes.NewReader(octets), int64(len(octets)))
	if err != nil {
		return nil, nil, err
	}
	files = map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, nil, err
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	_, entries, err = parseList(files["manifest.xml"])
	return entries, files, err
}
