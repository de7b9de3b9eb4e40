package uws_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"cutie/queuefs/uws"
)

func TestListsAreFilteredAndSorted(t *testing.T) {
	w := newWorld(t, "")
	var jobs []string
	for i := range 6 {
		w.sleep(time.Second)
		jobs = append(jobs, idOf(w.create(fmt.Sprint("n=", i))))
	}
	run := func(i int) { w.want(303, "POST", "async/"+jobs[i]+"/phase", "PHASE=RUN") }
	run(5) // the order of RUN is another one
	run(0)
	run(3)
	for query, want := range map[string][]string{
		"LAST=3":                                {jobs[5], jobs[4], jobs[3]},
		"last=2&PHASE=QUEUED":                   {jobs[5], jobs[3]},
		"LAST=9&PHASE=PENDING":                  {jobs[4], jobs[2], jobs[1]},
		"LAST=9&AFTER=2026-01-31T12:00:04":      {jobs[5], jobs[4]},
		"LAST=9&AFTER=2026-01-31T12:00:05.000Z": {jobs[5]},
		"AFTER=2027":                            nil,
		"PHASE=ARCHIVED":                        nil,
		"LAST=9&PHASE=PENDING&phase=queued":     {jobs[5], jobs[4], jobs[3], jobs[2], jobs[1], jobs[0]},
	} {
		if got := ids(w.get("async?" + query)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
	if got := len(ids(w.get("async"))); got != 6 {
		t.Errorf("got %d jobs, want 6", got)
	}
	for _, query := range []string{"LAST=-1", "LAST=0", "LAST=x", "PHASE=nonsense", "AFTER=2015-26-10", "AFTER=x"} {
		w.want(400, "GET", "async?"+query, "")
	}
	w.want(400, "GET", "async/"+jobs[0]+"?WAIT=x", "")
	w.want(400, "GET", "async/"+jobs[0]+"?WAIT=-2", "")
}

func TestOwnersHaveTheirJobs(t *testing.T) {
	w := newWorld(t, "")
	w.as = uws.Caller{Name: "ann"}
	anns := w.create("PHASE=RUN&a=1")
	staged := w.create("a=1")
	if got := w.get(anns + "/owner"); got != "ann" {
		t.Errorf("got owner %q", got)
	}
	for _, as := range []uws.Caller{{Name: "bob"}, {}, {Delete: true}} {
		w.as = as
		for _, job := range []string{anns, staged} {
			w.want(403, "GET", job, "")
			w.want(403, "DELETE", job, "")
			w.want(403, "POST", job+"/phase", "PHASE=ABORT")
			w.want(403, "PUT", job+"/parameters/a", "2")
		}
		if got := ids(w.get("async")); len(got) != 0 {
			t.Errorf("%+v: got %v in the list, want nothing", as, got)
		}
	}
	w.as = uws.Caller{}
	nobodys := w.create("a=1")
	w.phase(nobodys, "PENDING") // whoever was told of it may have it
	w.as = uws.Caller{Name: "ann"}
	if got := len(ids(w.get("async"))); got != 2 {
		t.Errorf("got %d jobs of ann, want 2", got)
	}
	w.as = uws.Caller{Admin: true}
	if got := len(ids(w.get("async"))); got != 3 {
		t.Errorf("got %d jobs, want 3", got)
	}
	w.want(303, "DELETE", anns, "")
}
