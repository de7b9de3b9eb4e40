package uws_test

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"testing"
	"time"

	"cutie/queuefs/uws"
	"cutie/wellknown"
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

// A list of a long queue comes in parts: each costs no more than so many jobs.
func TestLongListsComeInParts(t *testing.T) {
	w := newWorld(t, "")
	w.close()
	w.maxListed = 4
	w.open(nil)
	var jobs []string
	for i := range 10 {
		w.sleep(time.Second)
		jobs = append([]string{idOf(w.create(fmt.Sprint("n=", i)))}, jobs...)
	}
	for _, query := range []string{"", "?PHASE=PENDING", "?LAST=4", "?AFTER=2000"} {
		where, got, parts := w.srv.URL+"/uws/q/async"+query, []string(nil), 0
		for ; where != ""; parts++ {
			resp, err := http.Get(where)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			got = append(got, ids(string(text))...)
			where = ""
			if next := wellknown.Links(resp.Header, "next"); len(next) > 0 {
				where = next[0]
			}
		}
		if !reflect.DeepEqual(got, jobs) || parts != 3 {
			t.Errorf("%s: got %v in %d parts, want %v", query, got, parts, jobs)
		}
	}
	w.want(400, "GET", "async?BEFORE=x", "")
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
