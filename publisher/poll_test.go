package publisher_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/sitemap"
	"cutie/testdata/long"
)

// A waiting is a request on its way.
type waiting struct {
	done chan struct{}
	resp *http.Response
}

// wait asks for a document and waits for another state than that of the tag.
func (s *source) wait(ctx context.Context, url, tag, prefer string) *waiting {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, strings.TrimPrefix(url, base), nil)
	r.Header.Set("If-None-Match", tag)
	r.Header.Set("Prefer", prefer)
	w := &waiting{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		rec := httptest.NewRecorder()
		s.pub.ServeHTTP(rec, r)
		w.resp = rec.Result()
	}()
	return w
}

// answer returns the answer, which must come.
func (w *waiting) answer(t testing.TB) *http.Response {
	t.Helper()
	select {
	case <-w.done:
		return w.resp
	case <-time.After(20 * time.Second):
		t.Fatal("no answer")
		return nil
	}
}

// tick lets the source go on until the answer is there: a request may come to
// wait after any one Tick.
func (s *source) tick(w *waiting) *http.Response {
	s.Helper()
	for {
		must(s, s.pub.Tick(context.Background()))
		select {
		case <-w.done:
			return w.resp
		default:
		}
	}
}

func (s *source) tag(url string) string {
	s.Helper()
	return s.get(url).Header.Get("ETag")
}

func TestAWaitingRequestIsAnsweredWhenTheDocumentChanges(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 2}, "jobs")
	q := s.queue("jobs")
	for _, tt := range []struct {
		doc    string
		change func()
	}{
		{"changelist.xml", func() { s.submitN(q, 1) }},
		{"resourcelist.xml", func() { s.submitN(q, 1) }},
		{"changelist-index.xml", func() { s.submitN(q, 5) }},
		{"changedump.xml", func() { s.submitN(q, 5); s.settle() }}, // packages come without an event
	} {
		t.Run(tt.doc, func(t *testing.T) {
			url := s.doc(q, "pending", tt.doc)
			tag := s.tag(url)
			w := s.wait(context.Background(), url, tag, "respond-async, wait=60")
			tt.change()
			resp := s.tick(w)
			if resp.StatusCode != 200 || resp.Header.Get("ETag") == tag || resp.Header.Get("Preference-Applied") != "wait=60" {
				t.Errorf("%s %v", resp.Status, resp.Header)
			}
			body := read(t, resp)
			parse(t, body)
		})
	}
}

// TestAnEventWakesByItself has no Tick.
func TestAnEventWakesByItself(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	for _, doc := range []string{"changelist.xml", "resourcelist.xml"} {
		url := s.doc(q, "replica", doc)
		w := s.wait(context.Background(), url, s.tag(url), "wait=60")
		s.submitN(q, 1)
		if resp := w.answer(t); resp.StatusCode != 200 {
			t.Errorf("%s: %s", doc, resp.Status)
		}
	}
}

func TestNewQueuesWakeThoseWhoWaitForTheSourceDescription(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	url := base + "/.well-known/resourcesync"
	w := s.wait(context.Background(), url, s.tag(url), `wait="7"`)
	s.queue("more")
	resp := s.tick(w)
	if got := parse(t, read(t, resp)); len(got.entries) != 4 || resp.Header.Get("Preference-Applied") != "wait=7" {
		t.Errorf("%s with %d sets, %v", resp.Status, len(got.entries), resp.Header)
	}
}

func TestAWaitingRequestEndsWithItsContext(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	url := s.doc(s.queue("jobs"), "replica", "changelist.xml")
	tag := s.tag(url)
	ctx, cancel := context.WithCancel(context.Background())
	w := s.wait(ctx, url, tag, "wait=60")
	cancel()
	if resp := w.answer(t); resp.StatusCode != 304 || resp.Header.Get("ETag") != tag {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	// The time is over.
	if resp := s.wait(context.Background(), url, tag, "wait=1").answer(t); resp.StatusCode != 304 || resp.Header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
}

func TestARemovedQueueEndsTheWaiting(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	url := s.doc(s.queue("jobs"), "pending", "changelist.xml")
	w := s.wait(context.Background(), url, s.tag(url), "wait=60")
	must(t, s.svc.RemoveQueue(context.Background(), "jobs"))
	if resp := s.tick(w); resp.StatusCode != 410 || resp.Header.Get("Preference-Applied") != "" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
}

// TestWhoHasNothingToCompareDoesNotWait would take its time if it did.
func TestWhoHasNothingToCompareDoesNotWait(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 2}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 5)
	must(t, s.pub.Flush())
	for _, tt := range []struct {
		doc, tag, prefer string
		status           int
		applied          string
	}{
		{"changelist.xml", "", "wait=3000", 200, "wait=60"},
		{"changelist.xml", `"other"`, "wait=60", 200, "wait=60"},
		{"changelist.xml", "*", "wait=0", 304, ""},
		{"changelist.xml", "*", "wait=-1", 304, ""},
		{"changelist.xml", "*", "wait=x, wait=60", 304, ""},
		{"changelist.xml", "*", "awaits=60", 304, ""},
		{"changelist-000000000001.xml", "*", "wait=60", 304, ""}, // it never changes
	} {
		h := []string{"Prefer", tt.prefer}
		if tt.tag != "" {
			h = append(h, "If-None-Match", tt.tag)
		}
		resp := s.get(s.doc(q, "pending", tt.doc), h...)
		if got := resp.Header.Get("Preference-Applied"); resp.StatusCode != tt.status || got != tt.applied {
			t.Errorf("%+v: got %s, %q", tt, resp.Status, got)
		}
	}
}

