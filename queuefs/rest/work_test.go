package rest_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

func TestLeaseIsExtendedUntilItIsGone(t *testing.T) {
	s, d := newDialled(t)
	s.submit("x", queuefs.Meta{})
	token := s.do("POST", "/consume/jobs?lease=60", "").want(t, 200).Header.Get("Cutie-Lease")
	for i, r := range []struct {
		path, body string
		header     []string
		lasts      time.Duration
	}{
		{"?seconds=100", "", []string{"Cutie-Lease", token}, 100 * time.Second},
		{"?seconds=0.5&lease=" + token, "", nil, 500 * time.Millisecond},
		{"", "seconds=86400&lease=" + token, []string{"Content-Type", "application/x-www-form-urlencoded"}, 24 * time.Hour},
		{"", newForm().field("seconds", "7").field("lease", token).end(), []string{"Content-Type", "multipart/form-data; boundary=b0undary"}, 7 * time.Second},
		{"?lease=" + token, "", []string{"Cutie-Lease", token}, queuefs.DefaultLease},
	} {
		a := s.do("POST", "/lease/jobs/j000000000001"+r.path, r.body, append(r.header, "Accept", "application/json")...).want(t, 200)
		ends := d.now().Add(r.lasts)
		a.header(t, "Cutie-Lease-Expires", queuefs.FormatTime(ends))
		a.header(t, "Cutie-Attempt", "1")
		want(t, fmt.Sprint(i), says(a.decoded(t, state.JobClass), "leaseExpires"), []string{queuefs.FormatTime(ends)})
	}
	s.do("POST", "/lease/jobs/j000000000001?lease="+token, "", "Cutie-Lease", "other").want(t, 400)
	s.do("POST", "/lease/jobs/j000000000001", "seconds=7", "Content-Type", "text/plain", "Cutie-Lease", token).want(t, 415)
	d.turn(queuefs.DefaultLease)
	for _, r := range []string{"POST /lease/jobs/j000000000001", "POST /outcome/jobs/j000000000001?outcome=completed", "PUT /result/jobs/j000000000001/a"} {
		method, path, _ := strings.Cut(r, " ")
		a := s.do(method, path, "", "Cutie-Lease", token).want(t, 410)
		a.header(t, "Cutie-Lease-Expires", "")
		if got := a.exception(t); !strings.Contains(got, "lease is gone") {
			t.Errorf("%s: got %q", r, got)
		}
	}
	expire(t, s)
	s.wantCounts(1, 0, 0)
}

func TestLeaseOfAQueueThatWantsReports(t *testing.T) {
	s, d := newDialled(t)
	s.do("POST", "/state/jobs?acknowledge=required&leaseDuration=30&maxAttempts=2", "").want(t, 200)
	s.submit("x", queuefs.Meta{})
	for n := 1; n <= 2; n++ {
		a := s.do("POST", "/consume/jobs", "").want(t, 200)
		a.header(t, "Cutie-Lease-Expires", queuefs.FormatTime(d.now().Add(30*time.Second)))
		a.header(t, "Cutie-Attempt", fmt.Sprint(n))
		d.turn(30 * time.Second)
		expire(t, s)
	}
	j := s.only()
	want(t, "outcome", [3]any{j.Status, j.Outcome, j.Transient}, [3]any{queuefs.Consumed, queuefs.Failed, true})
	s.do("POST", "/state/jobs?acknowledge=none", "").want(t, 200)
	s.submit("y", queuefs.Meta{})
	s.do("POST", "/consume/jobs", "").want(t, 200).header(t, "Cutie-Lease", "")
}

