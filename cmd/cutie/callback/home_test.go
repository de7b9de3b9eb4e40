package callback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/cmd/cutie/callback"
	"cutie/queuefs"
)

var ctx = context.Background()

// A clock is set by hand.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// A home is one that is open, with its callbacks.
type home struct {
	t      *testing.T
	dir    string
	clock  *clock
	o      callback.Options
	svc    *queuefs.Service
	sender *callback.Sender

	mu      sync.Mutex
	reports []string
	turns   []string
}

// fastDir returns a directory in memory, if there is such a file system.
func fastDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "callback")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newHome(t *testing.T, o callback.Options) *home {
	t.Helper()
	dir := fastDir(t)
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "test", BaseURI: "http://h.example/"}); err != nil {
		t.Fatal(err)
	}
	h := &home{t: t, dir: dir, o: o, clock: &clock{t: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	h.open()
	return h
}

func (h *home) open() {
	h.t.Helper()
	h.openService()
	h.openSender()
}

func (h *home) openService() {
	h.t.Helper()
	svc, err := queuefs.Open(h.dir, queuefs.Options{Segment: 1 << 20, Now: h.clock.now})
	if err != nil {
		h.t.Fatal(err)
	}
	h.svc = svc
	h.t.Cleanup(func() { svc.Close() })
}

func (h *home) openSender() {
	h.t.Helper()
	o := h.o
	if o.Doer == nil {
		o.Doer = http.DefaultClient
	}
	o.Now = h.clock.now
	o.Report = func(p queuefs.Problem) { h.note(&h.reports, p.String()) }
	o.Turned = func(queue string, err error) { h.note(&h.turns, fmt.Sprint(queue, ": ", err)) }
	s, err := callback.New(h.svc, o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.sender = s
	h.t.Cleanup(func() { s.Close() })
	h.svc.Follow(s)
}

func (h *home) note(list *[]string, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*list = append(*list, text)
}

// reported returns the reports since the last call.
func (h *home) reported() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.reports = nil }()
	return h.reports
}

// wantReport fails the test unless exactly one report came, with the text.
func (h *home) wantReport(text string) {
	h.t.Helper()
	if got := h.reported(); len(got) != 1 || !strings.Contains(got[0], text) {
		h.t.Errorf("got reports %q, want one with %q", got, text)
	}
}

func (h *home) close() {
	h.t.Helper()
	h.sender.Wait()
	if err := errors.Join(h.svc.Close(), h.sender.Close()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *home) queue(name, callback string) *queuefs.Queue {
	h.t.Helper()
	q, err := h.svc.Queue(name)
	if errors.Is(err, queuefs.ErrNoQueue) {
		q, err = h.svc.CreateQueue(ctx, queuefs.QueueInfo{Identifier: name, Callback: callback, CullingSize: -1, CullingAge: -1})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return q
}

func (h *home) setCallback(name, to string) {
	h.t.Helper()
	_, err := h.svc.SetQueue(ctx, name, func(info *queuefs.QueueInfo) error { info.Callback = to; return nil })
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *home) submit(q *queuefs.Queue, payload string) queuefs.Job {
	h.t.Helper()
	s := q.Begin()
	defer s.Discard()
	d, err := s.Add(queuefs.Meta{Filename: "a"})
	if err == nil {
		_, err = io.WriteString(d, payload)
	}
	var jobs []queuefs.Job
	if err == nil {
		jobs, err = s.Commit(ctx)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return jobs[0]
}

func (h *home) consume(q *queuefs.Queue) queuefs.Job {
	h.t.Helper()
	j, err := q.Next(ctx, "worker/1")
	if err != nil {
		h.t.Fatal(err)
	}
	return j
}

func (h *home) requeue(q *queuefs.Queue, id queuefs.JobID) {
	h.t.Helper()
	if _, err := q.Requeue(ctx, id); err != nil {
		h.t.Fatal(err)
	}
}

// checkpoint lets go of all the journal there is.
func (h *home) checkpoint(q *queuefs.Queue) {
	h.t.Helper()
	for range 2 { // a journal is let go of by segments
		if err := h.svc.Checkpoint(ctx); err != nil {
			h.t.Fatal(err)
		}
		if other, err := h.svc.Queue("filler"); err == nil {
			h.fill(other)
		}
	}
	if err := h.svc.Checkpoint(ctx); err != nil {
		h.t.Fatal(err)
	}
	if _, err := q.Events(0, 1); !errors.Is(err, queuefs.ErrGone) {
		h.t.Fatalf("the journal still reaches back: %v", err)
	}
}

// fill writes more than a segment of journal.
func (h *home) fill(q *queuefs.Queue) {
	h.t.Helper()
	for range 150 {
		h.submit(q, strings.Repeat("x", 8<<10))
	}
}

// tick makes all deliveries that are due.
func (h *home) tick() {
	h.t.Helper()
	if err := h.sender.Tick(ctx); err != nil {
		h.t.Fatal(err)
	}
	h.sender.Wait()
}

func (h *home) state(queue string) callback.State {
	h.t.Helper()
	for _, s := range h.sender.States() {
		if s.Queue == queue {
			return s
		}
	}
	h.t.Fatalf("no state of %s", queue)
	return callback.State{}
}

// A delivery is a request that a receiver got.
type delivery struct {
	header http.Header
	body   string
	method string
}

// String returns what it is about: "queue sequence event job status".
func (d delivery) String() string {
	var body struct {
		Identifier string `json:"identifier"`
		Status     string `json:"status"`
	}
	if err := json.Unmarshal([]byte(d.body), &body); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(fmt.Sprint(d.header.Get("Cutie-Queue"), " ", d.header.Get("Cutie-Sequence"), " ", d.header.Get("Cutie-Event"),
		" ", body.Identifier, " ", body.Status))
}

// A receiver answers as it is told, and with 204 when it is told no more.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	got     []delivery
	answers []http.HandlerFunc
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.got = append(r.got, delivery{req.Header, string(body), req.Method})
		answer := status(http.StatusNoContent)
		if len(r.answers) > 0 {
			answer, r.answers = r.answers[0], r.answers[1:]
		}
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

func (r *receiver) answer(answers ...http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, answers...)
}

// received returns what came since the last call.
func (r *receiver) received() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.got = nil }()
	return r.got
}

func (r *receiver) want(t *testing.T, deliveries ...string) {
	t.Helper()
	var got []string
	for _, d := range r.received() {
		got = append(got, d.String())
	}
	if !slices.Equal(got, deliveries) {
		t.Errorf("got deliveries\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(deliveries, "\n"))
	}
}

const j1, j2, j3 = "j000000000001", "j000000000002", "j000000000003"

const secret = "0123456789abcdef"

func (h *home) secrets(text string, mode os.FileMode) {
	h.t.Helper()
	name := filepath.Join(h.dir, "callback-secrets.txt")
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
}
