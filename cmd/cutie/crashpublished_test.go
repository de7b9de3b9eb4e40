package main_test

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cutie/sitemap"
	"cutie/testdata/long"
)

// Longer files come into a package at its end, if they are there still.
const (
	latePayload = 128 << 10
	lateResult  = 1 << 20
)

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
	r, err := http.NewRequest(method, c.base+what, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
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

// A told is one set as it was read, over all crashes: it never changes.
type told struct {
	set     string
	get     func(path string) ([]byte, error)
	seen    map[string][sha256.Size]byte // documents that never change
	lists   map[string]string            // digests of the resources, by the Change Lists
	dumps   map[string]string            // by the packages of the Change Dump
	missing map[string]string            // by URI: digests of files that packages lack
	until   time.Time                    // end of the last closed list read
	seq     uint64                       // last event in the lists
	lacks   [2]int                       // payloads and results that packages lack
}

// entries reads a document. One of a fixed name is read once.
func (s *told) entries(loc string, fixed bool) (all []sitemap.Entry, known bool, err error) {
	name := published + s.set + "/" + path.Base(loc)
	if _, known = s.seen[name]; fixed && known {
		return nil, true, nil
	}
	octets, err := s.get(name)
	if err != nil {
		return nil, false, err
	}
	if fixed {
		s.seen[name] = sha256.Sum256(octets)
	}
	_, all, err = parseList(octets)
	return all, false, err
}

// apply brings the resources up to date with an entry.
func apply(to map[string]string, e *sitemap.Entry) {
	if e.Change == sitemap.Deleted {
		delete(to, e.Loc)
		return
	}
	to[e.Loc] = e.Hashes[0].Value
}

// read reads the news. The open list is empty: all was published just now.
func (s *told) read() error {
	index, _, err := s.entries("changelist-index.xml", false)
	if err != nil {
		return err
	}
	offered, _, err := s.entries("capabilitylist.xml", false)
	if err != nil {
		return err
	}
	var packages []sitemap.Entry
	if offersChangeDump(offered) {
		if packages, _, err = s.entries("changedump.xml", false); err != nil {
			return err
		}
	}
	var closed []sitemap.Entry
	for _, l := range index {
		if !l.Until.IsZero() {
			closed = append(closed, l)
		} else if open, _, err := s.entries(l.Loc, false); err != nil || len(open) > 0 {
			return fmt.Errorf("the open list has %d entries: %v", len(open), err)
		}
	}
	if len(packages) != len(closed) {
		return fmt.Errorf("%d packages of %d closed lists", len(packages), len(closed))
	}
	for i, l := range closed {
		if p := packages[i]; !p.From.Equal(l.From) || !p.Until.Equal(l.Until) {
			return fmt.Errorf("%s is not the package of %s", p.Loc, l.Loc)
		}
		list, known, err := s.entries(l.Loc, true)
		if err != nil {
			return err
		}
		if known {
			continue
		}
		if !s.until.IsZero() && !l.From.Equal(s.until) {
			return fmt.Errorf("%s begins at %v, the one before ends at %v", l.Loc, l.From, s.until)
		}
		s.until = l.Until
		for i := range list {
			if n := list[i].Seq; n < s.seq || n > s.seq+1 && s.set == "replica" {
				return fmt.Errorf("%s: event %d follows %d", l.Loc, n, s.seq)
			}
			s.seq = list[i].Seq
			apply(s.lists, &list[i])
		}
		if err := s.pack(packages[i].Loc, list); err != nil {
			return fmt.Errorf("%s: %w", packages[i].Loc, err)
		}
	}
	for loc, sum := range s.missing { // an event says it is gone, or another one by now
		if s.lists[loc] == sum {
			return fmt.Errorf("packages lack %s, and no later event says why", loc)
		}
	}
	return nil
}

// pack compares a package with its list, and applies it.
func (s *told) pack(loc string, list []sitemap.Entry) error {
	name := published + s.set + "/" + path.Base(loc)
	octets, err := s.get(name)
	if err != nil {
		return err
	}
	s.seen[name] = sha256.Sum256(octets)
	got, files, err := readPackage(octets)
	if err != nil {
		return err
	}
	for i := range list {
		want := &list[i]
		if len(got) == 0 || got[0].Loc != want.Loc || got[0].Seq != want.Seq || got[0].Change != want.Change {
			isPayload, isResult := strings.Contains(want.Loc, "/payload/"), strings.Contains(want.Loc, "/result/")
			back := want.Event != "submit" // its event has no payload, and the job was culled before it was followed
			if want.Change == sitemap.Deleted || !isResult && !(isPayload && (want.Length > latePayload || back)) {
				return fmt.Errorf("%s of event %d, %d octets, is not in the package", want.Loc, want.Seq, want.Length)
			}
			s.lacks[map[bool]int{isResult: 1}[true]]++
			s.missing[want.Loc] = want.Hashes[0].Value
			continue
		}
		e := got[0]
		got = got[1:]
		apply(s.dumps, &e)
		if want.Change == sitemap.Deleted {
			delete(s.missing, want.Loc)
			continue
		}
		delete(s.missing, want.Loc)
		text := files[strings.TrimPrefix(e.Path, "/")]
		if int64(len(text)) != want.Length || hexSum(text) != want.Hashes[0].Value {
			return fmt.Errorf("%s of event %d is not in the package as it was: %.60q", want.Loc, want.Seq, text)
		}
	}
	if len(got) > 0 {
		return fmt.Errorf("%d entries are not of the list: %s", len(got), got[0].Loc)
	}
	return nil
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

// resources returns the contents of the Resource List or the Resource Dump.
func (s *told) resources(document string) (map[string]string, error) {
	parts, _, err := s.entries(document, false)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, p := range parts {
		if len(p.Hashes) > 0 && !strings.HasSuffix(p.Loc, ".zip") {
			all[p.Loc] = p.Hashes[0].Value
			continue
		}
		octets, err := s.get(published + s.set + "/" + path.Base(p.Loc))
		if err != nil {
			return nil, err
		}
		var entries []sitemap.Entry
		var files map[string][]byte
		if strings.HasSuffix(p.Loc, ".zip") {
			entries, files, err = readPackage(octets)
		} else {
			_, entries, err = parseList(octets)
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			all[e.Loc] = e.Hashes[0].Value
			if text := files[strings.TrimPrefix(e.Path, "/")]; files != nil && hexSum(text) != e.Hashes[0].Value {
				return nil, fmt.Errorf("%s: %s is not as its entry says", p.Loc, e.Loc)
			}
		}
	}
	return all, nil
}

// differ returns a resource in which two states of a set differ.
func differ(a, b map[string]string) string {
	for loc, sum := range a {
		if b[loc] != sum {
			return fmt.Sprintf("%s: %q and %q", loc, sum, b[loc])
		}
	}
	for loc := range b {
		if a[loc] == "" {
			return loc
		}
	}
	return ""
}

// same reports whether the unchanging documents are as before.
func (s *told) same() error {
	for name, sum := range s.seen {
		octets, err := s.get(name)
		if err != nil {
			return err
		}
		if sha256.Sum256(octets) != sum {
			return fmt.Errorf("%s has changed", name)
		}
	}
	return nil
}

// TestWhatIsPublishedSurvivesKills kills the daemon again and again under changes of all
// kinds, with short lists and with culling. After each start all closed lists have their
// packages, and these are complete; Change Lists, packages, Resource List and Resource Dump
// of both sets lead to the same files, which are those in the directory.
func TestWhatIsPublishedSurvivesKills(t *testing.T) {
	t.Parallel()
	rounds := int(environment(t, "CUTIE_CRASH_ROUNDS", uint64(long.N(1, 40))))
	seed := environment(t, "CUTIE_CRASH_SEED", rand.Uint64())
	t.Logf("CUTIE_CRASH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	home := filepath.Join(t.TempDir(), "home")
	args := append(listEntries(), "--listen", fmt.Sprintf("127.%d.%d.%d:8080", 1+random.IntN(254), random.IntN(256), 1+random.IntN(254)),
		"--package-size", "300K", "--period", "150ms", "--dump-period", "1s", "--keep-size", "0")
	d := serveHome(t, home, args...)
	if out, err := cutie(t, "--home", home, "set", "jobs", "--size", "150"); err != nil {
		t.Fatal(out, err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: crashClients}
	c := &throng{base: d.url, http: &http.Client{Transport: transport, Timeout: time.Minute}, random: rand.New(rand.NewPCG(seed, 1))}
	var sets []*told
	for _, set := range []string{"pending", "replica"} {
		sets = append(sets, &told{set: set, get: getter(c.http, d.url), seen: map[string][sha256.Size]byte{}, lists: map[string]string{}, dumps: map[string]string{}, missing: map[string]string{}})
	}
	for round := range rounds {
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(c.run)
		}
		time.Sleep(underLoad(random, 0, crashLatest))
		if err := d.stop(syscall.SIGKILL); err == nil {
			t.Fatal("daemon survived")
		}
		wg.Wait()
		transport.CloseIdleConnections()
		complained(t, d)
		if round%3 == 2 {
			crashStart(t, home, args, time.Duration(random.Int64N(int64(60*time.Millisecond))))
		}
		d = serveHome(t, home, args...)
		publish := []string{"publish", "--now"}
		for _, words := range [][]string{publish, {"cull", "jobs", "-q"}, publish} {
			if out, err := cutie(t, append([]string{"--home", home}, words...)...); err != nil {
				t.Fatalf("round %d: %v: %s", round, err, out)
			}
		}
		for _, s := range sets {
			if err := s.read(); err != nil {
				t.Fatalf("round %d: %s: %v", round, s.set, err)
			}
			want := maps.Clone(s.dumps)
			maps.Copy(want, s.missing)
			if diff := differ(s.lists, want); diff != "" {
				t.Errorf("round %d: %s: lists and packages differ: %s", round, s.set, diff)
			}
			for _, document := range []string{"resourcelist.xml", "resourcedump.xml"} {
				all, err := s.resources(document)
				if err != nil {
					t.Fatalf("round %d: %s: %s: %v", round, s.set, document, err)
				}
				if diff := differ(s.lists, all); diff != "" {
					t.Errorf("round %d: %s: lists and %s differ: %s", round, s.set, document, diff)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	for _, s := range sets {
		if err := s.same(); err != nil {
			t.Error(err)
		}
	}
	if out, err := cutie(t, "audit", "--source", d.url, "--dumps", "--sample", "-1"); err != nil {
		t.Errorf("audit: %v: %s", err, out)
	}
	base := d.url
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	complained(t, d)
	if out, err := cutie(t, "check", home); err != nil || !strings.HasSuffix(out, " 0 mended, 0 problems\n") {
		t.Errorf("check: %v: %s", err, out)
	}
	files := map[string]string{}
	err := filepath.WalkDir(filepath.Join(home, "queues"), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		octets, err := os.ReadFile(name)
		sum := sha256.Sum256(octets)
		files[base+strings.TrimPrefix(name, home+"/")] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := differ(sets[1].lists, files); diff != "" {
		t.Errorf("lists and directory differ: %s", diff)
	}
	t.Logf("%d rounds, %d events, %d files, %d and %d documents, packages lack late payloads and results that are gone: %v and %v", rounds, sets[1].seq, len(files), len(sets[0].seen), len(sets[1].seen), sets[0].lacks, sets[1].lacks)
}
