package rest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
)

// TestClientHoldsUntil uses the client for every hold with an end.
func TestClientHoldsUntil(t *testing.T) {
	s, d := newDialled(t)
	c := client.New(s.url, nil)
	at := d.now().Add(time.Minute)
	for n, uploads := range [][]client.Upload{{upload("x", queuefs.Meta{NotBefore: at})}, {upload("x", queuefs.Meta{NotBefore: at}), upload("y", queuefs.Meta{NotBefore: at})}} {
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
	all := bulk.Selection{Filter: bulk.Filter{Status: queuefs.Pending}}
	for _, step := range []struct {
		until time.Time
		want  []queuefs.JobID
	}{{later, []queuefs.JobID{3}}, {time.Time{}, []queuefs.JobID{2, 3}}, {later, nil}} {
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
	s.submit("x", queuefs.Meta{})
	in := 90 * time.Second
	for del, err := range c.Take(ctx, "jobs", queuefs.Take{Lease: time.Minute}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		j, err := c.Conclude(ctx, "jobs", del.Job, del.Lease, queuefs.Conclusion{Outcome: queuefs.Failed, Transient: true, Message: "m", RetryIn: &in})
		if err != nil || j.Status != queuefs.Pending || !j.HeldUntil.Equal(d.now().Add(in)) || j.Message != "m" {
			t.Errorf("got %+v, %v", j, err)
		}
	}
}

// TestOnlyOutcomesAreCounted reports the two attempts of a job: the first has no
// outcome.
func TestOnlyOutcomesAreCounted(t *testing.T) {
	var concluded []queuefs.Outcome
	s := newSite(t, rest.Options{Concluded: func(j *queuefs.Job) { concluded = append(concluded, j.Outcome) }})
	s.do("POST", "/state/jobs?maxAttempts=2", "").want(t, 200)
	s.submit("x", queuefs.Meta{})
	for range 2 {
		token := s.do("POST", "/consume/jobs?lease=60", "").want(t, 200).Header.Get("Cutie-Lease")
		s.do("POST", "/outcome/jobs/j000000000001?outcome=error&type=transient&retryIn=0", "", "Cutie-Lease", token).want(t, 200)
	}
	want(t, "outcomes", fmt.Sprint(concluded), fmt.Sprint([]queuefs.Outcome{queuefs.Failed}))
}
