package main_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
)

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
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	report := func(p queuefs.Problem) { t.Errorf("reported: %v", p) }
	svc, err := queuefs.Open(dir, queuefs.Options{Report: report, Segment: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		if _, err := svc.CreateQueue(context.Background(), queuefs.QueueInfo{ID: q, CullingSize: -1, CullingAge: -1}); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewUnstartedServer(nil)
	o.BaseURI, o.Report = "http://"+server.Listener.Addr().String()+"/", report
	svc.SetBaseURI(o.BaseURI)
	pub, err := publisher.New(svc, o)
	if err != nil {
		t.Fatal(err)
	}
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
			if err := pub.Tick(context.Background()); err != nil {
				t.Fatal(err)
			}
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
			Meta: queuefs.Meta{MediaType: []string{"text/plain", "application/json", ""}[i%3], Filename: "naïve <file> & more", Sidecar: payload[:min(len(payload), 5)]}})
	}
	ids, err := s.client.Submit(ctx, queue, uploads...)
	if err != nil {
		s.Fatal(err)
	}
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
	if err != nil {
		s.Fatal(err)
	}
	defer d.Body.Close()
	payload, err := io.ReadAll(d.Body)
	if err != nil {
		s.Fatal(err)
	}
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
	if err != nil {
		s.Fatal(err)
	}
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