func TestOutcomesAreReportedOnce(t *testing.T) {
	for _, tt := range []struct {
		query string
		want  queuefs.Job
	}{
		{"outcome=completed", queuefs.Job{Status: queuefs.Consumed, Outcome: queuefs.Completed}},
		{"outcome=Completed&message=fine", queuefs.Job{Status: queuefs.Consumed, Outcome: queuefs.Completed, Message: "fine"}},
		{"outcome=error&message=bad", queuefs.Job{Status: queuefs.Consumed, Outcome: queuefs.Failed, Message: "bad"}},
		{"outcome=error&type=transient&message=now", queuefs.Job{Status: queuefs.Pending, Message: "now"}},
		{"outcome=error&type=transient&retryIn=0", queuefs.Job{Status: queuefs.Pending}},
		{"outcome=released&message=later", queuefs.Job{Status: queuefs.Pending, Message: "later"}},
		{"outcome=error&type=transient", queuefs.Job{Status: queuefs.Consumed, Outcome: queuefs.Failed, Transient: true}}, // the last attempt
	} {
		s := newSite(t, rest.Options{})
		if tt.want.Transient {
			s.do("POST", "/state/jobs?maxAttempts=1", "").want(t, 200)
		}
		s.submit("x", queuefs.Meta{})
		token := s.do("POST", "/consume/jobs?lease=60", "").want(t, 200).Header.Get("Cutie-Lease")
		j := s.do("POST", "/outcome/jobs/j000000000001?t=json", tt.query, "Content-Type", "application/x-www-form-urlencoded", "Cutie-Lease", token).want(t, 200).job(t)
		want(t, tt.query, queuefs.Job{Status: j.Status, Outcome: j.Outcome, Message: j.Message, Transient: j.Transient}, tt.want)
		for _, again := range []string{"completed", "error", "released"} {
			s.do("POST", "/outcome/jobs/j000000000001?outcome="+again, "", "Cutie-Lease", token).want(t, 410)
		}
		after := s.only()
		want(t, tt.query+", again", [2]any{after.Seq, after.Outcome}, [2]any{j.Seq, j.Outcome})
	}
	s := newSite(t, rest.Options{})
	s.submit("x", queuefs.Meta{})
	token := s.do("POST", "/consume/jobs?lease=60", "").want(t, 200).Header.Get("Cutie-Lease")
	s.do("POST", "/outcome/jobs/j000000000001?outcome=completed&message="+strings.Repeat("x", job.MaxMessage+1), "", "Cutie-Lease", token).want(t, 413)
	want(t, "too long a message", s.only().Outcome, queuefs.Outcome(0))
}

func TestAbortRevokesTheLease(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", queuefs.Meta{})
	s.submit("y", queuefs.Meta{})
	token := s.do("POST", "/consume/jobs?lease=60", "").want(t, 200).Header.Get("Cutie-Lease")
	j := s.do("POST", "/abort/jobs/j000000000001?t=json&message=enough", "").want(t, 200).job(t)
	want(t, "in work", [3]any{j.Status, j.Outcome, j.Message}, [3]any{queuefs.Consumed, queuefs.Aborted, "enough"})
	s.do("POST", "/lease/jobs/j000000000001", "", "Cutie-Lease", token).want(t, 410)
	j = s.do("POST", "/abort/jobs/j000000000002?t=json", "").want(t, 200).job(t)
	want(t, "pending", [2]any{j.Status, j.Outcome}, [2]any{queuefs.Deleted, queuefs.Aborted})
	s.do("POST", "/abort/jobs/j000000000002", "").want(t, 409)
}

func TestEachPartHasItsLease(t *testing.T) {
	s := newSite(t, rest.Options{})
	for n := range 3 {
		s.submit(fmt.Sprint(n), queuefs.Meta{Sidecar: "s"})
	}
	a := s.do("POST", "/consume/jobs?max=3&lease=60", "").want(t, 200)
	a.header(t, "Cutie-Lease", "")
	for i, p := range a.parts(t, "multipart/mixed") {
		id := queuefs.JobID(i + 1).String()
		want(t, id, [4]string{p.header.Get("Content-Location"), p.body, p.header.Get("Cutie-Attempt"), p.header.Get("Cutie-Sidecar")},
			[4]string{s.url + "/content/jobs/" + id, fmt.Sprint(i), "1", "s"})
		want(t, id, p.header["Link"][1], "<"+s.url+"/outcome/jobs/"+id+`>; rel="`+rest.Relation+`outcome"`)
		s.do("POST", "/outcome/jobs/"+id+"?outcome=completed", "", "Cutie-Lease", p.header.Get("Cutie-Lease")).want(t, 200)
	}
}

