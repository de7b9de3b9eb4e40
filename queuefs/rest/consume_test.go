package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
)

// A job whose payload is not there, or is cut off, is on hold before anybody has
// got it; the answer is that of the next one, in every wrapping.
func TestConsumePassesOverWhatIsNotThere(t *testing.T) {
	for _, tt := range []struct{ path, accept, media string }{
		{"/consume/jobs", "application/octet-stream", ""},
		{"/consume/jobs", "multipart/form-data", "multipart/form-data"},
		{"/consume/jobs", "multipart/mixed", "multipart/mixed"},
		{"/consume/jobs?max=3", "", "multipart/mixed"},
		{"/consume/jobs?max=3&wait=60&lease=60", "", "multipart/mixed"},
	} {
		for _, size := range []int{0, 200 << 10} {
			t.Run(fmt.Sprint(tt.path, " ", tt.accept, " ", size), func(t *testing.T) {
				s := newSite(t, rest.Options{})
				more := strings.Repeat("x", size)
				for _, payload := range []string{"cut off", "gone", "sound"} {
					s.submit(payload+more, job.Meta{})
				}
				if err := s.svc.Checkpoint(ctx); err != nil {
					t.Fatal(err)
				}
				payloads := filepath.Join(s.svc.Dir(), "queues/jobs/payload")
				if err := errors.Join(os.Truncate(filepath.Join(payloads, "j000000000001"), 2), os.Remove(filepath.Join(payloads, "j000000000002"))); err != nil {
					t.Fatal(err)
				}
				a := s.do("POST", tt.path, "", "Accept", tt.accept).want(t, 200)
				got := []part{{body: a.body}}
				if tt.media != "" {
					got = a.parts(t, tt.media)
				}
				if len(got) != 1 || got[0].body != "sound"+more {
					t.Errorf("got %d parts", len(got))
				}
				s.wantCounts(2, 1, 0)
				if held := s.q.State().Held; held != 2 {
					t.Errorf("%d jobs are on hold, want 2", held)
				}
				s.do("POST", "/consume/jobs", "").want(t, 204)
			})
		}
	}
}

func TestConsumeWaitsForAJob(t *testing.T) {
	s := newSite(t, rest.Options{})
	got := make(chan answer)
	for range 2 {
		go func() { got <- s.do("POST", "/consume/jobs?wait=60", "", "Accept", "application/octet-stream") }()
	}
	s.submit("one", job.Meta{})
	s.submit("two", job.Meta{})
	bodies := map[string]bool{}
	for range 2 {
		bodies[(<-got).want(t, 200).body] = true
	}
	if !bodies["one"] || !bodies["two"] {
		t.Errorf("got %v", bodies)
	}
}

func TestClientThatHungUpTakesNoJob(t *testing.T) {
	s := newService(t)
	h := rest.New(s.svc, rest.Options{})
	came, went := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(came)
		h.ServeHTTP(w, r)
		close(went)
	}))
	defer srv.Close()
	waiting, hangUp := context.WithCancel(ctx)
	gone := make(chan error)
	go func() {
		_, err := client.New(srv.URL, nil).Next(waiting, "jobs", time.Minute)
		gone <- err
	}()
	<-came
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	<-went // long before the minute is over
	s.submit("one", job.Meta{})
	s.wantCounts(1, 0, 0)
}

var _ http.Handler = (*rest.Handler)(nil)

// A meddler is an answer before each part of which something happens.
type meddler struct {
	*httptest.ResponseRecorder
	before func()
}

func (m *meddler) Write(p []byte) (int, error) {
	m.before()
	return m.ResponseRecorder.Write(p)
}

