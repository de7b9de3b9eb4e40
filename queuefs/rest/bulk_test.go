package rest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
)

// newMixed returns a site with jobs in every state, an hour apart:
//
//	1 consumed   2 completed   3 failed   4 leased   5 deleted
//	6 held   7 pending, of the submitter "other"   8, 9 pending, of one batch
func newMixed(t *testing.T) (*site, *dial) {
	s, d := newDialled(t)
	for n := 1; n <= 9; n++ {
		m := queuefs.Meta{}
		if n == 7 {
			m.Submitter = "other"
		}
		if n == 8 {
			s.postForm(newForm().file("a", "8").file("b", "9").end()).want(t, 201)
			break
		}
		s.submit(fmt.Sprint(n), m)
	}
	for _, lease := range []string{"", "?lease=86400", "?lease=86400", "?lease=86400"} {
		d.turn(time.Hour)
		a := s.do("POST", "/consume/jobs"+lease, "").want(t, 200)
		id, token := a.Header.Get("Content-Location")[len(s.url)+len("/content/jobs/"):], a.Header.Get("Cutie-Lease")
		if id == "j000000000002" || id == "j000000000003" {
			outcome := map[string]string{"j000000000002": "completed", "j000000000003": "error"}[id]
			s.do("POST", "/outcome/jobs/"+id+"?outcome="+outcome, "", "Cutie-Lease", token).want(t, 200)
		}
	}
	d.turn(time.Hour)
	s.do("DELETE", "/content/jobs/j000000000005", "").want(t, 202)
	d.turn(time.Hour)
	s.do("POST", "/hold/jobs/j000000000006", "").want(t, 200)
	return s, d
}

func TestSelectionsChooseJobs(t *testing.T) {
	s, _ := newMixed(t)
	ids := func(numbers ...queuefs.JobID) []queuefs.JobID { return numbers }
	for _, tt := range []struct {
		path, body string
		want       []queuefs.JobID
	}{
		{"requeue/jobs?status=consumed", "", ids(1, 2, 3)}, // nobody else works on them
		{"requeue/jobs?status=deleted", "", ids(5)},
		{"requeue/jobs?status=pending", "", nil},
		{"requeue/jobs?outcome=error", "", ids(3)},
		{"requeue/jobs?outcome=completed&status=consumed", "", ids(2)},
		{"requeue/jobs?outcome=completed&status=deleted", "", nil},
		{"requeue/jobs?older=3", "", ids(1, 2)},
		{"requeue/jobs?older=4h1s", "", ids(1)},
		{"requeue/jobs?older=1d", "", nil},
		{"requeue/jobs?older=1h", "", ids(1, 2, 3, 5)},
		{"requeue/jobs?end&older=1h&status=consumed", "", ids(1, 2, 3)},
		{"hold/jobs?status=pending", "", ids(7, 8, 9)},
		{"hold/jobs?submitter=other", "", ids(7)},
		{"hold/jobs?submitter=oth", "", nil},
		{"hold/jobs?batch=b000000000008-2", "", ids(8, 9)},
		{"hold/jobs?batch=b000000000008-2&job=j000000000009&job=j000000000007", "", ids(9)},
		{"delete/jobs?status=pending", "", ids(6, 7, 8, 9)},
		{"delete/jobs?status=pending&limit=2", "", ids(6, 7)},
		{"delete/jobs?status=pending&after=j000000000007", "", ids(8, 9)},
		{"hold/jobs?batch=b000000000008-2&after=j000000000008", "", ids(9)},
		{"hold/jobs?job=j000000000007&job=j000000000008&after=j000000000007", "", ids(8)},
		{"delete/jobs?held", "", ids(6)},
		{"release/jobs?held=true", "", ids(6)},
		{"release/jobs?status=pending", "", ids(6)},
		{"release/jobs?job=j000000000007&job=j000000000006", "", ids(6)},
		{"requeue/jobs?outcome=error", "j000000000003\r\nj000000000002\n\n j000000000003 \n", ids(3)},
	} {
		header := []string{"Accept", "application/json"}
		if tt.body != "" {
			header = append(header, "Content-Type", "text/plain; charset=utf-8")
		}
		sep := "&"
		if !strings.Contains(tt.path, "?") {
			sep = "?"
		}
		got := s.do("POST", "/"+tt.path+sep+"dry", tt.body, header...).want(t, 200).queue(t).Changes
		more := strings.Contains(tt.path, "limit")
		if !slices.Equal(got.Chosen, tt.want) || got.Changed != nil || got.More != more || more && got.After != tt.want[len(tt.want)-1] {
			t.Errorf("%s: got %+v, want %v", tt.path, got, tt.want)
		}
	}
	s.do("POST", "/hold/jobs", "\n\n", "Content-Type", "text/plain").want(t, 400)
	if got := s.do("POST", "/hold/jobs", "j000000000007\n8\n", "Content-Type", "text/plain").want(t, 400).exception(t); !strings.Contains(got, "line 2") {
		t.Errorf("got %q", got)
	}
	s.do("POST", "/hold/jobs", strings.Repeat("j000000000007\n", bulk.Max+1), "Content-Type", "text/plain").want(t, 413)
	s.wantCounts(4, 4, 1)
}

