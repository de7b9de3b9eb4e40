package publisher_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/publisher"
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