// TestCullingWaitsForPayloadsOnTheirWay culls while jobs are handed out.
func TestCullingWaitsForPayloadsOnTheirWay(t *testing.T) {
	s := newService(t)
	h := rest.New(s.svc, rest.Options{Log: s.logged.add})
	cull := func() (n int) {
		for _, err := range s.svc.Cull(ctx, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}) {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		return n
	}
	payload := strings.Repeat("payload ", 64<<10)
	for _, target := range []string{"/consume/jobs?max=3", "/consume/jobs"} {
		const jobs = 3
		for range jobs {
			s.submit(payload, job.Meta{})
		}
		for left := jobs; left > 0; {
			writes, early := 0, 0
			w := &meddler{httptest.NewRecorder(), func() { writes++; early += cull() }}
			h.ServeHTTP(w, httptest.NewRequest("POST", target, nil))
			given := strings.Count(w.Body.String(), payload)
			if w.Code != 200 || given == 0 || writes == 0 || early > 0 {
				t.Fatalf("%s: answer %d with %d payloads of %d; %d were culled in %d writes", target, w.Code, given, left, early, writes)
			}
			if n := cull(); n != given {
				t.Errorf("%s: %d culled of %d that were given", target, n, given)
			}
			left -= given
		}
	}
	if errs := s.logged.all(); len(errs) > 0 {
		t.Errorf("logged %v", errs)
	}
}

// A snag stands between the steps of the storage and the system. What it does at
// the first one happens when a job is chosen already, and its payload not yet
// read; what it returns is the error of the step.
type snag struct {
	next atomic.Pointer[func(step string) error]
}

func (s *snag) step(name string, do func() error) error {
	if f := s.next.Load(); f != nil {
		if err := (*f)(name); err != nil {
			return err
		}
	}
	return do()
}

// once makes do happen at the next step.
func (s *snag) once(do func()) {
	f := func(string) error { s.next.Store(nil); do(); return nil }
	s.next.Store(&f)
}

// newSnagged returns a site without a server, whose jobs have the payloads,
// those of capital letters in files of their own.
func newSnagged(t *testing.T, payloads ...string) (*site, *snag) {
	t.Helper()
	f := &snag{}
	s := newServiceWith(t, queuefs.Options{Fault: f.step})
	for _, p := range payloads {
		if p == strings.ToUpper(p) {
			p = strings.Repeat(p, 200<<10)
		}
		s.submit(p, job.Meta{})
	}
	return s, f
}

func (s *site) removePayload(id job.ID) {
	path := filepath.Join(s.svc.Dir(), "queues/jobs/payload", id.String())
	if err := os.Remove(path); err != nil {
		s.t.Error(err)
	}
}

// states returns what becomes of the jobs, in their order: p for pending, h for
// on hold, c for consumed, l for consumed with a lease.
func (s *site) states() (got string) {
	s.t.Helper()
	jobs, err := s.q.List(index.Filter{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, j := range jobs {
		switch {
		case !j.Held.IsZero():
			got += "h"
		case !j.Lease.Ends.IsZero():
			got += "l"
		default:
			got += j.Status.String()[:1]
		}
	}
	return got
}

// Jobs that nothing can be sent of are where they were, and whoever asked is
// told; a payload that will not read the next time either does not stand at the
// head for ever.
func TestJobsThatCannotBeReadArePutBack(t *testing.T) {
	for _, tt := range []struct {
		payloads        []string
		query           string
		scarce          bool
		status          int
		detail, logged  string
		states, nextOne string
	}{
		{[]string{"A", "b"}, "", true, 503,
			"the payload of j000000000001 cannot be read now; pending again: j000000000001; try again later", "too many open files", "pp", "A"},
		{[]string{"a", "B", "c", "d"}, "?max=3", true, 503,
			"the payload of j000000000002 cannot be read now; pending again: j000000000001 to j000000000003; try again later", "too many open files", "pppp", "a"},
		{[]string{"a", "B", "c", "d"}, "?max=3&lease=60", true, 503,
			"the payload of j000000000002 cannot be read now; pending again: j000000000001 to j000000000003; try again later", "too many open files", "pppp", "a"},
		{[]string{"A", "b"}, "", false, 500,
			"the payload of j000000000001 cannot be read; on hold: j000000000001; try again for the next", "no such file", "hp", "b"},
		{[]string{"A", "b", "c"}, "?lease=60", false, 500,
			"the payload of j000000000001 cannot be read; on hold: j000000000001; try again for the next", "no such file", "hpp", "b"},
		{[]string{"A", "b", "C", "d"}, "?max=3", false, 500,
			"the payload of j000000000001 cannot be read; on hold: j000000000001; pending again: j000000000002 to j000000000003; try again for the next", "no such file", "hppp", "b"},
	} {
		t.Run(fmt.Sprint(tt.payloads, tt.query, tt.scarce), func(t *testing.T) {
			s, f := newSnagged(t, tt.payloads...)
			if !tt.scarce { // the payloads have their names then, and the small ones are in files, too
				if err := s.svc.Checkpoint(ctx); err != nil {
					t.Fatal(err)
				}
			}
			bad := job.ID(1)
			for tt.payloads[bad-1] != strings.ToUpper(tt.payloads[bad-1]) {
				bad++
			}
			var limit syscall.Rlimit
			if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
				t.Fatal(err)
			}
			f.once(func() {
				if !tt.scarce {
					s.removePayload(bad)
					return
				}
				none := limit
				none.Cur = 0
				if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
					t.Error(err)
				}
			})
			a := s.direct("POST", "/consume/jobs"+tt.query, "")
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
				t.Fatal(err)
			}
			want(t, "answer", a.want(t, tt.status).exception(t), tt.detail)
			if got := s.states(); got != tt.states {
				t.Errorf("jobs: got %s, want %s", got, tt.states)
			}
			if errs := s.logged.all(); len(errs) != 1 || !strings.Contains(errs[0].Error(), tt.logged) || !strings.Contains(errs[0].Error(), "pending again: ") && tt.scarce {
				t.Errorf("logged: %v", errs)
			}
			if j, err := s.q.Job(bad); err != nil || !tt.scarce && j.HeldFor != "payload of "+bad.String()+": no such file or directory" {
				t.Errorf("held for %q, %v", j.HeldFor, err)
			}
			next := s.direct("POST", "/consume/jobs", "")
			if got := next.want(t, 200).parts(t, "multipart/form-data")[0].body[:1]; got != tt.nextOne {
				t.Errorf("the next one: got %q, want %q", got, tt.nextOne)
			}
		})
	}
}

