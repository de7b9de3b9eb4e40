package hub_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/publisher/hub"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/outbound"
	"cutie/queuefs/table"

	"go.etcd.io/bbolt"
)

var ctx = context.Background()

const hubURL = "http://hub.test/hub"

// A clock is set by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// A journal is a Source of lines; a notification has three of them at most.
type journal struct {
	mu    sync.Mutex
	lines map[string][]string
	err   error
	asked uint64 // how often for the version: it may have changed each time
	reads int
}

func newJournal(topics ...string) *journal {
	j := &journal{lines: map[string][]string{}}
	for _, t := range topics {
		j.lines[t] = nil
	}
	return j
}

func (j *journal) add(topic string, lines ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines[topic] = append(j.lines[topic], lines...)
}

func (j *journal) remove(topic string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.lines, topic)
}

func (j *journal) Version() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked++
	return j.asked
}

func (j *journal) Topics() (all []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for t := range j.lines {
		all = append(all, t)
	}
	return all
}

func (j *journal) Latest(topic string) (string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines, ok := j.lines[topic]
	if !ok {
		return "", hub.ErrNoTopic
	}
	return strconv.Itoa(len(lines)), j.err
}

func (j *journal) Content(topic, after string) (hub.Content, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from, err := strconv.Atoi(cmp.Or(after, "0"))
	if err != nil || j.err != nil {
		return hub.Content{}, errors.Join(err, j.err)
	}
	j.reads++
	lines := j.lines[topic]
	upto := min(from+3, len(lines))
	c := hub.Content{Type: "text/plain", Upto: strconv.Itoa(upto), More: upto < len(lines)}
	if upto > from {
		c.Body = []byte(strings.Join(lines[from:upto], "\n"))
		c.Gap = lines[from] == "gap"
	}
	return c, nil
}

// A receiver is a subscriber on loopback that does as it is told.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	asked   []url.Values
	got     []delivery
	confirm func(url.Values) (status int, body string) // nil: always
	each    func(n int) (status int, after string)     // to delivery n, from 1; nil: 204
	next    []http.HandlerFunc                         // to the next deliveries, before each
}

type delivery struct {
	body   string
	header http.Header
	query  string
}

// String returns what the delivery of a callback is about: "queue sequence event job status".
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

func newReceiver(t testing.TB) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	if req.Method == http.MethodGet {
		args := req.URL.Query()
		r.asked = append(r.asked, args)
		confirm := r.confirm
		r.mu.Unlock()
		status, body := 200, args.Get("hub.challenge")
		if confirm != nil {
			status, body = confirm(args)
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
		return
	}
	r.got = append(r.got, delivery{string(body), req.Header, req.URL.RawQuery})
	code, after := 204, ""
	if r.each != nil {
		code, after = r.each(len(r.got))
	}
	answer := status(code, "Retry-After", after)
	if code >= 300 && code < 400 {
		answer = status(code, "Location", "/elsewhere")
	}
	if len(r.next) > 0 {
		answer, r.next = r.next[0], r.next[1:]
	}
	r.mu.Unlock()
	answer(w, req)
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// received returns what was delivered since the last call.
func (r *receiver) received() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.got = nil }()
	return r.got
}

// bodies returns the bodies delivered since the last call.
func (r *receiver) bodies() (all []string) {
	for _, d := range r.received() {
		all = append(all, d.body)
	}
	return all
}

// want compares the deliveries of a callback since the last call.
func (r *receiver) want(t testing.TB, deliveries ...string) {
	t.Helper()
	var got []string
	for _, d := range r.received() {
		got = append(got, d.String())
	}
	if !slices.Equal(got, deliveries) {
		t.Errorf("got deliveries\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(deliveries, "\n"))
	}
}

// intents returns the modes that were to be confirmed since the last call.
func (r *receiver) intents() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asked {
		all = append(all, a.Get("hub.mode"))
	}
	r.asked = nil
	return all
}

