package push_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/publisher/push"
	"cutie/queuefs/durable"
)

// A follower is told the lines of its owner, whose number is the position.
type follower struct {
	URL string `json:"url"`
	push.Target
}

func (f *follower) Key() string { return f.URL }

// An owner has lines for followers.
type owner struct {
	testing.TB
	path   string
	opts   push.Options[*follower]
	now    atomic.Pointer[time.Time]
	sender *push.Sender[*follower]
	dir    *durable.Dir

	mu      sync.Mutex
	lines   []string
	err     error // of Next
	reports []string
	ends    []string // of messages: who, and how
}

func newOwner(t testing.TB, o push.Options[*follower], fault durable.Fault) *owner {
	t.Helper()
	w := &owner{TB: t, path: t.TempDir(), opts: o}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.now.Store(&start)
	w.open(fault)
	t.Cleanup(w.close)
	return w
}

func (w *owner) open(fault durable.Fault) {
	w.Helper()
	var err error
	w.dir, err = durable.OpenDir(w.path, fault)
	must(w, err)
	o := w.opts
	o.File = durable.Sealed{Dir: w.dir, Name: "followers", Kind: "followers", Max: 1 << 20}
	o.Now = func() time.Time { return *w.now.Load() }
	o.Report = func(err error) { w.reports = append(w.reports, err.Error()) }
	o.Due = func(f *follower, now time.Time) bool { return f.Ready(now) && w.position(f) < len(w.all()) }
	o.Next = w.next
	o.Done = func(f *follower, m *push.Message, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ends = append(w.ends, fmt.Sprint(string(m.Body), ": ", err))
	}
	if o.Doer == nil {
		o.Doer = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	w.sender, err = push.Open(o)
	must(w, err)
}

func (w *owner) close() {
	if w.sender != nil {
		w.sender.Close()
		w.dir.Close()
		w.sender = nil
	}
}

func (w *owner) position(f *follower) int {
	n, _ := strconv.Atoi(f.Position)
	return n
}

func (w *owner) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines
}

func (w *owner) add(lines ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, lines...)
}

func (w *owner) next(_ context.Context, f *follower) (*push.Message, error) {
	var n int
	w.sender.View(func() { n = w.position(f) })
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || n >= len(w.lines) {
		return nil, w.err
	}
	return &push.Message{URL: f.URL, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte(w.lines[n]),
		Upto: strconv.Itoa(n + 1), More: n+1 < len(w.lines)}, nil
}

// follow adds a follower.
func (w *owner) follow(url string, proven bool) {
	f := &follower{URL: url}
	f.Host, f.Proven = url, proven // each server is a host of its own
	must(w, w.sender.Update(func() error { w.sender.Put(f); return nil }))
}

// later lets time pass before a Tick.
func (w *owner) later(d time.Duration) {
	w.Helper()
	at := w.now.Load().Add(d)
	w.now.Store(&at)
	must(w, w.sender.Tick(context.Background()))
	w.sender.Wait()
}

// state returns a follower as it is.
func (w *owner) state(url string) (f follower) {
	w.sender.View(func() { f = *w.sender.Get(url) })
	return f
}

// wait returns how long no attempt is made.
func (w *owner) wait(url string) time.Duration { return w.state(url).Next.Sub(*w.now.Load()) }

// A receiver answers as it is told, else with 204.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	got     []string
	answers []http.HandlerFunc
}