// A payload that cannot be read now leaves its job pending, without a hold; consumers
// get the next one meanwhile.
func TestJobsThatCannotBeReadNowArePassedOver(t *testing.T) {
	var reads atomic.Int32
	s := newServiceWith(t, queuefs.Options{Reads: func(step string, do func() error) error {
		if step == "payload" && reads.Add(1) == 2 { // after the look for it
			return syscall.EIO
		}
		return do()
	}})
	s.submit(strings.Repeat("A", 200<<10), job.Meta{})
	s.submit("b", job.Meta{})
	if err := s.svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	a := s.direct("POST", "/consume/jobs", "")
	want(t, "answer", a.want(t, 503).exception(t),
		"the payload of j000000000001 cannot be read now; pending again: j000000000001; try again later")
	if got := s.states(); got != "pp" || s.svc.Unread() != 1 {
		t.Errorf("jobs: got %s, and %d cannot be read", got, s.svc.Unread())
	}
	next := s.direct("POST", "/consume/jobs", "")
	if got := next.want(t, 200).parts(t, "multipart/form-data")[0].body; got != "b" {
		t.Errorf("the next one: got %q", got)
	}
	a = s.direct("POST", "/consume/jobs", "")
	a.want(t, 503)
	s.direct("DELETE", "/content/jobs/j000000000001", "").want(t, 202)
	if s.svc.Unread() != 0 {
		t.Errorf("%d cannot be read", s.svc.Unread())
	}
}

// An aside is an answer to a client. While it takes what has a word in it
// something else happens, once.
type aside struct {
	*httptest.ResponseRecorder
	word string
	do   func()
}

func (a *aside) Write(p []byte) (int, error) {
	if a.do != nil && strings.Contains(string(p), a.word) {
		do := a.do
		a.do = nil
		do()
	}
	return a.ResponseRecorder.Write(p)
}

