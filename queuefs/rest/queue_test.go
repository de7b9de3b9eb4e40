package rest_test

import (
	"errors"
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
