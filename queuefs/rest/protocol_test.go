package rest_test

import (
	"fmt"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

func TestQueueStateListsJobsByPage(t *testing.T) {
	s := newSite(t, rest.Options{})
	for range 250 {
		s.submit("", queuefs.Meta{})
	}
	s.do("POST", "/consume/jobs?max=7", "").want(t, 200)
	// Following jobsNext shows every job once.
	for _, query := range []string{"", "?limit=0", "?limit=1000", "?limit=50&status=pending", "?status=consumed", "?limit=3&status=consumed&after=j000000000002", "?status=deleted"} {
		var got []string
		next := s.url + "/state/jobs" + query
		pages := 0
		for next != "" {
			a := s.do("GET", strings.TrimPrefix(next, s.url), "", "Accept", "text/x-anvl").want(t, 200)
			d, err := state.ANVL.Decode(state.QueueClass, []byte(a.body))
			if err != nil {
				t.Fatal(err)
			}
			q, err := d.Queue()
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range q.Jobs.IDs {
				got = append(got, id.String())
			}
			if len(q.Jobs.IDs) > q.Jobs.Limit {
				t.Errorf("%s: %d jobs, limit %d", next, len(q.Jobs.IDs), q.Jobs.Limit)
			}
			next = ""
			if p := d.Property("jobsNext"); p != nil {
				next = p.Text
			}
			if pages++; pages > 20 {
				t.Fatalf("%s: no end", query)
			}
		}
		o := queuefs.ListOptions{Limit: 1000}
		switch {
		case strings.Contains(query, "pending"):
			o.Status = queuefs.Pending
		case strings.Contains(query, "consumed"):
			o.Status = queuefs.Consumed
		case strings.Contains(query, "deleted"):
			o.Status = queuefs.Deleted
		}
		if strings.Contains(query, "after") {
			o.After = 2
		}
		var want []string
		for _, id := range s.q.IDs(o) {
			want = append(want, id.String())
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
}

func TestHelp(t *testing.T) {
	s := newSite(t, rest.Options{})
	all := s.do("GET", "/help", "", "Accept", "text/plain").want(t, 200)
	all.header(t, "Content-Type", "text/plain; charset=utf-8")
	for _, method := range []string{"Help", "Get-service-state", "Get-Queue-State", "get-job-state", "submit-job", "get-next-job", "peek-at-job", "delete-job",
		"submitJob", "SUBMITJOB", "deleteItem", "peek", "requeueJob", "createQueue",
		"setQueueBehavior", "removeQueue", "cull", "getBatchState", "hold-job", "releaseJob", "extendLease", "reportOutcome", "abortJob", "putResult", "getResult", "watch"} {
		text := s.do("GET", "/help/"+method, "", "Accept", "text/plain").want(t, 200)
		request := strings.Split(text.body, "\n")[2]
		if !strings.Contains(all.body, request+"\n") || request == "" {
			t.Errorf("%s: %q is not in the overview", method, request)
		}
		d, err := state.JSON.Decode(state.HelpClass, []byte(s.do("GET", "/help/"+method+"?t=json", "").want(t, 200).body))
		if err != nil || d.Property("request").Text != request {
			t.Errorf("%s: got %+v, %v", method, d, err)
		}
	}
	d, err := state.ANVL.Decode(state.HelpClass, []byte(s.do("GET", "/help", "", "Accept", "text/anvl").want(t, 200).body))
	if err != nil || len(d.Property("methods").Items) != 22 {
		t.Errorf("got %+v, %v", d, err)
	}
	// ?h and ?V are instead of the method.
	if got := s.do("POST", "/content/jobs?h", "x").want(t, 200); got.body != s.do("GET", "/help/submitJob", "").body || got.Header.Get("Content-Type") != state.XHTML.MediaType() {
		t.Errorf("?h: got %q", got.body)
	}
	if got := s.do("GET", "/state?V", "").want(t, 200); got.body != queuefs.Scheme+"\n" {
		t.Errorf("?V: got %q", got.body)
	}
	s.wantCounts(0, 0, 0)
}