func TestResultsAreKeptAsTheyCame(t *testing.T) {
	s := newSite(t, rest.Options{MaxBody: 1 << 20})
	s.submit("x", queuefs.Meta{})
	token := s.do("POST", "/consume/jobs?lease=60", "").want(t, 200).Header.Get("Cutie-Lease")
	large := strings.Repeat("0123456789", 60_000)
	put := func(name, body string, status int, header ...string) answer {
		t.Helper()
		return s.do("PUT", "/result/jobs/j000000000001/"+name, body, append(header, "Cutie-Lease", token)...).want(t, status)
	}
	put("large", large, 201, "Content-Type", "text/plain; charset=utf-8", "Repr-Digest", "sha=:"+digestOf(digest.SHA1, large)+":").
		header(t, "Location", s.url+"/result/jobs/j000000000001/large")
	put("empty", "", 201)
	put("page.html?digest-type=md5&digest-value="+digest.Sum(digest.MD5, []byte("<p>")).Hex, "<p>", 201, "Content-Type", "text/html")
	if got := put("large", "y", 409).exception(t); !strings.Contains(got, "result exists already") {
		t.Errorf("got %q", got)
	}
	put("bad", "x", 400, "Content-MD5", "kAFQmDzST7DWlj99KOF/cg==")
	put("bad", "x", 415, "Content-Encoding", "gzip")
	put("bad", "x", 400, "Content-Type", "nonsense")
	put("bad", strings.Repeat("x", 1<<20+1), 413)
	put("bad?colour=red", "x", 400)
	if err := s.svc.Checkpoint(ctx); err != nil { // what was accepted has its name then
		t.Fatal(err)
	}
	s.wantNoTemps()

	a := s.do("GET", "/result/jobs/j000000000001/large", "").want(t, 200)
	if a.body != large {
		t.Errorf("got %d octets", len(a.body))
	}
	a.header(t, "Content-Type", "text/plain; charset=utf-8")
	a.header(t, "Content-Security-Policy", "sandbox; default-src 'none'")
	a.header(t, "X-Content-Type-Options", "nosniff")
	a.header(t, "Etag", `"`+digest.Sum(digest.SHA256, []byte(large)).Hex+`"`)
	s.do("GET", "/result/jobs/j000000000001/large", "", "If-None-Match", a.Header.Get("Etag")).want(t, 304)
	part := s.do("GET", "/result/jobs/j000000000001/large", "", "Range", "bytes=10-14").want(t, 206)
	want(t, "range", part.body, "01234")
	s.do("HEAD", "/result/jobs/j000000000001/large", "").want(t, 200).header(t, "Content-Length", "600000")
	s.do("GET", "/result/jobs/j000000000001/empty", "").want(t, 200).header(t, "Content-Type", "application/octet-stream")
	s.do("GET", "/result/jobs/j000000000001/bad", "").want(t, 404)

	d := s.do("POST", "/outcome/jobs/j000000000001?outcome=completed&t=json", "", "Cutie-Lease", token).want(t, 200).decoded(t, state.JobClass)
	ref := s.url + "/result/jobs/j000000000001/"
	want(t, "results", says(d, "results"), []string{ref + "large " + ref + "empty " + ref + "page.html"})
	put("late", "x", 410)
	s.do("POST", "/requeue/jobs/j000000000001", "").want(t, 200)
	s.do("GET", "/result/jobs/j000000000001/large", "").want(t, 404)
}

// digestOf returns the base64 of a digest.
func digestOf(typ digest.Type, text string) string {
	h := typ.New()
	io.WriteString(h, text)
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}
