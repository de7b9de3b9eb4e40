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
	"testing"
	"time"

	"cutie/queuefs/job"
	"cutie/sitemap"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// lateResult is the size from which a result comes into a package at its end.
const lateResult = 1 << 20

// anything makes a change of any kind. It may be refused.
func (c *loader) anything() (gone bool) {
	ask := func(method, what, body string, header ...string) http.Header {
		resp, _, err := processes.Request(c.http, method, c.base+what, body, header...)
		if err != nil {
			gone = true
			return http.Header{}
		}
		if id, err := job.ParseID(path.Base(cmp.Or(resp.Header.Get("Content-Location"), resp.Header.Get("Location")))); err == nil {
			c.mine = append(c.mine, id)
		}
		return resp.Header
	}
	texts := 0
	text := func(size int) string { // like no other
		texts++
		return strings.Repeat(fmt.Sprintf("text %d of client %d, operation %d\n", texts, c.number, c.ops), 1+size/30)
	}
	id := ""
	if len(c.mine) > 0 { // mostly a late one
		id = c.mine[len(c.mine)-1-c.random.IntN(min(len(c.mine), 60))].String()
	}
	size := c.random.IntN(2 << 10)
	switch kind := c.random.IntN(100); {
	case kind < 40:
		ask("POST", "content/jobs", text(size), "Content-Type", "text/plain", "Accept", "application/json")
	case kind < 42:
		ask("POST", "content/jobs", text(latePayload+size), "Content-Type", "text/plain", "Accept", "application/json")
	case kind < 60:
		ask("POST", "consume/jobs", "", "Accept", "application/octet-stream")
	case kind < 75: // takes a job, stores results, and reports
		taken := ask("POST", "consume/jobs?lease=86400", "", "Accept", "application/octet-stream")
		lease, id := taken.Get("Cutie-Lease"), path.Base(taken.Get("Content-Location"))
		for n := range c.random.IntN(3) {
			length := size
			if size%50 == 0 {
				length += lateResult
			}
			ask("PUT", fmt.Sprintf("result/jobs/%s/r%d", id, n), text(length), "Cutie-Lease", lease, "Content-Type", "text/plain")
		}
		if size%3 != 0 { // else it stays in work
			ask("POST", "outcome/jobs/"+id+"?outcome="+[]string{"completed", "released"}[size%2], "", "Cutie-Lease", lease)
		}
	case id == "":
	case kind < 80:
		ask("DELETE", "content/jobs/"+id, "")
	case kind < 90:
		ask("POST", "requeue/jobs/"+id, "")
	case kind < 94:
		ask("POST", "hold/jobs/"+id, "")
	default:
		ask("POST", "release/jobs/"+id, "")
	}
	return gone
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
	clients := newLoaders(12, seed, d.URL, &http.Client{Transport: transport, Timeout: time.Minute})
	for _, c := range clients {
		c.wild = true
	}
	get := getter(clients[0].http, d.URL)
	fixed := map[string][sha256.Size]byte{} // closed lists never change
	for round := range rounds {
		crash(t, d, clients, underLoad(random, 0, crashLatest), nil)
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