func newReceiver(t testing.TB, answers ...http.HandlerFunc) *receiver {
	r := &receiver{answers: answers}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.got = append(r.got, string(body))
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

// want compares the bodies since the last call.
func (r *receiver) want(t testing.TB, bodies ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.got, bodies) {
		t.Errorf("got bodies %q, want %q", r.got, bodies)
	}
	r.got = nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBodiesArriveInOrderThoughReceiversFail(t *testing.T) {
	r, other := newReceiver(t, status(500), status(403), status(302, "Location", "/x")), newReceiver(t)
	w := newOwner(t, push.Options[*follower]{}, nil)
	w.follow(r.URL, true)
	w.follow(other.URL, true)
	w.add("1", "2")
	pause := time.Second
	w.later(0)
	for n := 1; n <= 3; n++ {
		r.want(t, "1")
		if st := w.state(r.URL); st.Failures != n || w.wait(r.URL) < pause/2 || w.wait(r.URL) > pause || st.Failing.IsZero() || st.LastError == "" {
			t.Errorf("after %d failures: got %+v", n, st)
		}
		w.later(0) // too early
		r.want(t)
		w.add(fmt.Sprint("more ", n))
		if pause *= 2; n < 3 {
			w.later(pause)
		}
	}
	w.later(time.Hour)
	r.want(t, "1", "2", "more 1", "more 2", "more 3")
	other.want(t, "1", "2", "more 1", "more 2", "more 3")
	if st := w.state(r.URL); st.Failures != 0 || !st.Failing.IsZero() || st.LastError != "" || st.Position != "5" {
		t.Errorf("got %+v", st)
	}
	if got := w.ends[len(w.ends)-1]; got != "more 3: <nil>" {
		t.Errorf("the owner was told %q", got)
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	r := newReceiver(t)
	w := newOwner(t, push.Options[*follower]{}, nil)
	w.follow(r.URL, true)
	w.add("1")
	date := w.now.Load().Add(5 * time.Minute)
	for _, tt := range []struct {
		after string
		least time.Duration
	}{{"120", 2 * time.Minute}, {date.Format(http.TimeFormat), 3 * time.Minute}, {"1000000", 24 * time.Hour}, {"soon", 0}, {"-5", 0}} {
		r.answers = append(r.answers, status(429, "Retry-After", tt.after))
		w.later(0)
		r.want(t, "1")
		if got := w.wait(r.URL); got < tt.least || got > tt.least+16*time.Second {
			t.Errorf("Retry-After %s: next in %v", tt.after, got)
		}
		w.later(w.wait(r.URL) - 1)
		r.want(t)
		w.now.Store(new(w.now.Load().Add(1)))
	}
}

func TestPausesGrowToAnHour(t *testing.T) {
	w := newOwner(t, push.Options[*follower]{}, nil)
	for n, most := range map[int]time.Duration{1: time.Second, 5: 16 * time.Second, 12: 2048 * time.Second, 13: time.Hour, 1000: time.Hour} {
		for range 20 {
			if got := w.sender.Pause(n); got < most/2 || got > most {
				t.Errorf("after %d failures: got %v, want %v to %v", n, got, most/2, most)
			}
		}
	}
}

func TestGoneStopsUntilAReset(t *testing.T) {
	r := newReceiver(t, status(410))
	w := newOwner(t, push.Options[*follower]{}, nil)
	w.follow(r.URL, true)
	w.add("1")
	w.later(0)
	w.later(time.Hour)
	r.want(t, "1")
	w.close() // it is remembered
	w.open(nil)
	w.later(time.Hour)
	r.want(t)
	if !w.state(r.URL).Stopped {
		t.Error("the target is not stopped")
	}
	must(t, w.sender.Update(func() error { w.sender.Get(r.URL).Reset(); return nil }))
	w.later(0)
	r.want(t, "1")
}

// A failure of before a Reset is that of another time.
func TestResetDuringARequestCounts(t *testing.T) {
	var w *owner
	r := newReceiver(t)
	for _, code := range []int{500, 410} {
		r.answers = append(r.answers, func(a http.ResponseWriter, _ *http.Request) {
			w.sender.View(func() { w.sender.Get(r.URL).Reset() })
			a.WriteHeader(code)
		})
	}
	w = newOwner(t, push.Options[*follower]{}, nil)
	w.follow(r.URL, true)
	w.add("1")
	w.later(0)
	w.later(0)
	if st := w.state(r.URL); st.Stopped || st.Failures != 0 {
		t.Errorf("got %+v", st)
	}
	w.later(0)
	r.want(t, "1", "1", "1")
}

func TestFailuresOfTheOwnerAreNotTheReceivers(t *testing.T) {
	r := newReceiver(t)
	w := newOwner(t, push.Options[*follower]{}, nil)
	w.follow(r.URL, true)
	w.add("1")
	w.err = errors.New("disk is on fire")
	w.later(0)
	if st := w.state(r.URL); st.Failures != 0 || w.wait(r.URL) != time.Second {
		t.Errorf("got %+v", st)
	}
	w.err = nil
	w.later(time.Second)
	r.want(t, "1")
}

// Half of the requests are for targets without a proof.
func TestSlowReceiversHoldUpNoOthers(t *testing.T) {
	w := newOwner(t, push.Options[*follower]{Parallel: 4, Timeout: time.Minute}, nil)
	began, leave := make(chan struct{}, 100), make(chan struct{})
	hang := func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		select {
		case <-leave:
		case <-r.Context().Done():
		}
	}
	for range 8 {
		w.follow(newReceiver(t, hang, hang).URL, false)
	}
	told := make(chan struct{}, 1)
	fine := newReceiver(t)
	fine.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told <- struct{}{} })
	w.follow(fine.URL, true)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 10 {
		w.add(fmt.Sprint(i))
		for delivered := false; !delivered; {
			must(t, w.sender.Tick(ctx))
			select {
			case <-told:
				delivered = true
			default:
				runtime.Gosched()
			}
		}
	}
	<-began
	<-began
	if n := len(began); n > 0 {
		t.Errorf("%d requests hang besides two", n)
	}
	before := runtime.NumGoroutine()
	cancel()
	w.sender.Wait()
	close(leave)
	w.sender.View(func() {
		for f := range w.sender.All() {
			if f.Failures > 0 {
				t.Errorf("a request that was broken off counts as a failure: %+v", f)
			}
		}
	})
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before the end", after, before)
	}
}

