package rest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/bulk"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

// newMixed returns a site with jobs in every state, an hour apart:
//
//	1 consumed   2 completed   3 failed   4 leased   5 deleted
//	6 held   7 pending, of the submitter "other"   8, 9 pending, of one batch
func newMixed(t *testing.T) (*site, *dial) {
	s, d := newDialled(t)
	for n := 1; n <= 9; n++ {
		m := job.Meta{}
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

// A client that leaves, and a time that is over, stop the work between two
// jobs; what was changed is told.
func TestApplyTellsWhatItHasDoneWhenItIsStopped(t *testing.T) {
	s := newSite(t, rest.Options{})
	for range 5 {
		s.submit("x", job.Meta{})
	}
	ctx := &countdown{Context: context.Background(), left: 3}
	sel := bulk.Selection{Filter: bulk.Filter{Status: job.Pending}}
	c, err := sel.Apply(ctx, s.q, bulk.Operation{Method: "delete"}, time.Now(), nil)
	if err != nil || !slices.Equal(c.Changed, []job.ID{1, 2, 3}) || !c.More || c.After != 3 {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := sel.Apply(ctx, s.q, bulk.Operation{Method: "delete"}, time.Now(), nil); !errors.Is(err, context.DeadlineExceeded) || c.Changed != nil {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := sel.Apply(context.Background(), s.q, bulk.Operation{Method: "burn"}, time.Now(), nil); !errors.Is(err, job.ErrBadName) {
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
		s.submit("x", job.Meta{Submitter: by})
	}
	for _, tt := range []struct{ path, body, header string }{
		{"/hold/jobs?submitter=few&reason=a+%26+b", "", ""},
		{"/release/jobs", "submitter=few", "application/x-www-form-urlencoded"},
		{"/hold/jobs?submitter=few", "j000000000003\nj000000000004\nj000000000011\nj000000000012\n", "text/plain"},
		{"/delete/jobs?submitter=few&dry", "", ""},
	} {
		var found []job.ID
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
		if !slices.Equal(found, []job.ID{11}) || calls < 4 {
			t.Errorf("%s: got %v with %d calls", tt.path, found, calls)
		}
	}
	if j, err := s.q.Job(11); err != nil || j.Held.IsZero() {
		t.Errorf("got %+v, %v", j, err)
	}
	// Of a batch that is culled meanwhile there is nothing left.
	s.postForm(newForm().file("a", "1").file("b", "2").end()).want(t, 201)
	s.do("POST", "/delete/jobs?batch=b000000000013-2", "").want(t, 200)
	if _, err := s.svc.SetQueue(ctx, "jobs", func(i *home.QueueInfo) error { i.CullingSize = 0; return nil }); err != nil {
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

// Whoever deletes many jobs and whoever takes them at the same time are both
// told the truth: every job is with one of them.
func TestBulkAndConsumersShareTheJobs(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url, nil)
	const jobs = 300
	for range jobs {
		s.submit("x", job.Meta{})
	}
	var (
		all            sync.WaitGroup
		mu             sync.Mutex
		deleted, taken []job.ID
	)
	for range 2 {
		all.Go(func() {
			got, err := c.Bulk(ctx, "jobs", bulk.Operation{Method: "delete"}, bulk.Selection{Filter: bulk.Filter{Status: job.Pending}})
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
					id, _ := job.ParseID(d.Job)
					mu.Lock()
					taken = append(taken, id)
					mu.Unlock()
				}
				if last == ledger.ErrEmpty {
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

func TestClientChangesManyJobs(t *testing.T) {
	s, _ := newMixed(t)
	c := client.New(s.url, nil)
	got, err := c.Bulk(ctx, "jobs", bulk.Operation{Method: "hold", Reason: "a b"}, bulk.Selection{Filter: bulk.Filter{Batch: "b000000000008-2", Status: job.Pending}, Older: time.Minute})
	if err != nil || !slices.Equal(got.Changed, []job.ID{8, 9}) {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = c.Bulk(ctx, "jobs", bulk.Operation{Method: "requeue", End: true}, bulk.Selection{Jobs: []job.ID{3, 8, 77}})
	if err != nil || !slices.Equal(got.Changed, []job.ID{10}) || len(got.Refused) != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = c.Bulk(ctx, "jobs", bulk.Operation{Method: "delete"}, bulk.Selection{Filter: bulk.Filter{Held: true, Submitter: "Go-http-client/1.1", Limit: 1}, Dry: true})
	if err != nil || !slices.Equal(got.Chosen, []job.ID{8}) || !got.More {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = c.Bulk(ctx, "jobs", bulk.Operation{Method: "requeue"}, bulk.Selection{Filter: bulk.Filter{Outcome: job.Completed}})
	if err != nil || !slices.Equal(got.Changed, []job.ID{2}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := c.Bulk(ctx, "jobs", bulk.Operation{Method: "delete"}, bulk.Selection{Filter: bulk.Filter{Limit: 3}}); err == nil || !strings.Contains(err.Error(), "no jobs are selected") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Bulk(ctx, "none", bulk.Operation{Method: "delete"}, bulk.Selection{Filter: bulk.Filter{Held: true}}); !errors.Is(err, ledger.ErrNoQueue) {
		t.Errorf("got %v", err)
	}
	page, err := c.Queue(ctx, "jobs", bulk.Filter{Held: true, Batch: "b000000000008-2", Status: job.Pending})
	if err != nil || !slices.Equal(page.Jobs.IDs, []job.ID{8, 9}) {
		t.Errorf("got %+v, %v", page.Jobs, err)
	}
	if page, err = c.Queue(ctx, "jobs", bulk.Filter{Outcome: job.Failed}); err != nil || !slices.Equal(page.Jobs.IDs, []job.ID{3}) {
		t.Errorf("got %+v, %v", page.Jobs, err)
	}
}

// Who may change jobs and not read them learns of them what he did, and no more.
func TestChangesShowNoMoreThanTheCallerMayRead(t *testing.T) {
	reads, shown := false, false
	s := newSite(t, rest.Options{Reads: func(*http.Request, string) bool { return reads }})
	s.submit("a payload", job.Meta{Submitter: "secret agent", Sidecar: "secret: sidecar", Filename: "secret.txt"})
	s.submit("a payload", job.Meta{Submitter: "secret agent", Sidecar: "secret: sidecar", Filename: "secret.txt"})
	if _, err := s.svc.SetQueue(ctx, "jobs", func(i *home.QueueInfo) error { i.Description = "secret"; return nil }); err != nil {
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

// Culling says how many jobs it leaves that are due, and why, also where it
// culls none, of a queue and of all.
func TestCullSaysWhatItKeeps(t *testing.T) {
	s, d := newDialled(t)
	for n := range 4 {
		m := job.Meta{}
		if n == 0 {
			m.Destruction = time.Now().Add(100 * 365 * 24 * time.Hour)
		}
		s.submit("x", m)
		if _, err := s.q.Next(ctx, "w"); err != nil {
			t.Fatal(err)
		}
		d.turn(time.Hour)
	}
	kept := func(what, path string, want ...queuefs.Kept) {
		t.Helper()
		c := s.do("POST", path, "", "Accept", "application/json").want(t, 200).queue(t).Changes
		if fmt.Sprint(c.Kept) != fmt.Sprint(want) || c.More {
			t.Errorf("%s: got %+v, more %v, want %+v", what, c.Kept, c.More, want)
		}
	}
	kept("its own thresholds", "/cull/jobs")
	kept("dry", "/cull/jobs?cullingSizeThreshold=0&dry", queuefs.Kept{Queue: "jobs", Spared: 1})
	s.wantCounts(0, 4, 0)
	kept("three may go", "/cull/jobs?cullingSizeThreshold=0", queuefs.Kept{Queue: "jobs", Spared: 1})
	s.wantCounts(0, 1, 0)
	kept("none may go", "/cull/jobs?cullingSizeThreshold=0", queuefs.Kept{Queue: "jobs", Spared: 1})
	kept("as many as are to stay", "/cull/jobs?cullingSizeThreshold=1")
	if _, err := s.svc.SetQueue(ctx, "jobs", func(i *home.QueueInfo) error { i.CullingSize = 0; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"anvl", "json", "xml", "turtle", "soif", "xhtml"} {
		if a := s.do("POST", "/cull?t="+form, "").want(t, 200); !strings.Contains(a.body, "jobs 1 spared") {
			t.Errorf("%s: it is not said that a job is kept:\n%s", form, a.body)
		}
	}
	c := client.New(s.url, nil)
	for _, queue := range []string{"", "jobs"} {
		if got, err := c.Cull(ctx, queuefs.CullOptions{Queue: queue}); err != nil || fmt.Sprint(got.Kept) != "[{jobs 1}]" || len(got.Culled) > 0 {
			t.Errorf("client, queue %q: got %+v, %v", queue, got, err)
		}
	}
	if _, err := s.q.Amend(ctx, 1, func(j *job.Job) error { j.Destruction = time.Time{}; return nil }); err != nil {
		t.Fatal(err)
	}
	kept("all may go", "/cull/jobs")
	s.wantCounts(0, 0, 0)
}

func TestPausedQueueServesWhoWaitsWhenItGoesOn(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.do("POST", "/state/jobs?S=pause", "").want(t, 200)
	s.submit("x", job.Meta{})
	s.do("POST", "/consume/jobs", "").want(t, 204)
	got := make(chan answer)
	go func() { got <- s.do("POST", "/consume/jobs?wait=60", "") }()
	s.do("POST", "/state/jobs?S=restart", "").want(t, 200)
	(<-got).want(t, 200)
}

func TestClientKeepsQueues(t *testing.T) {
	s, d := newDialled(t)
	c := client.New(s.url, nil)
	all := home.QueueInfo{ID: "new", Identifier: "new", Name: "N: x", CullingSize: 1, CullingAge: 0, Paused: d.now(), Closed: true}
	made, err := c.CreateQueue(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	all.Created = made.Info.Created
	want(t, "made", made.Info, all)
	if _, err := c.CreateQueue(ctx, all); !errors.Is(err, queuefs.ErrQueueExists) {
		t.Errorf("got %v", err)
	}
	var settings anvl.Record
	settings.Add("S", "restart")
	settings.Add("closed", "false")
	settings.Add("description", "three %0A more")
	set, err := c.SetQueue(ctx, "N: x", settings)
	all.Paused, all.Closed, all.Description = time.Time{}, false, "three %0A more"
	if err != nil {
		t.Fatal(set, err)
	}
	want(t, "set", set.Info, all)
	bad := anvl.Record{{Name: "description", Value: "bell\a"}}
	if _, err := c.SetQueue(ctx, "new", bad); err == nil || !strings.Contains(err.Error(), "U+0007") {
		t.Errorf("got %v", err)
	}
	if _, err := c.SetQueue(ctx, "none", settings); !errors.Is(err, ledger.ErrNoQueue) {
		t.Errorf("got %v", err)
	}
	settings.Add("identifier", "other")
	if _, err := c.SetQueue(ctx, "new", settings); !errors.Is(err, job.ErrBadName) || !strings.Contains(err.Error(), "move the jobs") {
		t.Errorf("got %v", err)
	}

	s.submit("xyz", job.Meta{})
	if err := c.RemoveQueue(ctx, "jobs"); !errors.Is(err, ledger.ErrNotEmpty) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Next(ctx, "jobs", 0); err != nil {
		t.Fatal(err)
	}
	settings = anvl.Record{}
	settings.Add("cullingSizeThreshold", "0")
	if _, err := c.SetQueue(ctx, "jobs", settings); err != nil {
		t.Fatal(err)
	}
	gone := []queuefs.Culled{{Queue: "jobs", Job: 1, Status: job.Consumed, At: s.only().Consumed, Size: 3}}
	for _, tt := range []struct {
		queue string
		dry   bool
		want  []queuefs.Culled
	}{{"jobs", true, gone}, {"", true, gone}, {"new", false, nil}, {"", false, gone}, {"jobs", false, nil}} {
		got, err := c.Cull(ctx, queuefs.CullOptions{Queue: tt.queue, Dry: tt.dry})
		if err != nil || !slices.Equal(got.Culled, tt.want) || got.More {
			t.Errorf("%+v: got %+v, %v", tt, got, err)
		}
	}
	for _, name := range []string{"jobs", "new"} {
		if err := c.RemoveQueue(ctx, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.RemoveQueue(ctx, name); !errors.Is(err, ledger.ErrNoQueue) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	want(t, "left", len(s.svc.Queues()), 0)
}

// What one call culls is told in one answer.
func TestCullingTellsOfEveryJob(t *testing.T) {
	s := newServiceWith(t, queuefs.Options{Segment: manyJobs}).serve(rest.Options{})
	var uploads []client.Upload
	for range 2500 {
		uploads = append(uploads, upload("", job.Meta{}))
	}
	c := client.New(s.url, nil)
	if _, err := c.Submit(ctx, "jobs", uploads...); err != nil {
		t.Fatal(err)
	}
	for left := 2500; left > 0; {
		taken, err := s.q.Take(ctx, queuefs.Take{Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		left -= len(taken)
	}
	s.do("POST", "/state/jobs?cullingSizeThreshold=100", "").want(t, 200)
	got, err := c.Cull(ctx, queuefs.CullOptions{})
	if err != nil || len(got.Culled) != 2400 || got.More {
		t.Fatalf("got %d, %v, %v", len(got.Culled), got.More, err)
	}
	for i, j := range got.Culled {
		if j.Job != job.ID(i+1) {
			t.Fatalf("at %d: got %v", i, j.Job)
		}
	}
	d := s.do("GET", "/state/jobs?t=json&limit=1", "").decoded(t, state.QueueClass)
	want(t, "left", says(d, "numCompletedJobs", "culledJobs", "jobStates"), []string{"100", "", s.url + "/state/jobs/j000000002401"})
}

// sample returns a value of a property that is not its default.
func sample(p *home.Property) string {
	switch p.Name {
	case "description": // what every form can say
		return "a\u0085\u009b31m\u202eb\u2028c <&\"'\\ \U0001F600"
	case "limits":
		return "pending=3,life=0"
	case "digests":
		return "SHA-256 MD5"
	case "dumps":
		return "replica"
	case "callback":
		return "https://example.org"
	case "uwsArchive":
		return "false" // true excludes version 1.0
	}
	switch {
	case p.Words != nil:
		return p.Words[1]
	case p.Kind() == home.Truth:
		return "true"
	case p.Kind() == home.Date:
		return "2026-01-02T03:04:05.000006Z"
	case p.Kind() != home.Text:
		return "7"
	}
	return "a text"
}

// Each property can be given by each way there is, and says the same in each form of state.
func TestEveryPropertyCanBeSetInEveryWay(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url, nil)
	all := home.NewQueue("all", time.Time{})
	var settings anvl.Record
	for i := range home.Properties {
		p := &home.Properties[i]
		if p.Fixed {
			continue
		}
		value := sample(p)
		settings.Add(p.Name, value)
		if err := p.Set(&all, value); err != nil {
			t.Fatal(err)
		}
		if got := string(p.Append(nil, &all)); got != value {
			t.Errorf("%s: got %q want %q", p.Name, got, value)
		}
	}
	for v, i := reflect.ValueOf(all), 0; i < v.NumField(); i++ {
		if f := v.Type().Field(i); f.Name != "Created" && v.Field(i).IsZero() {
			t.Errorf("QueueInfo.%s has no property", f.Name)
		}
	}
	query := url.Values{"t": {"anvl"}}
	for _, p := range settings {
		query.Set(p.Name, p.Value)
	}
	for id, set := range map[string]func(q string) error{
		"client-set":    func(q string) error { _, err := c.SetQueue(ctx, q, settings); return err },
		"client-create": func(q string) error { all.ID, all.Identifier = "", q; _, err := c.CreateQueue(ctx, all); return err },
		"post":          func(q string) error { s.do("POST", "/state/"+q+"?"+query.Encode(), "").want(t, 200); return nil },
		"put":           func(q string) error { s.do("PUT", "/state/"+q+"?"+query.Encode(), "").want(t, 201); return nil },
	} {
		query.Set("name", id)
		settings.Set("name", id)
		all.Name = id
		if id == "client-set" || id == "post" {
			if _, err := s.svc.CreateQueue(ctx, home.NewQueue(id, time.Time{})); err != nil {
				t.Fatal(err)
			}
		}
		if err := set(id); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		q, err := s.svc.Ask(id)
		if err != nil {
			t.Fatal(err)
		}
		all.ID, all.Identifier, all.Created = id, id, q.Info().Created
		want(t, id, q.Info(), all)
		got, err := home.ParseQueue(id, all.Text())
		if want(t, "queue-info.txt", got, all); err != nil {
			t.Error(err)
		}
		for _, form := range statetest.Readable([]state.Form{state.ANVL, state.JSON, state.Turtle, state.XHTML, state.XML, state.SOIF}) {
			d, err := statetest.Read(form, state.QueueClass, []byte(s.do("GET", "/state/"+id+"?t="+form.String(), "").body))
			if err != nil {
				t.Fatal(err)
			}
			read, err := d.Queue()
			if want(t, form.String(), read.Info, all); err != nil {
				t.Error(err)
			}
		}
	}
}