func TestManyWaitWhileOthersWork(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	var urls []string
	for _, set := range []string{"pending", "replica"} {
		for _, name := range []string{"changelist.xml", "resourcelist.xml", "changelist-index.xml", "changedump.xml"} {
			urls = append(urls, s.doc(q, set, name))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range 400 {
		url := urls[i%len(urls)]
		all.Go(func() {
			tag := ""
			for ctx.Err() == nil {
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, strings.TrimPrefix(url, base), nil)
				r.Header.Set("Prefer", "wait=60")
				r.Header.Set("If-None-Match", tag)
				rec := httptest.NewRecorder()
				s.pub.ServeHTTP(rec, r)
				if rec.Code == http.StatusOK && rec.Header().Get("ETag") != "" && rec.Header().Get("ETag") == tag {
					t.Errorf("%s: the state that was known comes again", url)
				}
				tag = rec.Header().Get("ETag")
			}
		})
	}
	for range 20 {
		s.submitN(q, 10)
		s.consume(q, 5)
		must(t, s.pub.Tick(context.Background()))
	}
	cancel()
	all.Wait()
}

// activity does a bit of everything to a queue.
func activity(s *source, q *queuefs.Queue, round int) {
	s.Helper()
	jobs := s.submitN(q, 5+round%3)
	done := s.consume(q, 3)
	s.remove(q, jobs[len(jobs)-1].ID)
	if round%2 == 0 {
		s.requeue(q, done[1].ID)
	}
	if round%3 == 0 {
		s.requeue(q, jobs[len(jobs)-1].ID)
	}
}

func TestMirrorFollowsFromBaselineAcrossClosedLists(t *testing.T) {
	t.Parallel()
	limits := []int{0, 3, 20}
	if long.On() {
		limits = []int{0, 2, 3, 7, 20}
	}
	for _, max := range limits {
		for _, set := range []string{"pending", "replica"} {
			t.Run(fmt.Sprintf("%s at most %d", set, max), func(t *testing.T) {
				s := newSource(t, publisher.Options{MaxEntries: max}, "jobs")
				q := s.queue("jobs")
				fromNothing := newMirror(s, "jobs", set)
				fromNothing.baseline()
				activity(s, q, 0)
				late := newMirror(s, "jobs", set)
				late.baseline()
				for round := range 8 {
					activity(s, q, round)
					if round%2 == 1 {
						s.settle()
					}
					fromNothing.incremental(nil)
					fromNothing.compare(q)
					late.incremental(nil)
					late.compare(q)
				}
				again := newMirror(s, "jobs", set)
				again.baseline()
				again.compare(q)
				if len(s.problems) > 0 {
					t.Errorf("problems: %q", s.problems)
				}
			})
		}
	}
}

func TestChangeListReplaysThePendingSetAfterEveryEvent(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 4}, "jobs")
	q := s.queue("jobs")
	var want []map[job.ID]bool // pending jobs after each event
	pending := map[job.ID]bool{}
	for round := range 6 {
		activity(s, q, round)
	}
	events, err := q.Events(0, 1000)
	must(t, err)
	for _, ev := range events {
		if ev.To == job.Pending {
			pending[ev.Job] = true
		} else {
			delete(pending, ev.Job)
		}
		now := map[job.ID]bool{}
		for id := range pending {
			now[id] = true
		}
		want = append(want, now)
	}
	m := newMirror(s, "jobs", "pending")
	m.since = q.Info().Created
	var seq uint64
	m.incremental(func(e *sitemap.Entry) {
		if e.Seq != seq+1 || e.Event != events[e.Seq-1].Kind.String() || !e.DateTime.Equal(events[e.Seq-1].Time) {
			t.Errorf("after event %d comes %d %s at %v, the queue has %+v", seq, e.Seq, e.Event, e.DateTime, events[e.Seq-1])
		}
		seq = e.Seq
		// The contents may be of later: count names only.
		if e.Change != sitemap.Deleted {
			m.files[e.Loc] = "there"
		}
		if got := len(m.files); got != len(want[seq-1]) {
			t.Errorf("after event %d: %d pending, want %d", seq, got, len(want[seq-1]))
		}
		for id := range want[seq-1] {
			if m.files[base+"/queues/jobs/payload/"+id.String()] == "" {
				t.Errorf("after event %d: %s is missing", seq, id)
			}
		}
	})
	if seq != uint64(len(events)) {
		t.Errorf("last event %d, want %d", seq, len(events))
	}
}