func TestBulkChangesWhatItSaysAndNamesTheRest(t *testing.T) {
	s, _ := newMixed(t)
	post := func(path, body string) (changed []queuefs.JobID, refused []string, more bool) {
		t.Helper()
		var header []string
		if body != "" {
			header = []string{"Content-Type", "application/x-www-form-urlencoded"}
		}
		c := s.do("POST", path+"&t=xml", body, header...).want(t, 200).queue(t).Changes
		return c.Changed, c.Refused, c.More
	}
	changed, refused, more := post("/hold/jobs?status=pending&limit=2", "reason=storage+7+is+down")
	want(t, "hold", []any{changed, refused, more}, []any{[]queuefs.JobID{7, 8}, []string(nil), true})
	changed, _, more = post("/hold/jobs?status=pending&limit=2", "")
	want(t, "hold the rest", []any{changed, more}, []any{[]queuefs.JobID{9}, false})
	want(t, "reason", s.do("GET", "/state/jobs/j000000000008?t=json", "").job(t).HeldFor, "storage 7 is down")
	changed, refused, _ = post("/release/jobs?job=j000000000001&job=j000000000008&job=j000000000099", "")
	want(t, "release", []any{changed, refused}, []any{[]queuefs.JobID{8},
		[]string{"j000000000001: job not pending: it is consumed; requeue puts it back", "j000000000099: job not found"}})
	changed, _, _ = post("/requeue/jobs?outcome=error&end", "")
	want(t, "requeue at the end", changed, []queuefs.JobID{10})
	changed, _, _ = post("/requeue/jobs?outcome=error&end", "")
	want(t, "once only", changed, []queuefs.JobID(nil))
	changed, refused, _ = post("/requeue/jobs?job=j000000000004", "")
	want(t, "in work", changed, []queuefs.JobID(nil))
	if len(refused) != 1 || !strings.HasPrefix(refused[0], "j000000000004: job not in a state for that: a consumer works on j000000000004 until ") {
		t.Errorf("in work: refused %q", refused)
	}
	changed, _, _ = post("/requeue/jobs?job=j000000000004&force", "")
	want(t, "in work, and forced", changed, []queuefs.JobID{4})
	changed, _, _ = post("/delete/jobs?held", "")
	want(t, "delete", changed, []queuefs.JobID{6, 7, 9})
	s.wantCounts(3, 3, 4)
}

