package publisher_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// work takes a job and gives it results.
func (s *source) work(q *queuefs.Queue, results map[string]string) job.ID {
	s.Helper()
	taken, err := q.Take(context.Background(), queuefs.Take{By: "w", Lease: time.Hour})
	must(s, err)
	for name, content := range results {
		up, err := q.NewResult(context.Background(), taken[0].ID, taken[0].Token, name, "text/plain", nil)
		must(s, err)
		_, err = io.WriteString(up, content)
		must(s, err)
		_, err = up.Commit(context.Background())
		must(s, err)
	}
	return taken[0].ID
}

func (s *source) cull(q *queuefs.Queue) (n int) {
	s.Helper()
	for _, err := range s.svc.Cull(context.Background(), queuefs.CullOptions{Queue: q.ID(), Keep: &queuefs.Thresholds{}}) {
		must(s, err)
		n++
	}
	return n
}

// TestResultsAreResourcesOfTheReplica follows results that come, go with a requeue, and go
// with their job, in all ways a mirror has.
func TestResultsAreResourcesOfTheReplica(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	changes, dumps := newMirror(s, "jobs", "replica"), newMirror(s, "jobs", "replica")
	pending := newMirror(s, "jobs", "pending")
	all := newMirror(s, "jobs", "replica")
	for _, m := range []*mirror{changes, dumps, pending, all} {
		m.baseline()
	}
	large := strings.Repeat("large ", 300_000)
	results := func(m *mirror) (n int) {
		for loc := range m.files {
			if strings.Contains(loc, "/result/") {
				n++
			}
		}
		return n
	}
	compare := func(step string, want int) {
		t.Helper()
		changes.incremental(nil)
		must(t, s.pub.Publish(context.Background()))
		dumps.dumps()
		pending.incremental(nil)
		pending.compare(q)
		list := newMirror(s, "jobs", "replica")
		list.baseline()
		for name, m := range map[string]*mirror{"changes": changes, "dumps": dumps, "list": list} {
			m.compare(q)
			if got := results(m); got != want || m.lost > 0 && m == list {
				t.Errorf("%s: %s: %d results, want %d; %d lost", step, name, got, want, m.lost)
			}
		}
		dump := newMirror(s, "jobs", "replica")
		got := 0
		for _, e := range dump.capability(sitemap.ResourceDump).entries {
			manifest, z := openPackage(dump, s.body(e.Loc))
			for _, c := range manifest.entries {
				dump.apply(&c, z[strings.TrimPrefix(c.Path, "/")])
			}
		}
		if got = results(dump); got != want {
			t.Errorf("%s: Resource Dump: %d results, want %d", step, got, want)
		}
		dump.compare(q)
	}
	s.submit(q, "one", "two", "three")
	compare("submitted", 0)
	first := s.work(q, map[string]string{"log": "of the first", "data.large": large, "empty": ""})
	compare("results", 3)
	s.work(q, map[string]string{"log": "of the second"})
	compare("more results", 4)
	s.requeue(q, first)
	compare("requeued", 1)
	if got := s.work(q, map[string]string{"log": "of the second attempt"}); got != first {
		t.Fatalf("got job %v", got)
	}
	compare("again", 2)
	for id := range job.ID(2) {
		_, err := q.Abort(context.Background(), id+1, "")
		must(t, err)
	}
	if n := s.cull(q); n != 2 {
		t.Fatalf("culled %d", n)
	}
	compare("culled", 0)
	deleted := 0
	all.incremental(func(e *sitemap.Entry) {
		if strings.Contains(e.Loc, "/result/") && e.Change == sitemap.Deleted {
			deleted++
		}
	})
	if all.compare(q); deleted != 5 {
		t.Errorf("%d results deleted, want 5", deleted)
	}
}

// TestAJobOfManyResults has an event with more names than others.
func TestAJobOfManyResults(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	s.submit(q, "one")
	results := map[string]string{}
	for n := range 100 {
		results[fmt.Sprintf("%s-%03d", strings.Repeat("x", 60), n)] = fmt.Sprint(n)
	}
	m := newMirror(s, "jobs", "replica")
	m.since = q.Info().Created
	id := s.work(q, results)
	m.incremental(nil)
	m.compare(q)
	s.requeue(q, id)
	s.reopen()
	m.source = s
	m.incremental(nil)
	m.compare(s.queue("jobs"))
	if len(m.files) != 3 {
		t.Errorf("got %d files", len(m.files))
	}
}

// TestResultsMakeAListAnIndex gives few jobs more results than a list has space for. HEAD
// and GET have the same entity tag before and after.
func TestResultsMakeAListAnIndex(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 10}, "jobs")
	q := s.queue("jobs")
	s.submit(q, "one", "two")
	url := s.doc(q, "replica", "resourcelist.xml")
	check := func(root sitemap.Root) {
		t.Helper()
		if d := s.document(url); d.root != root {
			t.Errorf("got %v, want %v", d.root, root)
		}
		if head, get := s.do("HEAD", url), s.get(url); head.Header.Get("ETag") != get.Header.Get("ETag") || head.StatusCode != 200 {
			t.Errorf("HEAD: %s %s, GET: %s", head.Status, head.Header.Get("ETag"), get.Header.Get("ETag"))
		}
		m := newMirror(s, "jobs", "replica")
		m.baseline()
		m.compare(q)
	}
	check(sitemap.URLSet)
	results := map[string]string{}
	for n := range 9 {
		results[fmt.Sprint("r", n)] = fmt.Sprint(n)
	}
	id := s.work(q, results)
	check(sitemap.SitemapIndex)
	s.requeue(q, id)
	check(sitemap.URLSet)
}
