package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// Copies of all sets of a Source, kept up in different ways.
type copies struct {
	*followed
	replica string // replica sets, followed from nothing, all in one directory
	all     []copyOf
	docs    []*rsDocument
}

type copyOf struct {
	*destination
	queue, set string
	update     way
}

func newCopies(t *testing.T, s *followed) *copies {
	t.Helper()
	return &copies{followed: s, replica: t.TempDir()}
}

// A way is how a copy is kept up to date.
type way func(*destination) error

func byLists(d *destination) error    { return d.incremental() }
func byPackages(d *destination) error { return d.unpack() }

// byBoth takes from lists what is not in packages yet.
func byBoth(d *destination) error {
	if err := d.unpack(); err != nil {
		return err
	}
	return d.incremental()
}

// begin begins a copy of every set. The first copies of all sets replica share
// a directory.
func (c *copies) begin(update way) {
	c.Helper()
	first := len(c.all) == 0
	saved := func(d *rsDocument) { c.docs = append(c.docs, d) }
	lists, err := sets(http.DefaultClient, c.base, saved)
	must(c, err)
	if got, want := len(lists), 2*len(c.jobs); got != want {
		c.Fatalf("%d sets, want %d", got, want)
	}
	for _, list := range lists {
		dir := c.TempDir()
		set := strings.Split(list, "/")
		set = set[len(set)-3:]
		if set[1] == "replica" && first {
			dir = c.replica
		}
		d, err := newDestination(http.DefaultClient, c.base, list, dir, saved)
		must(c, err)
		queue, err := url.PathUnescape(set[0])
		must(c, err)
		if err := d.baseline(); err != nil {
			c.Fatalf("%s: %v", list, err)
		}
		c.all = append(c.all, copyOf{d, queue, set[1], update})
		c.compare(dir, queue, set[1])
	}
}

// follow brings all copies up to date and compares them.
func (c *copies) follow() {
	c.Helper()
	for _, k := range c.all {
		if err := k.update(k.destination); err != nil {
			c.Fatalf("%s: %v", k.destination.set, err)
		}
		c.compare(k.dir, k.queue, k.set)
		if c.Failed() {
			c.Fatalf("%s differs", k.destination.set)
		}
	}
}

// validate checks the documents that were fetched with the schemas, if these
// are there. The schemas want an entry where version 1.1 does not.
// want are the kinds of documents that must be among them.
func (c *copies) validate(t *testing.T, want ...string) {
	t.Helper()
	t.Run("valid", func(t *testing.T) {
		if _, err := exec.LookPath("xmllint"); err != nil {
			t.Skip("xmllint is not installed")
		}
		shared := os.Getenv("CUTIE_SHARED")
		if shared == "" {
			shared = "../../../shared"
		}
		xsd := filepath.Join(shared, "xsd")
		if _, err := os.Stat(filepath.Join(xsd, "joint-sitemap.xsd")); err != nil {
			t.Skip("the schemas are not in ../shared/xsd beside the repository, nor below $CUTIE_SHARED")
		}
		dir := t.TempDir()
		files := map[string][]string{}
		seen := map[string]bool{}
		kinds := map[string]bool{}
		for i, d := range c.docs {
			if len(d.URLs)+len(d.Sitemaps) == 0 || seen[string(d.octets)] {
				continue
			}
			seen[string(d.octets)] = true
			name := filepath.Join(dir, fmt.Sprintf("%s-%d.xml", d.MD[0].Capability, i))
			must(t, os.WriteFile(name, d.octets, 0o666))
			kind := d.MD[0].Capability
			if d.isIndex() {
				kind += " index"
			}
			kinds[kind] = true
			files[d.XMLName.Local] = append(files[d.XMLName.Local], name)
		}
		for root, schema := range map[string]string{"urlset": "joint-sitemap.xsd", "sitemapindex": "joint-siteindex.xsd"} {
			for names := range slices.Chunk(files[root], 200) {
				args := append([]string{"--nonet", "--noout", "--schema", filepath.Join(xsd, schema)}, names...)
				if out, err := exec.Command("xmllint", args...).CombinedOutput(); err != nil {
					t.Errorf("xmllint: %v\n%.2000s", err, out)
				}
			}
		}
		if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got, want) {
			t.Errorf("documents of kinds %v, want %v", got, want)
		}
	})
}

func TestFollowAcrossClosedLists(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o        publisher.Options
		packages int // at least, for each copy
	}{
		{publisher.Options{MaxEntries: 9}, 3},
		{publisher.Options{MaxEntries: 25, MaxPackage: 100}, 1},
	} {
		if !long.On() && tt.packages > 1 {
			continue
		}
		t.Run(fmt.Sprintf("%d entries", tt.o.MaxEntries), func(t *testing.T) {
			s := inProcess(t, tt.o, "jobs", "a^20b")
			c := newCopies(t, s)
			c.begin(byLists)
			c.begin(byBoth)
			for round := range 6 {
				for queue := range s.jobs {
					s.work(queue, round)
				}
				if round%2 == 1 {
					s.settle()
				}
				c.follow()
			}
			c.begin(byLists) // late
			s.work("jobs", 6)
			s.settle()
			c.follow()
			for _, k := range c.all[:4] {
				if k.turns < 2 {
					t.Errorf("%s: the index of closed lists was needed %d times", k.destination.set, k.turns)
				}
			}
			for _, k := range c.all[4:8] {
				if k.packs < tt.packages {
					t.Errorf("%s: %d packages", k.destination.set, k.packs)
				}
			}
			c.validate(t, "capabilitylist", "changedump", "changedump-manifest", "changelist", "changelist index", "description", "resourcelist", "resourcelist index")
		})
	}
}

