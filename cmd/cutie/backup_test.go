package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/job"
	queueledger "cutie/queuefs/ledger"
	"cutie/queuefs/rest/client"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// A crowd submits and takes jobs, and remembers what was acknowledged.
type crowd struct {
	*client.Client
	wg  sync.WaitGroup
	end context.CancelFunc

	mu        sync.Mutex
	submitted map[string]bool // by job, and whether it was taken
}

// newCrowd begins with some clients. Each second job is taken.
func newCrowd(t *testing.T, url string, clients int) *crowd {
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{Client: client.New(url, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}), end: cancel, submitted: map[string]bool{}}
	for range clients {
		c.wg.Go(func() {
			for ctx.Err() == nil {
				// At full speed they would fill the disk. The more jobs there are, the longer
				// takes a backup, and the slower are they: else neither has an end where the
				// machine is busy.
				pause := 800*time.Millisecond + 4*time.Millisecond*time.Duration(len(c.known()))
				select {
				case <-time.After(time.Duration(rand.Int64N(int64(pause)))):
				case <-ctx.Done():
				}
				if err := c.round(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	t.Cleanup(c.stop)
	return c
}

func (c *crowd) stop() {
	c.end()
	c.wg.Wait()
}

func (c *crowd) round(ctx context.Context) error {
	text := strings.Repeat("payload ", 1+rand.IntN(100))
	payload := client.Upload{Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, Size: int64(len(text))}
	ids, err := c.Submit(ctx, "jobs", payload, payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	for _, id := range ids {
		c.submitted[id] = c.submitted[id] || false
	}
	c.mu.Unlock()
	d, err := c.Next(ctx, "jobs", 0)
	if errors.Is(err, queueledger.ErrEmpty) {
		return nil
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.submitted[d.Job] = true
	c.mu.Unlock()
	return d.Body.Close()
}

// known returns what was acknowledged up to now.
func (c *crowd) known() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.submitted)
}

// killed runs a command and kills it after some time.
func killed(t *testing.T, after time.Duration, args ...string) {
	t.Helper()
	cmd := exec.Command("cutie", args...)
	must(t, processes.Start(cmd))
	time.AfterFunc(after, func() { cmd.Process.Kill() })
	cmd.Wait()
}

// A backup made under the load of 64 clients, with backup and restoration killed at any
// moment, is a home with all that was acknowledged before it.
func TestBackupsUnderLoadAreRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, to := filepath.Join(dir, "home"), filepath.Join(dir, "backup")
	d := processes.Serve(t, home, "--dump-period", "0")
	crowd := newCrowd(t, d.URL, 64)
	eventually(t, "jobs were taken", func() bool { return len(crowd.known()) > 200 })
	for range long.N(3, 20) {
		killed(t, time.Duration(rand.Int64N(int64(400*time.Millisecond))), "backup", to, "--home", home)
	}
	for range long.N(1, 2) {
		known := crowd.known()
		run(t, "backup", to, "--home", home)
		restored := filepath.Join(t.TempDir(), "restored")
		for range long.N(2, 20) {
			killed(t, time.Duration(rand.Int64N(int64(400*time.Millisecond))), "restore", to, "--home", restored)
		}
		if _, err := cutie(t, "check", restored); err == nil {
			t.Log("a restoration ended before it was killed")
		} else {
			run(t, "restore", to, "--home", restored)
		}
		if out := run(t, "check", restored); !strings.HasSuffix(out, ", 0 mended, 0 problems\n") {
			t.Errorf("got %s", out)
		}
		has(t, restored, known)
	}
	crowd.stop()

	// In calm, the published lists are the same.
	run(t, "backup", to, "--home", home)
	restored := filepath.Join(dir, "restored")
	run(t, "restore", to, "--home", restored)
	second := processes.Serve(t, restored)
	want, got := resources(t, d.URL), resources(t, second.URL)
	if want != got {
		t.Errorf("the Resource Lists have %d and %d octets, and differ", len(want), len(got))
	}
	says(t, run(t, "audit", "--source", second.URL, "--sample", "-1"), ", 0 findings")
	if a, b := queueAt(t, d.URL), queueAt(t, second.URL); a.Sequence != b.Sequence {
		t.Errorf("the last events are %d and %d", a.Sequence, b.Sequence)
	}
	second.End(t)
}

// TestFollowersOfAHomeFollowTheRestoredOne has copies that are where the backup is, behind
// it, and ahead of it. The first two go on with the changes of the restored home, and the
// last one begins anew when there is a new one. A backup of that home is restored, too.
func TestFollowersOfAHomeFollowTheRestoredOne(t *testing.T) {
	t.Parallel()
	p := newPromotion(t)
	home := p.serve("home")
	p.run("set", "jobs", "--callback", "http://127.0.0.1:1/", "-u", p.url) // its cursor is in the backup
	p.put("seen by all")
	p.run("sync", p.url, "behind")
	p.put("not seen by one")
	p.run("backup", "saved", "--home", "home")
	p.run("get", "jobs", "-u", p.url)
	p.run("sync", p.url, "level")
	p.run("backup", "saved", "--home", "home")
	p.put("seen by one alone")
	p.run("sync", p.url, "ahead")
	home.Kill()

	restore := func(from, to, want string) {
		t.Helper()
		says(t, p.run("restore", from, "--home", to), want)
		if left, err := filepath.Glob(filepath.Join(p.dir, to, ".cutie-sync/changes-*")); err != nil || len(left) > 0 {
			t.Errorf("%s has the changes %q, %v", to, left, err)
		}
	}
	follow := func(want map[string]string) {
		t.Helper()
		for copy, want := range want {
			p.follows(copy, want)
		}
	}
	restore("saved", "restored", "its changes from event 1 on stay published")
	p.hasCursor("restored")
	restored := p.serve("restored")
	follow(map[string]string{
		"level":  "fetched 0, same 0, deleted 0,",
		"behind": "fetched 3, same 0, deleted 1,",
	})
	p.put("new")
	follow(map[string]string{"level": "fetched 2,", "behind": "fetched 2,", "ahead": "replica: baseline"})

	p.run("backup", "saved", "--home", "restored")
	p.run("backup", "other", "--home", "restored")
	restored.Kill()
	restore("saved", "again", "its changes from event 1 on stay published")
	restore("other", "once more", "its changes from event 1 on stay published")
	p.serve("once more")
	p.put("newest")
	follow(map[string]string{"level": "fetched 2,", "behind": "fetched 2,", "ahead": "fetched 2,"})
}

// hasCursor looks for the cursor of the callback of the queue.
func (p *promotion) hasCursor(home string) {
	p.t.Helper()
	svc, err := queuefs.Open(filepath.Join(p.dir, home), queuefs.Options{Look: true})
	must(p.t, err)
	defer svc.Close()
	var keys []string
	must(p.t, svc.Subscriptions().Each(func(key string, _ []byte, bad error) bool {
		keys = append(keys, key)
		return bad == nil
	}))
	if !slices.Contains(keys, "queue jobs") {
		p.t.Errorf("%s has subscriptions %q", home, keys)
	}
}

// has compares the jobs of a home with those that were acknowledged.
func has(t *testing.T, home string, known map[string]bool) {
	t.Helper()
	svc, err := queuefs.Open(home, queuefs.Options{})
	must(t, err)
	defer svc.Close()
	q, err := svc.Ask("jobs")
	must(t, err)
	lost, again := 0, 0
	for name, taken := range known {
		id, err := job.ParseID(name)
		must(t, err)
		j, err := q.Job(id)
		if err != nil {
			lost++
		} else if taken && j.Status == job.Pending {
			again++
		}
	}
	if lost > 0 || again > 0 {
		t.Errorf("of %d jobs known before, %d are lost, and %d are pending again", len(known), lost, again)
	}
}

// resources returns the Resource List of the replica set, without what is another at each
// daemon.
func resources(t *testing.T, url string) string {
	t.Helper()
	var all strings.Builder
	for names := []string{"resourcelist.xml"}; len(names) > 0; names = names[1:] {
		text, err := getter(http.DefaultClient, url)(".well-known/resourcesync/jobs/replica/" + names[0])
		must(t, err)
		_, entries, err := parseList(text)
		must(t, err)
		for _, e := range entries {
			if page := e.Loc[strings.LastIndexByte(e.Loc, '/')+1:]; strings.HasPrefix(page, "resourcelist") {
				names = append(names, page)
				continue
			}
			all.WriteString(strings.TrimPrefix(e.Loc, url))
			fmt.Fprintln(&all, e.Hashes, e.Length, e.LastMod)
		}
	}
	return all.String()
}
