package rest_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
)

func TestPutMakesAQueueOrSetsIt(t *testing.T) {
	s, d := newDialled(t)
	const name = "/state/new?t=json"
	s.do("PUT", name, "name: N\nmaxAttempts: 3\n", "Content-Type", "text/x-anvl", "If-None-Match", "*").want(t, 201).
		header(t, "Location", s.url+"/state/new")
	a := s.do("PUT", name, "name: M\n", "Content-Type", "text/x-anvl", "If-None-Match", "*").want(t, 412)
	if got := a.exception(t); !strings.Contains(got, "queue exists already") {
		t.Errorf("got %q", got)
	}
	s.do("PUT", name, "").want(t, 200) // nothing is to be changed
	everything := "name=M&description=D&cullingSizeThreshold=1&cullingAgeThreshold=2&verifyOnRead=true&verifyOnWrite=false&S=pause&closed=true" +
		"&acknowledge=timeout&leaseDuration=77&maxAttempts=5&retryDelay=3&retryFactor=4&retryMax=50&callback=http%3A%2F%2F127.0.0.1%3A9%2Fx&digests=sha256+md5&dumps=replica+pending&uwsVersion=1.0&uwsMaxDestruction=7&identifier=new"
	info := s.do("PUT", name, everything, "Content-Type", "application/x-www-form-urlencoded").want(t, 200).queue(t).Info
	all := queuefs.QueueInfo{ID: "new", Identifier: "new", Name: "M", Description: "D", CullingSize: 1, CullingAge: 2, VerifyOnRead: true, Paused: d.now(),
		Closed: true, Acknowledge: queuefs.AckTimeout, Lease: 77 * time.Second, MaxAttempts: 5, RetryDelay: 3 * time.Second, RetryFactor: 4, RetryMax: 50 * time.Second, Callback: "http://127.0.0.1:9", Digests: digest.SetOf(digest.MD5), Dumps: "pending replica", UWS: queuefs.UWS{"1.0", "", "", "", "", "7"}, Created: info.Created}
	want(t, "set", info, all)
	d.turn(time.Hour)
	want(t, "paused before", s.do("POST", name+"&S=pause", "").want(t, 200).queue(t).Info, all)
	q, err := s.svc.Queue("new")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "what holds", q.Info(), all)
	callback, err := q.Callback()
	if err != nil {
		t.Fatal(err)
	}
	want(t, "callback", callback, "http://127.0.0.1:9/x")
	none := "name=&description=&cullingSizeThreshold=&cullingAgeThreshold=&verifyOnRead=false&S=restart&closed=false&acknowledge=none&leaseDuration=&maxAttempts=&retryDelay=&retryFactor=&retryMax=&callback=&digests=&dumps=&uwsVersion=&uwsMaxDestruction="
	info = s.do("POST", name, none, "Content-Type", "application/x-www-form-urlencoded").want(t, 200).queue(t).Info
	want(t, "unset", info, queuefs.QueueInfo{ID: "new", Identifier: "new", Name: "new", CullingSize: -1, CullingAge: -1, Created: info.Created})
	// Nothing is set if one thing is wrong.
	s.do("POST", name+"&description=E&maxAttempts=x", "").want(t, 400)
	s.do("POST", name+"&description=E&digests=sha256+rot13", "").want(t, 400)
	s.do("POST", name+"&description=E&dumps=all", "").want(t, 400)
	s.do("POST", name+"&description=E&name=x", "name=y", "Content-Type", "application/x-www-form-urlencoded").want(t, 400)
	s.do("POST", "/state/jobs?name=jobs%20here", "").want(t, 200)
	s.do("POST", name+"&name=jobs%20here", "").want(t, 409)
	want(t, "description", q.Info().Description, "")
}

