package rest_test

import (
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// Cutie 0.3, 3.2: jobStates are those of all jobs, if the client asks.
func TestWholeState(t *testing.T) {
	s := newServiceWith(t, queuefs.Options{Segment: manyJobs}).serve(rest.Options{})
	s.do("POST", "/state/jobs?description=j999999999999", "").want(t, 200) // a trap
	add := func(n int) {
		t.Helper()
		sub := s.q.Begin()
		defer sub.Discard()
		for range n {
			if _, err := sub.Add(queuefs.Meta{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := sub.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for _, more := range []int{0, 1, 1, 1, 4997, 5000, 5000} {
		if more > 0 {
			add(more)
		}
		total += more
		for _, form := range []state.Form{state.ANVL, state.JSON, state.Turtle, state.XHTML, state.XML} {
			a := s.do("GET", "/state/jobs?limit=all", "", "Accept", form.MediaType())
			got := a.queue(t)
			if len(got.Jobs.IDs) != total || got.Jobs.More || got.Info.Description != "j999999999999" {
				t.Errorf("%v: got %d of %d jobs, %q", form, len(got.Jobs.IDs), total, got.Info.Description)
			}
			for i, id := range got.Jobs.IDs {
				if id != queuefs.JobID(i+1) {
					t.Fatalf("%v: job %d is %v", form, i, id)
				}
			}
			if total <= 3 && form != state.XHTML { // it is the state, but for the length of the page
				part := s.do("GET", "/state/jobs?t="+form.String(), "").body
				for _, limit := range []string{"jobsLimit: 100\n", `"jobsLimit":100,`, " ;\n    que:jobsLimit 100", "<que:jobsLimit>100</que:jobsLimit>\n", "    <que:jobsLimit>100</que:jobsLimit>\n"} {
					if got := strings.Replace(part, limit, "", 1); got == a.body {
						part = got
					}
				}
				want(t, form.String(), a.body, part)
			}
		}
	}
	s.do("POST", "/consume/jobs", "").want(t, 200)
	if got := s.do("GET", "/state/jobs?limit=all&status=consumed", "", "Accept", "application/json").queue(t); len(got.Jobs.IDs) != 1 {
		t.Errorf("got %v", got.Jobs.IDs)
	}
	if got := s.do("GET", "/state/jobs?limit=all&after=j000000014990", "", "Accept", "application/json").queue(t); len(got.Jobs.IDs) != 10 {
		t.Errorf("got %v", got.Jobs.IDs)
	}
	s.do("GET", "/state/jobs?limit=all&t=soif", "").want(t, 400)
	s.do("GET", "/state/jobs?limit=all&limit=1", "").want(t, 400)
	s.do("GET", "/state/jobs?limit=ALL", "").want(t, 400)
}

// The state after several submissions names the new jobs among the jobs, too.
func TestSeveralAreNamed(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", queuefs.Meta{})
	q := s.postForm(newForm().file("a", "1").file("b", "2").end(), "Accept", "application/json").want(t, 201).queue(t)
	want(t, "jobs", q.Jobs.IDs, []queuefs.JobID{2, 3})
	want(t, "submitted", q.Submitted, q.Jobs.IDs)
	want(t, "more", q.Jobs.More, false)
}