// Packages alone lead to the true state of a queue.
func TestFollowByPackagesAlone(t *testing.T) {
	t.Parallel()
	// Every tick closes the list, so that the packages tell everything.
	s := inProcess(t, publisher.Options{Period: time.Nanosecond}, "jobs")
	c := newCopies(t, s)
	c.begin(byPackages)
	for round := range 6 {
		s.work("jobs", round)
		s.settle()
		c.follow()
	}
	for _, k := range c.all {
		if k.packs < 6 {
			t.Errorf("%s: %d packages", k.destination.set, k.packs)
		}
	}
	c.validate(t, "capabilitylist", "changedump", "changedump-manifest", "description", "resourcelist")
}

// TestCopyOfAReplicaIsAQueue follows the program, over a restart, makes a home
// of the copy, and compares the two.
func TestCopyOfAReplicaIsAQueue(t *testing.T) {
	t.Parallel()
	const other = "ark+=13030=a^20b"
	home := filepath.Join(t.TempDir(), "home")
	// An address of its own, so that references hold over the restart.
	listen := ownAddress(rand.New(rand.NewPCG(rand.Uint64(), 0)))
	d := processes.Serve(t, home, "--listen", listen)
	run(t, "createQueue", "ark:/13030/a b", "--url", d.URL)
	s := newFollowed(t, d.URL, nil, "jobs", other)
	c := newCopies(t, s)
	c.begin(byLists)
	for round := range 6 {
		s.work("jobs", round)
		s.work(other, round+1)
		c.follow()
		switch round {
		case 1:
			c.begin(byBoth)
		case 3:
			d.End(t)
			d = processes.Serve(t, home, "--listen", listen)
			c.follow()
		}
	}
	c.validate(t, "capabilitylist", "changelist", "changelist index", "description", "resourcelist")
	want := statesOf(t, d.URL, s)
	d.End(t)
	diffTrees(t, readTree(t, c.replica, "queues"), readTree(t, home, "queues"))

	if out, err := cutie(t, "check", "--rebuild", c.replica); err != nil || !strings.HasSuffix(out, " 0 problems\n") {
		t.Fatalf("check: %v: %s", err, out)
	}
	if out, err := cutie(t, "check", c.replica); err != nil || !strings.HasSuffix(out, " 0 mended, 0 problems\n") {
		t.Fatalf("second check: %v: %s", err, out)
	}
	d = processes.Serve(t, c.replica)
	diffTrees(t, statesOf(t, d.URL, s), want)
	s = &followed{TB: t, base: d.URL, client: newFollowed(t, d.URL, nil).client, jobs: s.jobs}
	for queue := range s.jobs {
		for range s.with(queue, "pending") {
			s.take(queue)
		}
	}
	d.End(t)
}

// statesOf returns the states of all jobs, and the order of those in each
// status, with references that do not depend on where the daemon is.
func statesOf(t *testing.T, base string, s *followed) map[string]string {
	t.Helper()
	states := map[string]string{}
	get := func(path string) string {
		text, err := getter(http.DefaultClient, base)(path)
		must(t, err)
		return strings.ReplaceAll(string(text), base, "/")
	}
	for queue, jobs := range s.jobs {
		at := "state/" + url.PathEscape(queue)
		for id := range jobs {
			states[at+"/"+id] = get(at + "/" + id + "?t=json")
		}
		for _, status := range []string{"pending", "consumed", "deleted"} {
			var a queueAnswer
			must(t, json.Unmarshal([]byte(get(at+"?t=json&limit=1000&status="+status)), &a))
			for i, ref := range a.Refs {
				a.Refs[i] = filepath.Base(ref)
			}
			if want := s.with(queue, status); !slices.Equal(a.Refs, want) {
				t.Errorf("%s of %s: got %v, want %v", status, queue, a.Refs, want)
			}
			states[queue+" "+status] = strings.Join(a.Refs, " ")
		}
	}
	return states
}

// A followed is a Source with someone who works at its queues, over HTTP, and
// remembers what must be in them.
type followed struct {
	testing.TB
	base   string
	client *client.Client
	settle func() // lets the Source do what it does from time to time
	jobs   map[string]map[string]*followedJob
}

type followedJob struct {
	payload string
	status  string
}

func newFollowed(t testing.TB, base string, settle func(), queues ...string) *followed {
	s := &followed{TB: t, base: base, client: client.New(base, nil), settle: settle, jobs: map[string]map[string]*followedJob{}}
	for _, q := range queues {
		s.jobs[q] = map[string]*followedJob{}
	}
	return s
}

