package client_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/web"
)

func TestClientWorks(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSite(t, func() time.Time { return now }, 0)
	c := client.New(s.url, nil)
	must := func(j queuefs.Job, err error) queuefs.Job {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	for range 4 {
		s.submit("x", queuefs.Meta{})
	}
	want(t, "held", must(c.Hold(ctx, "jobs", "j000000000001", "a b&c")).HeldFor, "a b&c")
	want(t, "released", must(c.Release(ctx, "jobs", "j000000000001")).Held.IsZero(), true)
	var got []*client.Delivery
	for d, err := range c.Take(ctx, "jobs", queuefs.Take{By: "worker/1", Max: 3, Lease: time.Minute}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d)
	}
	for i, del := range got {
		want(t, "delivery", [4]any{del.Job, del.Attempt, del.Expires.Equal(now.Add(time.Minute)), len(del.Lease) > 20}, [4]any{queuefs.JobID(i + 1).String(), 1, true, true})
	}
	j := must(c.Extend(ctx, "jobs", got[0].Job, got[0].Lease, 2*time.Minute))
	want(t, "extended", [2]any{j.Lease.Ends.Equal(now.Add(2 * time.Minute)), j.Consumer}, [2]any{true, "worker/1"})
	if err := c.PutResult(ctx, "jobs", got[0].Job, got[0].Lease, upload("out", queuefs.Meta{Filename: "r.txt", MediaType: "text/plain",
		Expect: []digest.Value{digest.Sum(digest.CRC32, []byte("out")), digest.Sum(digest.SHA256, []byte("out"))}})); err != nil {
		t.Fatal(err)
	}
	r, err := c.Result(ctx, "jobs", got[0].Job, "r.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil || string(text) != "out" || r.MediaType != "text/plain" || r.Size != 3 || r.Body.Close() != nil {
		t.Errorf("got %q, %v, %+v", text, err, r)
	}
	s.post("/state/jobs?maxAttempts=1")
	j = must(c.Conclude(ctx, "jobs", got[0].Job, got[0].Lease, queuefs.Conclusion{Outcome: queuefs.Failed, Message: "m", Transient: true}))
	s.post("/state/jobs?maxAttempts=")
	want(t, "concluded", [3]any{j.Outcome, j.Message, j.Transient}, [3]any{queuefs.Failed, "m", true})
	j = must(c.Return(ctx, "jobs", got[1].Job, got[1].Lease, "not mine"))
	want(t, "returned", [2]any{j.Status, j.Message}, [2]any{queuefs.Pending, "not mine"})
	want(t, "aborted", must(c.Abort(ctx, "jobs", got[2].Job, "")).Outcome, queuefs.Aborted)
	want(t, "at the end", must(c.RequeueEnd(ctx, "jobs", got[0].Job)).ID, queuefs.JobID(5))

	put := func(job, token, name string) error {
		return c.PutResult(ctx, "jobs", job, token, upload("x", queuefs.Meta{Filename: name}))
	}
	get := func(name string) error { _, err := c.Result(ctx, "jobs", got[0].Job, name); return err }
	one := func(_ queuefs.Job, err error) error { return err }
	for what, e := range map[string][2]error{
		"extend":      {one(c.Extend(ctx, "jobs", got[0].Job, got[0].Lease, 0)), queuefs.ErrLease},
		"conclude":    {one(c.Conclude(ctx, "jobs", got[0].Job, got[0].Lease, queuefs.Conclusion{Outcome: queuefs.Completed})), queuefs.ErrLease},
		"return":      {one(c.Return(ctx, "jobs", got[0].Job, "", "")), nil},
		"put":         {put(got[0].Job, got[0].Lease, "a"), queuefs.ErrLease},
		"get":         {get("other"), queuefs.ErrNoResult},
		"abort":       {one(c.Abort(ctx, "jobs", got[0].Job, "")), queuefs.ErrConflict},
		"requeue end": {one(c.RequeueEnd(ctx, "jobs", got[0].Job)), queuefs.ErrConflict},
		"hold":        {one(c.Hold(ctx, "jobs", got[0].Job, "")), queuefs.ErrNotPending},
		"release":     {one(c.Release(ctx, "jobs", "j000000000099")), queuefs.ErrNoJob},
	} {
		var re *web.Error
		if !errors.As(e[0], &re) || e[1] != nil && !errors.Is(e[0], e[1]) {
			t.Errorf("%s: got %v, want %v", what, e[0], e[1])
		}
	}
	for d, err := range c.Take(ctx, "jobs", queuefs.Take{Lease: time.Minute}, 0) {
		if err != nil || put(d.Job, d.Lease, "a") != nil || !errors.Is(put(d.Job, d.Lease, "a"), queuefs.ErrResultExists) ||
			!errors.Is(put(d.Job, d.Lease, ".a"), queuefs.ErrBadName) {
			t.Errorf("got %+v, %v", d, err)
		}
	}
}
