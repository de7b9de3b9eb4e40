package rest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest/client"
)

// Culling says how many jobs it leaves that are due, and why, also where it
// culls none, of a queue and of all.
func TestCullSaysWhatItKeeps(t *testing.T) {
	s, d := newDialled(t)
	for n := range 4 {
		m := queuefs.Meta{}
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
	if _, err := s.svc.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.CullingSize = 0; return nil }); err != nil {
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
	if _, err := s.q.Amend(ctx, 1, func(j *queuefs.Job) error { j.Destruction = time.Time{}; return nil }); err != nil {
		t.Fatal(err)
	}
	kept("all may go", "/cull/jobs")
	s.wantCounts(0, 0, 0)
}