// What somebody else put back meanwhile, and another consumer may have, stays
// as it is.
func TestJobsThatOthersSawToAreNotPutBack(t *testing.T) {
	for _, tt := range []struct {
		query  string
		again  job.ID        // is put back by somebody else
		other  *queuefs.Take // nil if nobody takes it then
		states string
		logged string
	}{
		{"?max=5", 3, nil, "ccppp", "cannot be read; pending again: j000000000004 to j000000000005: "},
		{"?max=5", 3, &queuefs.Take{}, "cccpp", "cannot be read; pending again: j000000000004 to j000000000005: "},
		{"?max=5", 3, &queuefs.Take{Lease: time.Hour}, "cclpp", "cannot be read; pending again: j000000000004 to j000000000005: "},
		{"?max=5", 4, &queuefs.Take{}, "cchcp", "cannot be read; on hold: j000000000003; pending again: j000000000005: "},
		{"?max=5&lease=60", 3, nil, "llppp", "cannot be read; pending again: j000000000004 to j000000000005: "},
		{"?max=5&lease=60", 3, &queuefs.Take{}, "llcpp", "cannot be read; pending again: j000000000004 to j000000000005: "},
		{"?max=5&lease=60", 4, &queuefs.Take{Lease: time.Hour}, "llhlp", "cannot be read; on hold: j000000000003; pending again: j000000000005: "},
	} {
		t.Run(fmt.Sprint(tt.query, tt.again, tt.other), func(t *testing.T) {
			s, f := newSnagged(t, "A", "b", "C", "d", "e")
			if err := s.svc.Checkpoint(ctx); err != nil {
				t.Fatal(err)
			}
			f.once(func() { s.removePayload(3) })
			var seq job.Seq
			w := &aside{ResponseRecorder: httptest.NewRecorder(), word: "j000000000003", do: func() {
				path := filepath.Join(s.svc.Dir(), "queues/jobs/payload/j000000000003")
				if err := os.WriteFile(path, []byte(strings.Repeat("C", 200<<10)), 0o666); err != nil {
					t.Fatal(err)
				}
				j, err := s.q.Requeue(ctx, tt.again)
				if err != nil {
					t.Fatal(err)
				}
				if seq = j.Seq; tt.other == nil {
					return
				}
				taken, err := s.q.Take(ctx, *tt.other)
				if err != nil || len(taken) != 1 || taken[0].ID != tt.again {
					t.Fatalf("the other consumer got %v, %v", taken, err)
				}
				seq = taken[0].Seq
			}}
			rest.New(s.svc, rest.Options{Log: s.logged.add}).ServeHTTP(w, httptest.NewRequest("POST", "/consume/jobs"+tt.query, nil))
			if w.do != nil {
				t.Fatalf("nothing happened meanwhile: %d", w.Code)
			}
			if got := s.states(); got != tt.states {
				t.Errorf("jobs: got %s, want %s", got, tt.states)
			}
			if j, err := s.q.Job(tt.again); err != nil || j.Seq != seq {
				t.Errorf("%v: got event %d, %v, want %d", tt.again, j.Seq, err, seq)
			}
			if errs := s.logged.all(); len(errs) != 1 || !strings.Contains(errs[0].Error(), tt.logged) {
				t.Errorf("logged: %v, want %s", errs, tt.logged)
			}
		})
	}
}

// Where the jobs cannot be put back either the answer names them, and how that
// is done later.
func TestJobsThatCannotBePutBackAreNamed(t *testing.T) {
	s, f := newSnagged(t, "A", "b", "c")
	if err := s.svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	writes := 0
	broken := func(step string) error {
		if step != "journal write" {
			return nil
		}
		if writes++; writes == 1 { // the jobs are consumed
			s.removePayload(1)
			return nil
		}
		return syscall.EIO
	}
	f.next.Store(&broken)
	a := s.direct("POST", "/consume/jobs?max=2", "")
	f.next.Store(nil)
	want(t, "answer", a.want(t, 500).exception(t),
		"the payload of j000000000001 cannot be read; consumed, though not handed out: j000000000001 to j000000000002; POST /requeue/jobs/JOB puts one back")
	a.header(t, "Cutie-Lease", "")
	if got := s.states(); got != "ccp" {
		t.Errorf("jobs: got %s", got)
	}
	if errs := s.logged.all(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "j000000000001 to j000000000002") || !strings.Contains(errs[0].Error(), "input/output error") {
		t.Errorf("logged: %v", errs)
	}
	if err := s.svc.Close(); err == nil {
		t.Error("it is not out of order")
	}
}