func TestAHostHasAFewRequestsInProgress(t *testing.T) {
	w := newOwner(t, push.Options[*follower]{PerHost: 2}, nil)
	began, leave := make(chan struct{}, 100), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { began <- struct{}{}; <-leave }))
	t.Cleanup(s.Close)
	must(t, w.sender.Update(func() error {
		for i := range 6 {
			f := &follower{URL: fmt.Sprint(s.URL, "/", i)}
			f.Host, f.Proven = s.URL, true
			w.sender.Put(f)
		}
		return nil
	}))
	w.add("1")
	for range 5 {
		must(t, w.sender.Tick(t.Context()))
	}
	<-began
	<-began
	close(leave)
	w.sender.Wait()
	if n := len(began); n > 0 {
		t.Errorf("%d requests beyond two were begun", n)
	}
	w.later(0)
	w.later(0)
	if n := len(began); n != 4 {
		t.Errorf("got %d further requests, want 4", n)
	}
}

// A target with much to be told leaves turns to others.
func TestTurnsGoAround(t *testing.T) {
	a, b := newReceiver(t), newReceiver(t)
	w := newOwner(t, push.Options[*follower]{Parallel: 1, Turn: 3}, nil)
	w.follow(a.URL, true)
	w.follow(b.URL, true)
	w.add("1", "2", "3", "4", "5")
	w.later(0)
	w.later(1)
	a.want(t, "1", "2", "3")
	b.want(t, "1", "2", "3")
	w.later(1)
	w.later(1)
	a.want(t, "4", "5")
	b.want(t, "4", "5")
}

func TestBodiesAreGathered(t *testing.T) {
	r := newReceiver(t)
	w := newOwner(t, push.Options[*follower]{Gather: time.Second}, nil)
	w.follow(r.URL, true)
	w.add("1")
	w.later(0)
	w.add("2")
	w.later(999 * time.Millisecond)
	r.want(t, "1")
	w.later(time.Millisecond)
	r.want(t, "2")
}

