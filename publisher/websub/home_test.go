package websub_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/publisher/push"
	"cutie/publisher/websub"
	"cutie/queuefs/durable"
	"cutie/queuefs/outbound"
)

var ctx = context.Background()

const hubURL = "http://hub.test/hub"

// A clock is what all of a test look at.
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
		return "", websub.ErrNoTopic
	}
	return strconv.Itoa(len(lines)), j.err
}

func (j *journal) Content(topic, after string) (websub.Content, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from, err := strconv.Atoi(cmp.Or(after, "0"))
	if err != nil || j.err != nil {
		return websub.Content{}, errors.Join(err, j.err)
	}
	lines := j.lines[topic]
	upto := min(from+3, len(lines))
	c := websub.Content{Type: "text/plain", Upto: strconv.Itoa(upto), More: upto < len(lines)}
	if upto > from {
		c.Body = []byte(strings.Join(lines[from:upto], "\n"))
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
	answer  func(n int) (status int, header string)    // to delivery n, from 1; nil: 204
}

type delivery struct {
	body   string
	header http.Header
	query  string
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if req.Method == http.MethodGet {
		args := req.URL.Query()
		r.asked = append(r.asked, args)
		status, body := 200, args.Get("hub.challenge")
		if r.confirm != nil {
			status, body = r.confirm(args)
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
		return
	}
	body, _ := io.ReadAll(req.Body)
	r.got = append(r.got, delivery{string(body), req.Header, req.URL.RawQuery})
	status, after := 204, ""
	if r.answer != nil {
		status, after = r.answer(len(r.got))
	}
	if status >= 300 && status < 400 {
		w.Header().Set("Location", "/elsewhere")
	}
	if after != "" {
		w.Header().Set("Retry-After", after)
	}
	w.WriteHeader(status)
}

// bodies returns what was delivered since the last call.
func (r *receiver) bodies() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.got {
		all = append(all, d.body)
	}
	r.got = nil
	return all
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

func (r *receiver) answers(f func(n int) (int, string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer, r.got = f, nil
}

func (r *receiver) confirms(f func(url.Values) (int, string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirm = f
}

// A house is a hub with its directory.
type house struct {
	testing.TB
	path    string
	opts    websub.Options
	clock   *clock
	dir     *durable.Dir
	hub     *websub.Hub
	told    func() // called at each report; nil: nothing is
	mu      sync.Mutex
	reports []string
}

func newHouse(t testing.TB, o websub.Options, fault durable.Fault) *house {
	t.Helper()
	h := &house{TB: t, path: t.TempDir(), opts: o, clock: &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	h.open(fault)
	t.Cleanup(h.close)
	return h
}

func (h *house) open(fault durable.Fault) {
	h.Helper()
	var err error
	h.dir, err = durable.OpenDir(h.path, fault)
	must(h, err)
	h.opts.URL, h.opts.Dir, h.opts.Now, h.opts.Report = hubURL, h.dir, h.clock.now, h.report
	if h.opts.Doer == nil {
		h.opts.Doer = client(h)
	}
	h.hub, err = websub.NewHub(h.opts)
	must(h, err)
}

func (h *house) close() {
	if h.hub != nil {
		h.hub.Close()
		h.dir.Close()
		h.hub = nil
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

// reported returns what was reported since the last call.
func (h *house) reported() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(h.reports, "\n")
	h.reports = nil
	return text
}

// client is the real one, which reaches loopback here and follows nothing.
func client(t testing.TB) push.Doer {
	t.Helper()
	c, err := outbound.New(outbound.Options{Allow: []string{"127.0.0.1"}})
	must(t, err)
	plain := *c.HTTP()
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(c.Close)
	return &plain
}

// tick lets the hub do what is due now.
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

// ask makes a request of the hub; args are pairs of names and values without
// hub.
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
	to := t.TempDir()
	must(t, os.CopyFS(to, os.DirFS(from)))
	return to
}