// A client that leaves, and a time that is over, stop the work between two
// jobs; what was changed is told.
func TestApplyTellsWhatItHasDoneWhenItIsStopped(t *testing.T) {
	s := newSite(t, rest.Options{})
	for range 5 {
		s.submit("x", queuefs.Meta{})
	}
	ctx := &countdown{Context: context.Background(), left: 3}
	sel := bulk.Selection{Filter: bulk.Filter{Status: queuefs.Pending}}
	c, err := sel.Apply(ctx, s.q, bulk.Operation{Method: "delete"}, time.Now(), nil)
	if err != nil || !slices.Equal(c.Changed, []queuefs.JobID{1, 2, 3}) || !c.More || c.After != 3 {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := sel.Apply(ctx, s.q, bulk.Operation{Method: "delete"}, time.Now(), nil); !errors.Is(err, context.DeadlineExceeded) || c.Changed != nil {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := sel.Apply(context.Background(), s.q, bulk.Operation{Method: "burn"}, time.Now(), nil); !errors.Is(err, queuefs.ErrBadName) {
		t.Errorf("got %v", err)
	}
	s.wantCounts(2, 0, 3)
	// Who has looked at jobs in vain goes on behind them.
	sel.Submitter = "nobody"
	c, err = sel.Apply(&countdown{Context: context.Background(), left: 1}, s.q, bulk.Operation{Method: "delete"}, time.Now(), nil)
	if err != nil || c.Changed != nil || !c.More || c.After != 4 {
		t.Errorf("got %+v, %v", c, err)
	}
	sel.After = 4
	if c, err = sel.Apply(context.Background(), s.q, bulk.Operation{Method: "delete"}, time.Now(), nil); err != nil || c.More {
		t.Errorf("got %+v, %v", c, err)
	}
}

// A call ends after some time, but not before it has looked at a job; whoever
// follows the Link gets to the end, however few jobs are meant. What a body
// named is not in a Link, which would mean others: it is sent again.
func TestBulkGoesOnBehindWhatItHasSeen(t *testing.T) {
	s := newService(t).serve(rest.Options{BulkTime: 1})
	for n := range 12 {
		by := "many"
		if n == 10 {
			by = "few"
		}
		s.submit("x", queuefs.Meta{Submitter: by})
	}
	for _, tt := range []struct{ path, body, header string }{
		{"/hold/jobs?submitter=few&reason=a+%26+b", "", ""},
		{"/release/jobs", "submitter=few", "application/x-www-form-urlencoded"},
		{"/hold/jobs?submitter=few", "j000000000003\nj000000000004\nj000000000011\nj000000000012\n", "text/plain"},
		{"/delete/jobs?submitter=few&dry", "", ""},
	} {
		var found []queuefs.JobID
		calls := 0
		for path := tt.path; path != "" && calls < 20; calls++ {
			body := tt.body
			if calls > 0 && strings.Contains(tt.header, "form") {
				body = "" // it is in the Link
			}
			a := s.do("POST", path, body, "Content-Type", tt.header, "Accept", "application/json").want(t, 200)
			c := a.queue(t).Changes
			found = append(append(found, c.Changed...), c.Chosen...)
			link := a.Header.Get("Link")
			if strings.Contains(tt.header, "plain") {
				if link != "" || c.More != (c.After != 0) {
					t.Errorf("%s: got %q for %+v", tt.path, link, c)
				}
				if path = ""; c.More {
					path = tt.path + "&after=" + c.After.String()
				}
				continue
			}
			if (link != "") != c.More || c.More && !strings.Contains(link, "after="+c.After.String()) {
				t.Errorf("%s: got %q for %+v", tt.path, link, c)
			}
			path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"+s.url), ">")
		}
		if !slices.Equal(found, []queuefs.JobID{11}) || calls < 4 {
			t.Errorf("%s: got %v with %d calls", tt.path, found, calls)
		}
	}
	if j, err := s.q.Job(11); err != nil || j.Held.IsZero() {
		t.Errorf("got %+v, %v", j, err)
	}
	// Of a batch that is culled meanwhile there is nothing left.
	s.postForm(newForm().file("a", "1").file("b", "2").end()).want(t, 201)
	s.do("POST", "/delete/jobs?batch=b000000000013-2", "").want(t, 200)
	if _, err := s.svc.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.CullingSize = 0; return nil }); err != nil {
		t.Fatal(err)
	}
	s.do("POST", "/delete/jobs?batch=b000000000013-2&after=j000000000013", "").want(t, 200)
	for _, err := range s.svc.Cull(ctx, queuefs.CullOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.do("POST", "/delete/jobs?batch=b000000000013-2&after=j000000000013", "").want(t, 200)
	s.do("POST", "/delete/jobs?batch=b000000000013-2", "").want(t, 404)
}

// Names that came in a body, and a request that is too long for a header, have
// no Link: who follows it would mean all that the rest of the request fits.
func TestBulkLinksOnlyToWhatIsWholeInTheLink(t *testing.T) {
	s := newService(t).serve(rest.Options{BulkTime: 1})
	for range 4 {
		s.submit("x", queuefs.Meta{Submitter: "ann"})
	}
	const named = "job=j000000000001&job=j000000000002"
	for _, tt := range []struct {
		path, media, body string
		link              bool
	}{
		{"/delete/jobs?status=pending&dry", "", "", true},
		{"/delete/jobs?status=pending&dry&" + named, "", "", true},
		{"/delete/jobs?dry", "application/x-www-form-urlencoded", "status=pending", true},
		{"/delete/jobs?dry", "application/x-www-form-urlencoded", "status=pending&" + named, false},
		{"/delete/jobs?dry&job=j000000000003", "application/x-www-form-urlencoded", named, false},
		{"/delete/jobs?dry&status=pending", "text/plain", "j000000000001\nj000000000002\n", false},
		{"/delete/jobs?dry&job=j000000000003", "text/plain", "j000000000001\nj000000000002\n", false},
		{"/delete/jobs?dry&status=pending" + strings.Repeat("&job=j000000000001&job=j000000000002", 150), "", "", false},
	} {
		a := s.do("POST", tt.path, tt.body, "Content-Type", tt.media, "Accept", "application/json").want(t, 200)
		c := a.queue(t).Changes
		if link := a.Header.Get("Link"); !c.More || c.After != 1 || (link != "") != tt.link {
			t.Errorf("%.80s with %q: got %.200q, %+v", tt.path, tt.body, link, c)
		}
	}
	s.wantCounts(4, 0, 0)
}

// Whoever deletes many jobs and whoever takes them at the same time are both
// told the truth: every job is with one of them.
func TestBulkAndConsumersShareTheJobs(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url, nil)
	const jobs = 300
	for range jobs {
		s.submit("x", queuefs.Meta{})
	}
	var (
		all            sync.WaitGroup
		mu             sync.Mutex
		deleted, taken []queuefs.JobID
	)
	for range 2 {
		all.Go(func() {
			got, err := c.Bulk(ctx, "jobs", bulk.Operation{Method: "delete"}, bulk.Selection{Filter: bulk.Filter{Status: queuefs.Pending}})
			if err != nil || got.More {
				t.Errorf("got %v, %v", got.More, err)
			}
			mu.Lock()
			defer mu.Unlock()
			deleted = append(deleted, got.Changed...)
		})
		all.Go(func() {
			for {
				var last error
				for d, err := range c.Take(ctx, "jobs", queuefs.Take{Max: 3, Lease: time.Minute}, 0) {
					if last = err; err != nil {
						break
					}
					id, _ := queuefs.ParseJobID(d.Job)
					mu.Lock()
					taken = append(taken, id)
					mu.Unlock()
				}
				if last == queuefs.ErrEmpty {
					return
				}
				if last != nil {
					t.Error(last)
					return
				}
			}
		})
	}
	all.Wait()
	st := s.q.State()
	if int(st.Consumed) != len(taken) || st.Pending != 0 || len(taken)+int(st.Deleted) != jobs {
		t.Errorf("%d taken of %d consumed, %d deleted, %d pending", len(taken), st.Consumed, st.Deleted, st.Pending)
	}
	// Two may delete the same job: the second finds it done.
	slices.Sort(deleted)
	if n := len(slices.Compact(deleted)); n != int(st.Deleted) {
		t.Errorf("told of %d deleted jobs, there are %d", n, st.Deleted)
	}
}

