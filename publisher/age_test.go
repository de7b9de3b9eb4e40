package publisher_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
)

// closed returns the closed lists in the index of pending of a queue.
func (s *source) closed(q *queuefs.Queue) []sitemap.Entry {
	s.Helper()
	all := s.document(s.doc(q, "pending", "changelist-index.xml")).entries
	return all[:len(all)-1]
}

func TestANewQueueHasAChangeDumpAfterAMinute(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, restart := range []bool{false, true} {
		s := newSource(t, publisher.Options{Period: time.Hour, Now: func() time.Time { return now }}, "jobs")
		q := s.queue("jobs")
		now = now.Add(24 * time.Hour) // a queue without events stays new
		s.ticks(2)
		if n := len(s.closed(q)); n > 0 {
			t.Errorf("%d lists of no event are closed", n)
		}
		s.submitN(q, 1)
		now = now.Add(59 * time.Second)
		s.ticks(2)
		if n := len(s.closed(q)); n > 0 {
			t.Errorf("%d lists are closed within a minute", n)
		}
		if restart {
			s.pub.KeepOpen(0)
			s.reopen()
		}
		now = now.Add(time.Second)
		s.ticks(3)
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, "jobs", set)
			d := m.capability(sitemap.ChangeDump)
			if len(d.entries) != 1 {
				t.Fatalf("restart %v: %s: %d packages", restart, set, len(d.entries))
			}
			manifest, files := openPackage(m, s.body(d.entries[0].Loc))
			if len(manifest.entries) == 0 || len(files) == 0 {
				t.Errorf("restart %v: %s: manifest %+v, files %v", restart, set, manifest, files)
			}
		}
	}
}

// A list is as old as its set was when the list began; a queue with a job every ten
// seconds shows it.
func TestListsOfAnOldSetStayOpenForLonger(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := begin
	s := newSource(t, publisher.Options{Period: time.Hour, Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	for now.Sub(begin) < 4*time.Hour {
		s.submitN(q, 1)
		s.ticks(1)
		now = now.Add(10 * time.Second)
	}
	var got []int
	for _, e := range s.closed(q) {
		got = append(got, int(e.Until.Sub(e.From).Round(time.Minute)/time.Minute))
	}
	if want := []int{1, 1, 3, 5, 11, 21, 43, 60, 60}; !slices.Equal(got, want) {
		t.Errorf("lists closed after minutes: got %v, want %v", got, want)
	}
}

func TestListsThatWaitLongestCloseFirst(t *testing.T) {
	now, step := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), time.Duration(0)
	clock := func() time.Time { now = now.Add(step); return now }
	const n = 12
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("q%02d", (i*5)%n)) // not in the order of their names
	}
	s := newSource(t, publisher.Options{Period: time.Hour, Now: clock}, ids...)
	for _, id := range ids {
		s.submitN(s.queue(id), 1)
		now = now.Add(time.Second)
	}
	s.ticks(1)
	now = now.Add(time.Hour)
	closed := func() (all []string) {
		for _, st := range s.pub.State() {
			if st.Lists > 0 && !slices.Contains(all, st.Queue) {
				all = append(all, st.Queue)
			}
		}
		return all
	}
	step = 4 * time.Millisecond // each look at the clock takes so long
	for ticks := 0; len(closed()) < n; ticks++ {
		if ticks == 100 {
			t.Fatalf("after %d ticks only %v are closed", ticks, closed())
		}
		s.ticks(1)
		got := slices.Sorted(slices.Values(closed()))
		want := slices.Sorted(slices.Values(ids[:len(got)]))
		if ticks == 0 && (len(got) == 0 || len(got) > n/2) {
			t.Errorf("%d queues of %d are closed in one tick", len(got), n)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("after tick %d closed %v, want the oldest %v", ticks, got, want)
		}
	}
}