// A form has all settings as they were when it was opened. It changes the ones changed by
// its sender. If somebody else has set one of these meanwhile, it changes none.
func TestAFormChangesWhatItsSenderHasChanged(t *testing.T) {
	s := newSite(t, rest.Options{})
	post := func(status int, pairs ...string) answer {
		t.Helper()
		v := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return s.do("POST", "/state/jobs?t=xhtml", v.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html").want(t, status)
	}
	type set struct {
		Description    string
		Closed         bool
		Culling, Lease int64
	}
	check := func(about string, wanted set) {
		t.Helper()
		i := s.q.Info()
		want(t, about, set{i.Description, i.Closed, i.CullingSize, int64(i.Lease / time.Second)}, wanted)
	}
	start := s.q.Info()
	was := set{start.Description, start.Closed, start.CullingSize, int64(start.Lease / time.Second)}
	opened := []string{"seen-description", was.Description, "seen-closed", "false", "seen-cullingSizeThreshold", "", "seen-leaseDuration", ""}
	want(t, "settings", was, set{Culling: -1})
	s.do("POST", "/state/jobs?leaseDuration=60&cullingSizeThreshold=9", "").want(t, 200)

	post(303, append(opened, "description", "new", "closed", "false", "cullingSizeThreshold", "", "leaseDuration", "")...).
		header(t, "Location", s.url+"/state/jobs?t=xhtml#saved")
	check("what others have set stays", set{"new", false, 9, 60})
	a := post(409, append(opened, "closed", "true", "leaseDuration", "30")...)
	if !strings.Contains(a.body, "leaseDuration was set to another value") {
		t.Errorf("got %s", a.body)
	}
	check("nothing is set if one is not as seen", set{"new", false, 9, 60})
	post(303, "seen-leaseDuration", "60", "leaseDuration", "30", "seen-cullingSizeThreshold", "9", "cullingSizeThreshold", "", "closed", "true")
	check("as seen, and without", set{"new", true, -1, 30})
	post(303, "seen-cullingSizeThreshold", "-1", "cullingSizeThreshold", "7")
	check("unset by its other name", set{"new", true, 7, 30})
	post(303, "seen-closed", "true", "closed", "true")
	check("nothing is changed", set{"new", true, 7, 30})
	post(400, "seen-closed", "perhaps", "closed", "false")
	post(400, "seen-nothing", "a", "nothing", "b")
	check("what is seen makes sense", set{"new", true, 7, 30})
	post(303, "S", "pause").header(t, "Location", s.url+"/state/jobs?t=xhtml")
}

func TestPausedQueueServesWhoWaitsWhenItGoesOn(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.do("POST", "/state/jobs?S=pause", "").want(t, 200)
	s.submit("x", queuefs.Meta{})
	s.do("POST", "/consume/jobs", "").want(t, 204)
	got := make(chan answer)
	go func() { got <- s.do("POST", "/consume/jobs?wait=60", "") }()
	s.do("POST", "/state/jobs?S=restart", "").want(t, 200)
	(<-got).want(t, 200)
}

func TestClientKeepsQueues(t *testing.T) {
	s, d := newDialled(t)
	c := client.New(s.url, nil)
	all := queuefs.QueueInfo{ID: "new", Identifier: "new", Name: "N: x", Description: "two words", CullingSize: 1, CullingAge: 0, VerifyOnRead: true, Paused: d.now(),
		Closed: true, Acknowledge: queuefs.AckRequired, Lease: 90 * time.Second, MaxAttempts: 7, RetryDelay: time.Second, RetryFactor: 1, RetryMax: time.Hour, Callback: "https://127.0.0.1/?a=b&c", Digests: digest.SetOf(digest.MD5, digest.CRC32), Dumps: queuefs.NoDumps}
	made, err := c.CreateQueue(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	all.Created, all.Callback = made.Info.Created, "https://127.0.0.1" // the rest is a secret
	want(t, "made", made.Info, all)
	if _, err := c.CreateQueue(ctx, all); !errors.Is(err, queuefs.ErrQueueExists) {
		t.Errorf("got %v", err)
	}
	var settings client.Settings
	settings.Add("S", "restart")
	settings.Add("closed", "false")
	settings.Add("description", "three %0A more")
	set, err := c.SetQueue(ctx, "N: x", settings)
	all.Paused, all.Closed, all.Description = time.Time{}, false, "three %0A more"
	if err != nil {
		t.Fatal(set, err)
	}
	want(t, "set", set.Info, all)
	bad := client.Settings{{Name: "description", Value: "bell\a"}}
	if _, err := c.SetQueue(ctx, "new", bad); err == nil || !strings.Contains(err.Error(), "U+0007") {
		t.Errorf("got %v", err)
	}
	if _, err := c.SetQueue(ctx, "none", settings); !errors.Is(err, queuefs.ErrNoQueue) {
		t.Errorf("got %v", err)
	}
	settings.Add("identifier", "other")
	if _, err := c.SetQueue(ctx, "new", settings); !errors.Is(err, queuefs.ErrBadName) || !strings.Contains(err.Error(), "move the jobs") {
		t.Errorf("got %v", err)
	}

	s.submit("xyz", queuefs.Meta{})
	if err := c.RemoveQueue(ctx, "jobs"); !errors.Is(err, queuefs.ErrNotEmpty) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Next(ctx, "jobs", 0); err != nil {
		t.Fatal(err)
	}
	settings = client.Settings{}
	settings.Add("cullingSizeThreshold", "0")
	if _, err := c.SetQueue(ctx, "jobs", settings); err != nil {
		t.Fatal(err)
	}
	gone := []queuefs.Culled{{Queue: "jobs", Job: 1, Status: queuefs.Consumed, At: s.only().Consumed, Size: 3}}
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
		if err := c.RemoveQueue(ctx, name); !errors.Is(err, queuefs.ErrNoQueue) {
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
		uploads = append(uploads, upload("", queuefs.Meta{}))
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
		if j.Job != queuefs.JobID(i+1) {
			t.Fatalf("at %d: got %v", i, j.Job)
		}
	}
	d := s.do("GET", "/state/jobs?t=json&limit=1", "").decoded(t, state.QueueClass)
	want(t, "left", says(d, "numCompletedJobs", "culledJobs", "jobStates"), []string{"100", "", s.url + "/state/jobs/j000000002401"})
}