// What is behind a payload that cannot be read when the answer has begun is not
// handed out. The client sees that less comes than was announced, and what came
// before is whole.
func TestAnswerEndsBeforeWhatCannotBeRead(t *testing.T) {
	s, f := newSnagged(t, "A", "b", "C", "d", "e")
	s.serve(rest.Options{})
	if err := s.svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	f.once(func() { s.removePayload(3) })
	resp, err := http.Post(s.url+"/consume/jobs?max=4", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	parts := multipart.NewReader(resp.Body, params["boundary"])
	for {
		var p *multipart.Part
		if p, err = parts.NextRawPart(); err != nil {
			break
		}
		var data []byte
		if data, err = io.ReadAll(p); err != nil {
			break
		}
		got = append(got, fmt.Sprint(string(data[:1]), len(data)))
	}
	if want := "[A204800 b1]"; fmt.Sprint(got) != want || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, %v, want %s and a body that is cut off", got, err, want)
	}
	if got := s.states(); got != "cchpp" {
		t.Errorf("jobs: got %s", got)
	}
	errs := s.logged.all()
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "on hold: j000000000003; pending again: j000000000004") {
		t.Errorf("logged: %v", errs)
	}
}

// TestClientHoldsUntil uses the client for every hold with an end.
func TestClientHoldsUntil(t *testing.T) {
	s, d := newDialled(t)
	c := client.New(s.url, nil)
	at := d.now().Add(time.Minute)
	for n, uploads := range [][]client.Upload{{upload("x", job.Meta{NotBefore: at})}, {upload("x", job.Meta{NotBefore: at}), upload("y", job.Meta{NotBefore: at})}} {
		if _, err := c.Submit(ctx, "jobs", uploads...); err != nil {
			t.Fatal(err)
		}
		want(t, "held", s.q.State().Held, int64(1+2*n))
	}
	later := at.Add(time.Minute)
	j, err := c.HoldUntil(ctx, "jobs", "j000000000002", "why", later)
	if err != nil || !j.HeldUntil.Equal(later) || j.HeldFor != "why" {
		t.Errorf("got %+v, %v", j, err)
	}
	// Holding all leaves the one without an end, and takes the others' away.
	if j, err = c.Hold(ctx, "jobs", "j000000000001", ""); err != nil || !j.HeldUntil.IsZero() || j.Held.IsZero() {
		t.Errorf("got %+v, %v", j, err)
	}
	all := bulk.Selection{Filter: bulk.Filter{Status: job.Pending}}
	for _, step := range []struct {
		until time.Time
		want  []job.ID
	}{{later, []job.ID{3}}, {time.Time{}, []job.ID{2, 3}}, {later, nil}} {
		changes, err := c.Bulk(ctx, "jobs", bulk.Operation{Method: "hold", Until: step.until}, all)
		if err != nil || fmt.Sprint(changes.Changed) != fmt.Sprint(step.want) {
			t.Errorf("all until %v: got %+v, %v want %v", step.until, changes, err, step.want)
		}
	}
	_, err = c.HoldUntil(ctx, "jobs", "j000000000001", "", d.now())
	if err == nil || !strings.Contains(err.Error(), "over before it begins") {
		t.Errorf("got %v", err)
	}
}

// TestClientSaysWhenToRetry reports a transient failure with the time of the next
// attempt.
func TestClientSaysWhenToRetry(t *testing.T) {
	s, d := newDialled(t)
	c := client.New(s.url, nil)
	s.submit("x", job.Meta{})
	in := 90 * time.Second
	for del, err := range c.Take(ctx, "jobs", queuefs.Take{Lease: time.Minute}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		j, err := c.Conclude(ctx, "jobs", del.Job, del.Lease, job.Conclusion{Outcome: job.Failed, Transient: true, Message: "m", RetryIn: &in})
		if err != nil || j.Status != job.Pending || !j.HeldUntil.Equal(d.now().Add(in)) || j.Message != "m" {
			t.Errorf("got %+v, %v", j, err)
		}
	}
}

// TestOnlyOutcomesAreCounted reports the two attempts of a job: the first has no
// outcome.
func TestOnlyOutcomesAreCounted(t *testing.T) {
	var concluded []job.Outcome
	s := newSite(t, rest.Options{Concluded: func(j *job.Job) { concluded = append(concluded, j.Outcome) }})
	s.do("POST", "/state/jobs?maxAttempts=2", "").want(t, 200)
	s.submit("x", job.Meta{})
	for range 2 {
		token := s.do("POST", "/consume/jobs?lease=60", "").want(t, 200).Header.Get("Cutie-Lease")
		s.do("POST", "/outcome/jobs/j000000000001?outcome=error&type=transient&retryIn=0", "", "Cutie-Lease", token).want(t, 200)
	}
	want(t, "outcomes", fmt.Sprint(concluded), fmt.Sprint([]job.Outcome{job.Failed}))
}