// answers sets the answers to all deliveries from now on, answer those to the next ones.
func (r *receiver) answers(f func(n int) (int, string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.each, r.got = f, nil
}

func (r *receiver) answer(next ...http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = append(r.next, next...)
}

func (r *receiver) confirms(f func(url.Values) (int, string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirm = f
}

// A house is a hub with its home, which is a home of queues if there is a Service.
type house struct {
	testing.TB
	path    string
	opts    hub.Options
	clock   *clock
	svc     *queuefs.Service // nil: topics alone
	fault   durable.Fault    // of commits, with topics alone
	table   *table.Table     // likewise
	hub     *hub.Hub
	told    func() // called at each report; nil: nothing is
	mu      sync.Mutex
	reports []string
}

// memory returns a directory in memory, if there is such a file system.
func memory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "hub")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newHouse(t testing.TB, o hub.Options, fault durable.Fault) *house {
	t.Helper()
	h := &house{TB: t, path: memory(t), opts: o, clock: &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	h.open(fault)
	t.Cleanup(h.close)
	return h
}

// newHome is a house with queues.
func newHome(t testing.TB, o hub.Options) *house {
	t.Helper()
	h := &house{TB: t, path: memory(t), opts: o, clock: &clock{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	must(t, home.Init(h.path, home.ServiceInfo{Name: "test", BaseURI: "http://h.example/"}))
	h.reopen()
	t.Cleanup(h.close)
	return h
}

func (h *house) open(fault durable.Fault) {
	h.Helper()
	h.fault, h.opts.URL = fault, hubURL
	h.openHub()
}

// openTable opens the table of a house without queues.
func (h *house) openTable() *table.Table {
	h.Helper()
	must(h, os.MkdirAll(filepath.Join(h.path, "log"), 0o700))
	dir, err := durable.OpenDir(filepath.Join(h.path, "log"), h.fault)
	must(h, err)
	t, err := table.Open(dir, false)
	must(h, err)
	return t
}

// damageRows changes a byte of each row of the hub, which is closed. Without change they go.
func (h *house) damageRows(change func(value []byte) []byte) (n int) {
	h.Helper()
	db, err := bbolt.Open(filepath.Join(h.path, "log", table.Name), 0o600, &bbolt.Options{Timeout: time.Second})
	must(h, err)
	must(h, db.Update(func(tx *bbolt.Tx) error {
		b, now := tx.Bucket([]byte(table.Subscriptions)), map[string][]byte{}
		err := b.ForEach(func(key, value []byte) error { now[string(key)] = change(bytes.Clone(value)); return nil })
		for key, value := range now {
			if n++; value == nil {
				err = errors.Join(err, b.Delete([]byte(key)))
			} else {
				err = errors.Join(err, b.Put([]byte(key), value))
			}
		}
		return err
	}))
	must(h, db.Close())
	return n
}

// openService opens the queues.
func (h *house) openService() {
	h.Helper()
	var err error
	h.svc, err = queuefs.Open(h.path, queuefs.Options{Segment: 1 << 20, Now: h.clock.now})
	must(h, err)
	h.svc.Follow(forgetful{})
}

// A forgetful follower has no use for the journal, so that checkpoints release it.
type forgetful struct{}

func (forgetful) Flush() error  { return nil }
func (forgetful) Synced() error { return nil }

// reopen opens the queues, and the hub.
func (h *house) reopen() {
	h.Helper()
	h.openService()
	h.openHub()
}

func (h *house) openHub() {
	h.Helper()
	h.opts.Home, h.opts.Service, h.opts.Now, h.opts.Report = h.path, h.svc, h.clock.now, h.report
	if h.svc != nil {
		h.opts.Rows = h.svc.Subscriptions()
	} else {
		h.table = h.openTable()
		h.opts.Rows = h.table.Rows(table.Subscriptions)
	}
	h.opts.Turned = func(receiver string, err error) { h.report(fmt.Errorf("turned: %s: %v", receiver, err)) }
	if h.opts.Client == nil {
		h.opts.Client = client(h, "127.0.0.1")
	}
	var err error
	h.hub, err = hub.New(h.opts)
	must(h, err)
}

func (h *house) close() {
	h.Helper()
	if h.hub != nil {
		h.hub.Close()
		h.hub = nil
	}
	if h.svc != nil {
		must(h, h.svc.Close())
		h.svc = nil
	}
	if h.table != nil {
		must(h, h.table.Close())
		h.table = nil
	}
}

func (h *house) report(err error) {
	if h.told != nil {
		h.told()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reports = append(h.reports, err.Error())
}

// reported returns what was reported since the last call, with the turns of receivers.
func (h *house) reported() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(h.reports, "\n")
	h.reports = nil
	return text
}

func (h *house) wantReport(text string) {
	h.Helper()
	if got := h.reported(); strings.Count(got, text) != 1 {
		h.Errorf("got reports %q, want one with %q", got, text)
	}
}

func client(t testing.TB, allow ...string) *outbound.Client {
	t.Helper()
	c, err := outbound.New(outbound.Options{Allow: allow})
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// tick makes all deliveries that are due now.
func (h *house) tick() {
	h.Helper()
	must(h, h.hub.Tick(ctx))
	h.hub.Wait()
}

// later lets time pass before a tick.
func (h *house) later(d time.Duration) {
	h.Helper()
	h.clock.advance(d)
	h.tick()
}

// ask makes a request of the hub; args are pairs of names and values without hub.
func (h *house) ask(mode, topic, callback string, args ...string) (status int, text string) {
	h.Helper()
	form := url.Values{"hub.mode": {mode}, "hub.topic": {topic}, "hub.callback": {callback}}
	for i := 0; i < len(args); i += 2 {
		form.Set("hub."+args[i], args[i+1])
	}
	return h.post(form.Encode(), "application/x-www-form-urlencoded")
}

func (h *house) post(body, contentType string) (status int, text string) {
	h.Helper()
	r := httptest.NewRequest("POST", "/hub", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.hub.ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// subscribe subscribes a receiver, which confirms.
func (h *house) subscribe(topic string, r *receiver, args ...string) {
	h.Helper()
	if status, text := h.ask("subscribe", topic, r.URL+"/cb?id=7", args...); status != 202 {
		h.Fatalf("subscribe: got %d %s", status, text)
	}
	h.tick()
}

// states returns the subscriptions without their hosts, a line each.
func (h *house) states() string {
	var lines []string
	for _, s := range h.hub.States() {
		line := fmt.Sprintf("%s verified=%v signed=%v external=%v failures=%d", s.Topic, s.Verified, s.Signed, s.External, s.Failures)
		if !s.Expires.IsZero() {
			line += fmt.Sprintf(" expires in %v", s.Expires.Sub(h.clock.now()))
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func (h *house) wantStates(want string) {
	h.Helper()
	if got := h.states(); got != want {
		h.Errorf("got subscriptions\n%swant\n%s", got, want)
	}
}

// state returns the state of the callback of a queue.
func (h *house) state(queue string) hub.State {
	h.Helper()
	for _, s := range h.hub.States() {
		if s.Queue == queue {
			return s
		}
	}
	h.Fatalf("no state of %s", queue)
	return hub.State{}
}

// queue returns the queue with the name, and makes it if need be.
func (h *house) queue(name, callback string) *queuefs.Queue {
	h.Helper()
	q, err := h.svc.Queue(name)
	if errors.Is(err, ledger.ErrNoQueue) {
		q, err = h.svc.CreateQueue(ctx, home.QueueInfo{Identifier: name, Callback: callback, CullingSize: -1, CullingAge: -1})
	}
	must(h, err)
	return q
}

func (h *house) setCallback(name, to string) {
	h.Helper()
	_, err := h.svc.SetQueue(ctx, name, func(info *home.QueueInfo) error { info.Callback = to; return nil })
	must(h, err)
}

func (h *house) submit(q *queuefs.Queue, payload string) job.Job {
	h.Helper()
	s := q.Begin()
	defer s.Discard()
	d, err := s.Add(job.Meta{Filename: "a"})
	if err == nil {
		_, err = io.WriteString(d, payload)
	}
	must(h, err)
	jobs, err := s.Commit(ctx)
	must(h, err)
	return jobs[0]
}

func (h *house) consume(q *queuefs.Queue) {
	h.Helper()
	_, err := q.Next(ctx, "worker/1")
	must(h, err)
}

// release lets the journal go up to now.
func (h *house) release(q *queuefs.Queue) {
	h.Helper()
	filler := h.queue("filler", "")
	for range 2 { // a journal is let go of by segments
		must(h, h.svc.Checkpoint(ctx))
		for range 150 { // more than a segment
			h.submit(filler, strings.Repeat("x", 8<<10))
		}
	}
	must(h, h.svc.Checkpoint(ctx))
	if _, err := q.Events(0, 1); !errors.Is(err, ledger.ErrGone) {
		h.Fatalf("the journal still reaches back: %v", err)
	}
}

// killed is the house as a kill would leave it now.
func (h *house) killed() *house {
	h.Helper()
	c := &house{TB: h.TB, path: copyDir(h, h.path), opts: h.opts, clock: &clock{at: h.clock.now()}}
	if h.svc == nil {
		c.openHub()
	} else {
		c.reopen()
	}
	h.Cleanup(c.close)
	return c
}

func (h *house) secrets(text string, mode os.FileMode) {
	h.Helper()
	name := filepath.Join(h.path, "callback-secrets.txt")
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		must(h, err)
	}
	must(h, os.WriteFile(name, []byte(text), mode))
}

func want(t testing.TB, got, want []string) {
	t.Helper()
	if strings.Join(got, "|") != strings.Join(want, "|") || len(got) != len(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// copyDir copies a directory as a killed process would leave it.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := memory(t)
	err := os.CopyFS(to, os.DirFS(from))
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 10; tries++ {
		// What the journal prepares got its name, or was removed, meanwhile.
		to = memory(t)
		err = os.CopyFS(to, os.DirFS(from))
	}
	must(t, err)
	return to
}