// A countdown ends when it was asked so often.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func TestListsAreOfWhatWasAskedFor(t *testing.T) {
	s, _ := newMixed(t)
	for query, want := range map[string][]queuefs.JobID{
		"status=consumed":                       {1, 2, 3, 4},
		"outcome=error":                         {3},
		"outcome=completed":                     {2},
		"held":                                  {6},
		"held&status=consumed":                  {},
		"batch=b000000000008-2":                 {8, 9},
		"batch=b000000000008-2&limit=1":         {8, 9},
		"status=consumed&limit=1":               {1, 2, 3, 4},
		"status=pending&held=false":             {6, 7, 8, 9},
		"batch=b000000000008-2&status=consumed": {},
	} {
		var got []queuefs.JobID
		path := "/state/jobs?" + query
		for pages := 0; path != "" && pages < 9; pages++ {
			d := s.do("GET", path, "", "Accept", "text/turtle").want(t, 200)
			q := d.queue(t)
			got = append(got, q.Jobs.IDs...)
			v, _ := url.ParseQuery(query)
			if held := v.Has("held") && v.Get("held") == ""; q.Jobs.Held != held || q.Jobs.Batch != v.Get("batch") || q.Jobs.Outcome != 0 && q.Jobs.Outcome.String() != v.Get("outcome") {
				t.Errorf("%s: says it lists %+v", query, q.Jobs)
			}
			doc := d.decoded(t, state.QueueClass)
			path = strings.TrimPrefix(says(doc, "jobsNext")[0], s.url)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
}

func TestClientChangesManyJobs(t *testing.T) {
	s, _ := newMixed(t)
	c := client.New(s.url, nil)
	got, err := c.Bulk(ctx, "jobs", bulk.Operation{Method: "hold", Reason: "a b"}, bulk.Selection{Filter: bulk.Filter{Batch: "b000000000008-2", Status: queuefs.Pending}, Older: time.Minute})
	if err != nil || !slices.Equal(got.Changed, []queuefs.JobID{8, 9}) {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = c.Bulk(ctx, "jobs", bulk.Operation{Method: "requeue", End: true}, bulk.Selection{Jobs: []queuefs.JobID{3, 8, 77}})
	if err != nil || !slices.Equal(got.Changed, []queuefs.JobID{10}) || len(got.Refused) != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = c.Bulk(ctx, "jobs", bulk.Operation{Method: "delete"}, bulk.Selection{Filter: bulk.Filter{Held: true, Submitter: "Go-http-client/1.1", Limit: 1}, Dry: true})
	if err != nil || !slices.Equal(got.Chosen, []queuefs.JobID{8}) || !got.More {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = c.Bulk(ctx, "jobs", bulk.Operation{Method: "requeue"}, bulk.Selection{Filter: bulk.Filter{Outcome: queuefs.Completed}})
	if err != nil || !slices.Equal(got.Changed, []queuefs.JobID{2}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := c.Bulk(ctx, "jobs", bulk.Operation{Method: "delete"}, bulk.Selection{Filter: bulk.Filter{Limit: 3}}); err == nil || !strings.Contains(err.Error(), "no jobs are selected") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Bulk(ctx, "none", bulk.Operation{Method: "delete"}, bulk.Selection{Filter: bulk.Filter{Held: true}}); !errors.Is(err, queuefs.ErrNoQueue) {
		t.Errorf("got %v", err)
	}
	page, err := c.Queue(ctx, "jobs", bulk.Filter{Held: true, Batch: "b000000000008-2", Status: queuefs.Pending})
	if err != nil || !slices.Equal(page.Jobs.IDs, []queuefs.JobID{8, 9}) {
		t.Errorf("got %+v, %v", page.Jobs, err)
	}
	if page, err = c.Queue(ctx, "jobs", bulk.Filter{Outcome: queuefs.Failed}); err != nil || !slices.Equal(page.Jobs.IDs, []queuefs.JobID{3}) {
		t.Errorf("got %+v, %v", page.Jobs, err)
	}
}

// Who sends names and does not say so is not taken to mean all jobs that the
// query fits: HTTP clients send text without a media type.
func TestBulkRefusesABodyThatDoesNotSayWhatItIs(t *testing.T) {
	s := newSite(t, rest.Options{})
	for range 3 {
		s.submit("x", queuefs.Meta{})
	}
	for _, media := range []string{"", "text", "application/octet-stream"} {
		s.do("POST", "/delete/jobs?status=pending", "j000000000001\n", "Content-Type", media).want(t, 415)
		s.do("POST", "/cull/jobs", "dry", "Content-Type", media).want(t, 415)
	}
	s.wantCounts(3, 0, 0)
	s.do("POST", "/delete/jobs?status=pending&limit=1", "", "Content-Type", "").want(t, 200)
	s.wantCounts(2, 0, 1)
}

// Who may change jobs and not read them learns of them what he did, and no more.
func TestChangesShowNoMoreThanTheCallerMayRead(t *testing.T) {
	reads, shown := false, false
	s := newSite(t, rest.Options{Reads: func(*http.Request, string) bool { return reads }})
	s.submit("a payload", queuefs.Meta{Submitter: "secret agent", Sidecar: "secret: sidecar", Filename: "secret.txt"})
	s.submit("a payload", queuefs.Meta{Submitter: "secret agent", Sidecar: "secret: sidecar", Filename: "secret.txt"})
	if _, err := s.svc.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.Description = "secret"; return nil }); err != nil {
		t.Fatal(err)
	}
	change := func(method, path string, status int, want string, header ...string) {
		t.Helper()
		for _, form := range []string{"application/json", "application/xml", "text/x-anvl", "text/html"} {
			a := s.do(method, path, "", append(header, "Accept", form)...)
			if a.StatusCode != status {
				t.Fatalf("%s %s: got %d %s", method, path, a.StatusCode, a.body)
			}
			if strings.Contains(a.body, "secret") != shown || !strings.Contains(a.body, want) {
				t.Errorf("%s %s as %s: got %s", method, path, form, a.body)
			}
		}
	}
	for _, reads = range []bool{false, true} {
		shown = reads
		change("POST", "/hold/jobs/j000000000001", 200, "pending")
		change("POST", "/hold/jobs?job=j000000000001&dry=true", 200, "jobs")
		change("POST", "/hold/jobs?job=j000000000001", 200, "j000000000001")
		change("POST", "/release/jobs/j000000000001", 200, "j000000000001")
		change("DELETE", "/content/jobs/j000000000001", 202, "deleted")
		change("POST", "/requeue/jobs?job=j000000000001", 200, "j000000000001")
	}
	reads, shown = false, true // the lease shows that he works on it
	a := s.do("POST", "/consume/jobs?lease=60", "").want(t, 200)
	change("POST", "/lease/jobs/j000000000001?seconds=60", 200, "j000000000001", "Cutie-Lease", a.Header.Get("Cutie-Lease"))
}