// from gets a URL of the site with notifications.
func (s *source) from(n http.Handler, url string) *http.Response {
	s.Helper()
	path := strings.TrimPrefix(url, base)
	if !strings.HasPrefix(path, "/.well-known/") {
		return s.get(url)
	}
	w := httptest.NewRecorder()
	n.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Result()
}

// crawl gets every document of the Source, and everything that a document names, from the
// Source Description on. It returns the URLs, and adds the documents to docs.
func (s *source) crawl(n http.Handler, docs map[string]document) (all []string) {
	s.Helper()
	seen, todo := map[string]bool{}, []string{base + "/.well-known/resourcesync"}
	for len(todo) > 0 {
		url := todo[0]
		todo = todo[1:]
		if seen[url] {
			continue
		}
		seen[url] = true
		if strings.HasPrefix(url, base+"/state/") || url == hubURI {
			continue // answered by other parts of the program
		}
		resp := s.from(n, url)
		if resp.StatusCode != http.StatusOK {
			s.Errorf("%s is named, and answers %s", url, resp.Status)
			continue
		}
		if !strings.HasSuffix(url, ".xml") && !strings.HasSuffix(url, "/resourcesync") {
			continue
		}
		d := parse(s, read(s, resp))
		docs[string(d.octets)] = d
		for _, l := range d.head.Links {
			todo = append(todo, l.Href)
		}
		for _, e := range d.entries {
			// What a list of changes names may have changed again.
			if d.head.Capability == sitemap.ChangeList && d.root == sitemap.URLSet || strings.Contains(string(d.head.Capability), "manifest") ||
				d.head.Capability == sitemap.ChangeNotification {
				continue
			}
			if strings.HasPrefix(e.Loc, base+"/queues/") && !strings.HasSuffix(url, "/resourcelist.xml") {
				continue // a former Resource List
			}
			todo = append(todo, e.Loc)
			for _, l := range e.Links {
				todo = append(todo, l.Href)
			}
		}
	}
	return slices.Collect(maps.Keys(seen))
}

func TestWhatIsNamedAnswersAndIsValidFromTheFirstEventOn(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, dialect := range []sitemap.Dialect{sitemap.V11, sitemap.V09} {
		docs := map[string]document{}
		s := newSource(t, publisher.Options{Period: time.Hour, DumpPeriod: 2 * time.Hour, Dialect: dialect, MaxEntries: 40,
			Retention: publisher.Retention{Current: 3 * time.Hour}, Now: func() time.Time { return now }}, "jobs")
		q := s.queue("jobs")
		n := s.notifier()
		absent := func(names ...string) {
			t.Helper()
			all := s.crawl(n, docs)
			for _, set := range []string{"pending", "replica"} {
				for _, name := range names {
					url := s.doc(q, set, name)
					if slices.Contains(all, url) {
						t.Errorf("%v: %s is named", dialect, url)
					}
					if resp := s.from(n, url); resp.StatusCode != http.StatusNotFound {
						t.Errorf("%v: %s answers %s", dialect, url, resp.Status)
					}
				}
			}
		}
		archives := []string{"changelist-archive.xml", "changedump-archive.xml", "resourcelist-archive.xml", "resourcedump-archive.xml"}
		absent(append(archives, "changedump.xml", "resourcedump.xml")...)
		s.submitN(q, 3)
		absent(append(archives, "changedump.xml", "resourcedump.xml")...)
		s.ticks(2) // the first Resource Dump
		absent(append(archives, "changedump.xml")...)
		for range 30 {
			now = now.Add(61 * time.Second)
			s.ticks(2)
			absent()
			now = now.Add(29 * time.Minute)
			s.submitN(q, 8)
			s.consume(q, 4)
			s.ticks(2)
		}
		must(t, s.pub.Publish(context.Background()))
		absent()
		t.Run(dialect.String(), func(t *testing.T) {
			v := newValidator(t)
			v.older = dialect != sitemap.V11
			for _, d := range docs {
				v.add(d)
			}
			v.check()
		})
	}
}
