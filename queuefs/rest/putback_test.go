package rest_test

import (
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
	"cutie/queuefs/rest"
)

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
		s.submit(p, queuefs.Meta{})
	}
	return s, f
}

func (s *site) removePayload(id queuefs.JobID) {
	path := filepath.Join(s.svc.Dir(), "queues/jobs/payload", id.String())
	if err := os.Remove(path); err != nil {
		s.t.Error(err)
	}
}

// states returns what becomes of the jobs, in their order: p for pending, h for
// on hold, c for consumed, l for consumed with a lease.
func (s *site) states() (got string) {
	s.t.Helper()
	jobs, err := s.q.List(queuefs.ListOptions{})
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
			bad := queuefs.JobID(1)
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
	s.submit(strings.Repeat("A", 200<<10), queuefs.Meta{})
	s.submit("b", queuefs.Meta{})
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
		again  queuefs.JobID // is put back by somebody else
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
			var seq queuefs.Seq
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