func TestMirrorFollowsByChangeDumps(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"pending", "replica"} {
		for _, o := range []publisher.Options{{MaxEntries: 9}, {MaxEntries: 30, MaxPackage: 100}, {MaxEntries: 30, MaxPackage: 1}} {
			t.Run(fmt.Sprintf("%s %d %d", set, o.MaxEntries, o.MaxPackage), func(t *testing.T) {
				s := newSource(t, o, "jobs")
				q := s.queue("jobs")
				m := newMirror(s, "jobs", set)
				m.baseline()
				packages := 0
				for round := range 9 {
					activity(s, q, round)
					s.settle()
					packages += m.dumps()
					fetched := newMirror(s, "jobs", set)
					fetched.since, fetched.files = m.since, m.files
					if round%4 == 3 {
						fetched.incremental(nil)
						fetched.compare(q)
						m.since = fetched.since
					}
				}
				if packages < 3 {
					t.Errorf("%d packages", packages)
				}
				if len(s.problems) > 0 {
					t.Errorf("problems: %q", s.problems)
				}
			})
		}
	}
}

func TestDocumentsAreValid(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	s := newSource(t, publisher.Options{MaxEntries: 20}, "jobs", "a^20name,with=signs+", "empty")
	for _, id := range []string{"jobs", "a^20name,with=signs+"} {
		q := s.queue(id)
		for round := range 6 {
			activity(s, q, round)
		}
	}
	s.submitN(s.queue("jobs"), 30)
	s.settle()
	root := base + "/.well-known/resourcesync"
	v.add(s.document(root))
	for _, list := range s.document(root).entries {
		d := s.document(list.Loc)
		v.add(d)
		for _, c := range d.entries {
			d := s.document(c.Loc)
			v.add(d)
			for _, e := range d.entries {
				switch {
				case d.root == sitemap.SitemapIndex:
					v.add(s.document(e.Loc))
				case c.Capability == sitemap.ChangeDump:
					m, _ := openPackage(&mirror{source: s}, s.body(e.Loc))
					v.add(m)
				}
			}
		}
	}
	v.check()
}

func TestListsAreKeptUpWhileSomebodyReadsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(t, publisher.Options{}, "jobs")
		q := s.queue("jobs")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.pub.KeepUp(ctx) }()
		// written counts the entries in the file of the open list.
		written := func() int {
			text, err := os.ReadFile(filepath.Join(s.dir, "resourcesync", "jobs", "pending", "changelist-000000000001.entries"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return strings.Count(string(text), "<url>")
		}
		check := func(about string, want int) {
			t.Helper()
			synctest.Wait()
			if got := written(); got != want {
				t.Errorf("%s: %d entries are written, want %d", about, got, want)
			}
		}
		s.submitN(q, 3)
		time.Sleep(time.Minute)
		check("nobody reads", 0)
		s.document(s.doc(q, "pending", "changelist.xml"))
		check("a reader has what there is", 3)
		s.submitN(q, 4)
		time.Sleep(100 * time.Millisecond)
		check("after it was read", 7)
		time.Sleep(1500 * time.Millisecond)
		s.document(s.doc(q, "pending", "changelist.xml"))
		time.Sleep(1500 * time.Millisecond)
		s.submitN(q, 2)
		time.Sleep(100 * time.Millisecond)
		check("it was read again", 9)
		time.Sleep(time.Minute)
		s.submitN(q, 5)
		time.Sleep(time.Minute)
		check("nobody has read it for a minute", 9)
		s.ticks(1)
		check("a Tick", 14)
		cancel()
		<-ended
	})
}

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