func TestErrorsShowNoURL(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	slow := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-hang })
	moved := newReceiver(t, status(302, "Location", newReceiver(t).URL))
	closed := newReceiver(t)
	closed.Close()
	for name, tt := range map[string]struct {
		url, want string
		follow    bool
	}{
		"refused": {closed.URL, "connection refused", false},
		"slow":    {slow.URL, "no answer within 10ms", false},
		"moved":   {moved.URL, "must be 307 or 308", true},
		"no URL":  {"http://[", "the URL is not one", false},
	} {
		o := push.Options[*follower]{Timeout: time.Minute, Follow: tt.follow}
		if tt.follow {
			o.Doer = http.DefaultClient
		}
		if name == "slow" {
			o.Timeout = 10 * time.Millisecond
		}
		w := newOwner(t, o, nil)
		url := tt.url + "/?token=hidden"
		w.follow(url, true)
		w.add("1")
		w.later(0)
		if got := w.state(url).LastError; !strings.Contains(got, tt.want) || strings.Contains(got, "hidden") {
			t.Errorf("%s: got error %q", name, got)
		}
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestEndlessAnswersAreNotRead(t *testing.T) {
	r := newReceiver(t, func(a http.ResponseWriter, _ *http.Request) { io.Copy(a, endless{}) })
	w := newOwner(t, push.Options[*follower]{}, nil)
	w.follow(r.URL, true)
	w.add("1")
	w.later(0)
	if st := w.state(r.URL); st.Position != "1" || st.Failures != 0 {
		t.Errorf("got %+v", st)
	}
}

// A kill at any step loses no line and keeps the order: the receiver gets the
// end of all lines again.
func TestKillAtAnyStepLosesNothing(t *testing.T) {
	var w *owner
	type kill struct{ step, path string }
	var kills []kill
	fault := func(step string, do func() error) error {
		if w != nil {
			to := t.TempDir()
			must(t, os.CopyFS(to, os.DirFS(w.path)))
			kills = append(kills, kill{step, to})
		}
		return do()
	}
	r := newReceiver(t)
	w = newOwner(t, push.Options[*follower]{}, fault)
	w.follow(r.URL, true)
	must(t, w.sender.Save())
	first := len(kills) // nothing was promised before
	var all []string
	for i := range 6 {
		all = append(all, fmt.Sprint(i))
		w.add(fmt.Sprint(i))
		w.later(time.Second)
	}
	r.want(t, all...)
	if len(kills) < first+12 {
		t.Fatalf("only %d steps", len(kills)-first)
	}
	for _, k := range kills[first:] {
		c := &owner{TB: t, path: k.path, lines: all}
		c.now.Store(w.now.Load())
		c.open(nil)
		c.later(time.Hour)
		r.mu.Lock()
		got := r.got
		r.got = nil
		r.mu.Unlock()
		if !slices.Equal(got, all[len(all)-len(got):]) {
			t.Errorf("before %s: got %q, want the end of %q", k.step, got, all)
		}
		c.close()
	}
}

func TestStepThatFailsIsMadeUpFor(t *testing.T) {
	errStep := errors.New("step failed")
	for _, happened := range []bool{false, true} {
		for n, steps := 1, 1; n <= steps; n++ {
			count, failed := -1, 0
			fault := func(_ string, do func() error) error {
				if count >= 0 {
					count++
				}
				if count != n {
					return do()
				}
				if happened {
					must(t, do())
				}
				return errStep
			}
			r := newReceiver(t)
			w := newOwner(t, push.Options[*follower]{}, fault)
			count = 0
			w.follow(r.URL, true)
			var all []string
			for i := range 4 {
				all = append(all, fmt.Sprint(i))
				w.add(fmt.Sprint(i))
				w.now.Store(new(w.now.Load().Add(time.Second)))
				if err := w.sender.Tick(t.Context()); err != nil {
					failed++
				}
				w.sender.Wait()
			}
			steps, count = count, -1
			w.close()
			w.open(nil)
			w.later(time.Hour)
			r.want(t, all...)
			if n <= steps && failed != 1 {
				t.Errorf("step %d, happened %v: %d calls failed", n, happened, failed)
			}
		}
	}
}

// Nothing is delivered to a target that a crash would forget. Others go on.
func TestNewTargetsWaitForTheDisk(t *testing.T) {
	var full atomic.Bool
	r, old := newReceiver(t), newReceiver(t)
	w := newOwner(t, push.Options[*follower]{}, func(_ string, do func() error) error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return do()
	})
	w.follow(old.URL, true)
	must(t, w.sender.Save())
	full.Store(true)
	w.follow(r.URL, true)
	w.add("1")
	if err := w.sender.Tick(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want no space", err)
	}
	w.sender.Wait()
	r.want(t)
	old.want(t, "1")
	full.Store(false)
	w.later(0)
	r.want(t, "1")
}

func TestADamagedFileIsSetAside(t *testing.T) {
	w := newOwner(t, push.Options[*follower]{}, nil)
	w.follow("http://a.test/", true)
	w.close()
	name := filepath.Join(w.path, "followers")
	whole, err := os.ReadFile(name)
	must(t, err)
	for what, text := range map[string]string{"cut off": string(whole[:len(whole)-3]), "changed": "x" + string(whole), "empty": ""} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
		w.reports = nil
		w.open(nil)
		if len(w.reports) != 1 || !strings.Contains(w.reports[0], "moved to corrupt/followers") {
			t.Errorf("%s: got reports %q", what, w.reports)
		}
		w.close()
	}
}

func TestSignatures(t *testing.T) {
	body := []byte("what do ya want for nothing?")
	for m, want := range map[push.Method]string{
		push.SHA1:   "sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
		push.SHA256: "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
		push.SHA384: "sha384=af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
		push.SHA512: "sha512=164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
	} {
		if got := m.Sign("Jefe", body); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if err := push.Verify(want, "Jefe", body); err != nil {
			t.Errorf("%s: %v", m, err)
		}
		if err := push.Verify(want[:len(want)-1], "Jefe", body); !errors.Is(err, push.ErrSignature) {
			t.Errorf("%s cut off: got %v", m, err)
		}
	}
	if err := push.Verify("md5=00", "Jefe", body); !errors.Is(err, push.ErrSignature) {
		t.Errorf("md5: got %v", err)
	}
}