// inProcess is a Source with options that the program does not offer.
func inProcess(t *testing.T, o publisher.Options, queues ...string) *followed {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	must(t, home.Init(dir, home.ServiceInfo{Name: "test"}))
	report := func(p durable.Finding) { t.Errorf("reported: %v", p) }
	svc, err := queuefs.Open(dir, queuefs.Options{Report: report, Segment: 2 << 20})
	must(t, err)
	for _, q := range queues {
		if _, err := svc.CreateQueue(context.Background(), home.QueueInfo{ID: q, CullingSize: -1, CullingAge: -1}); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewUnstartedServer(nil)
	o.BaseURI, o.Report = "http://"+server.Listener.Addr().String()+"/", report
	svc.SetBaseURI(o.BaseURI)
	pub, err := publisher.New(svc, o)
	must(t, err)
	svc.Follow(pub)
	mux := http.NewServeMux()
	mux.Handle("/", rest.New(svc, rest.Options{}))
	mux.Handle("/.well-known/", pub)
	server.Config.Handler = mux
	server.Start()
	t.Cleanup(func() {
		server.Close()
		for _, c := range []func() error{svc.Close, pub.Close} {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	})
	return newFollowed(t, o.BaseURI, func() {
		for range 30 {
			must(t, pub.Tick(context.Background()))
		}
	}, queues...)
}

// work does a bit of everything to a queue.
func (s *followed) work(queue string, round int) {
	s.Helper()
	ctx := context.Background()
	var uploads []client.Upload
	var payloads []string
	for i := range 4 + round%3 {
		payload := fmt.Sprintf("job %d of round %d\n", i, round)
		switch {
		case i == 1 && round == 1:
			payload = strings.Repeat(payload, 20_000) // beyond what travels in the journal
		case i == 2:
			payload = ""
		}
		payloads = append(payloads, payload)
		uploads = append(uploads, client.Upload{Size: int64(len(payload)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(payload)), nil },
			Meta: job.Meta{MediaType: []string{"text/plain", "application/json", ""}[i%3], Filename: "naïve <file> & more", Sidecar: payload[:min(len(payload), 5)]}})
	}
	ids, err := s.client.Submit(ctx, queue, uploads...)
	must(s, err)
	for i, id := range ids {
		s.jobs[queue][id] = &followedJob{payloads[i], "pending"}
	}
	var taken []string
	for range 3 {
		taken = append(taken, s.take(queue))
	}
	if _, err := s.client.Delete(ctx, queue, ids[len(ids)-1]); err != nil {
		s.Fatal(err)
	}
	s.jobs[queue][ids[len(ids)-1]].status = "deleted"
	for i, id := range []string{taken[1], ids[len(ids)-1]} {
		if round%(2+i) != 0 {
			continue
		}
		if _, err := s.client.Requeue(ctx, queue, id); err != nil {
			s.Fatal(err)
		}
		s.jobs[queue][id].status = "pending"
	}
}

// take takes the head of a queue and checks that it is the one.
func (s *followed) take(queue string) string {
	s.Helper()
	d, err := s.client.Next(context.Background(), queue, 0)
	must(s, err)
	defer d.Body.Close()
	payload, err := io.ReadAll(d.Body)
	must(s, err)
	pending := s.with(queue, "pending")
	if d.Job != pending[0] || string(payload) != s.jobs[queue][d.Job].payload {
		s.Fatalf("%s: got %s with %.40q, want %s", queue, d.Job, payload, pending[0])
	}
	s.jobs[queue][d.Job].status = "consumed"
	return d.Job
}

// with returns the jobs of a status in their order.
func (s *followed) with(queue, status string) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(s.jobs[queue])) {
		if s.jobs[queue][id].status == status {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *followed) get(path string) string {
	s.Helper()
	octets, err := getter(http.DefaultClient, s.base)(path)
	must(s, err)
	return string(octets)
}

// files returns what a copy of a set must hold, by path.
func (s *followed) files(queue, set string) map[string]string {
	s.Helper()
	dir := "queues/" + queue + "/"
	want := map[string]string{}
	if set == "replica" {
		want[dir+"queue-info.txt"] = s.get(dir + "queue-info.txt")
	}
	for id, j := range s.jobs[queue] {
		if set == "pending" && j.status != "pending" {
			continue
		}
		want[dir+"payload/"+id] = j.payload
		if set == "replica" {
			want[dir+j.status+"/"+id] = s.get(dir + j.status + "/" + id)
		}
	}
	return want
}

// compare checks a copy of a set.
func (s *followed) compare(dir, queue, set string) {
	s.Helper()
	diffTrees(s, readTree(s, dir, "queues/"+queue), s.files(queue, set))
}

// readTree returns the files below sub in dir, by path.
func readTree(t testing.TB, dir, sub string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), sub, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		octets, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(octets)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return files
}

func diffTrees(t testing.TB, got, want map[string]string) {
	t.Helper()
	for path, text := range want {
		if g, ok := got[path]; !ok {
			t.Errorf("%s is missing", path)
		} else if g != text {
			t.Errorf("%s: got %.200q, want %.200q", path, g, text)
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%s should not be there", path)
		}
	}
}
