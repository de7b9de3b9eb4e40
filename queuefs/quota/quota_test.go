package quota_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/quota"
)

// openQueue returns a queue, and a function that submits jobs of ann. dir is "" for a new home.
func openQueue(t *testing.T, dir string, o queuefs.Options) (*queuefs.Service, *queuefs.Queue, func(n int, made, held bool)) {
	t.Helper()
	ctx := context.Background()
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "home")
		if err := home.Init(dir, home.ServiceInfo{}); err != nil {
			t.Fatal(err)
		}
	}
	o.Segment = 1 << 20
	svc, err := queuefs.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { svc.Close() })
	q, err := svc.Queue("q")
	if err != nil {
		q, err = svc.CreateQueue(ctx, home.QueueInfo{ID: "q", CullingSize: -1, CullingAge: -1})
	}
	if err != nil {
		t.Fatal(err)
	}
	return svc, q, func(n int, made, held bool) {
		t.Helper()
		sub := q.Begin()
		for range n {
			m := job.Meta{Owner: "ann", OnHold: held}
			if made {
				m.Extra = anvl.Record{{Name: quota.Made, Value: "x"}}
			}
			up, err := sub.Add(m)
			if err != nil {
				t.Fatal(err)
			}
			up.Write([]byte("12345"))
		}
		if _, err := sub.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// A queue full of jobs from elsewhere is no reason to refuse one, unless a limit
// was set.
func TestJobsFromElsewhereCountForLimitsThatWereSet(t *testing.T) {
	svc, q, submit := openQueue(t, "", queuefs.Options{})
	k := quota.New(svc)
	submit(5, false, false)
	submit(2, true, false)
	refused := func(l, usual job.Limits, ask quota.Use) string {
		done, err := k.Admit(q, "ann", l, usual, ask)
		if err != nil {
			return err.Error()
		}
		done()
		return ""
	}
	one, many := quota.Use{Active: 1}, quota.Use{Active: 2}
	if got := refused(job.Limits{}, job.Limits{Active: 3}, one); got != "" {
		t.Errorf("got %s", got)
	}
	if got := refused(job.Limits{}, job.Limits{Active: 3}, many); !strings.Contains(got, "ann has 2 jobs") {
		t.Errorf("got %q, want the two", got)
	}
	if got := refused(job.Limits{Active: 7}, job.Limits{Active: 3}, one); !strings.Contains(got, "ann has 7 jobs") {
		t.Errorf("got %q, want all seven", got)
	}
	if got := refused(job.Limits{Active: job.Unlimited}, job.Limits{Active: 3}, many); got != "" {
		t.Errorf("got %s", got)
	}
	if got := refused(job.Limits{Upload: 35}, job.Limits{}, quota.Use{Upload: 1}); !strings.Contains(got, "ann has 35 octets") {
		t.Errorf("got %q, want the octets", got)
	}
}

// A job that waits for long counts, however many came after it and have ended.
func TestOldJobsCount(t *testing.T) {
	svc, _, submit := openQueue(t, "", queuefs.Options{})
	submit(1, true, true)
	// A job brought by hand stands for all that came meanwhile.
	dir := svc.Dir()
	if err := svc.Close(); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(filepath.Join(dir, "queues/q/pending/j000000000001"))
	if err != nil {
		t.Fatal(err)
	}
	of := strings.NewReplacer("j000000000001", "j000000099999", "ann", "bob")
	for name, text := range map[string]string{"payload": "12345", "pending": of.Replace(string(old))} {
		if err := os.WriteFile(filepath.Join(dir, "queues/q", name, "j000000099999"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	svc, q, submit := openQueue(t, dir, queuefs.Options{})
	k := quota.New(svc)
	for more := range int64(3) {
		if got, err := k.Use(q, "ann", job.Limits{}); err != nil || got != (quota.Use{Pending: 1, Active: more, Upload: 5 + 5*more}) {
			t.Errorf("got %+v, %v", got, err)
		}
		submit(1, true, false)
	}
}

// An operator may start a job of a user at a time, as by a release. It is not asked
// whether the user may have another one, but it counts.
func TestJobsStartedByTheEndOfAHoldCount(t *testing.T) {
	ctx := context.Background()
	now := time.Now()
	svc, q, submit := openQueue(t, "", queuefs.Options{Now: func() time.Time { return now }})
	k, l := quota.New(svc), job.Limits{Active: 1}
	submit(1, true, false)
	submit(1, true, true)
	if _, err := q.HoldUntil(ctx, 2, "", now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []quota.Use{{Pending: 1, Active: 1, Upload: 10}, {Active: 2, Upload: 10}} {
		if got, err := k.Use(q, "ann", l); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		now = now.Add(2 * time.Hour)
		if err := svc.Expire(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Admit(q, "ann", l, job.Limits{}, quota.Use{Active: 1}); err == nil {
		t.Error("a third job is admitted")
	}
}

// Two requests at a time do not get the last free one both.
func TestClaimsCountUntilTheyEnd(t *testing.T) {
	svc, q, submit := openQueue(t, "", queuefs.Options{})
	k := quota.New(svc)
	submit(1, true, true)
	l, ask := job.Limits{Pending: 2}, quota.Use{Pending: 1}
	done, err := k.Admit(q, "ann", l, job.Limits{}, ask)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Admit(q, "ann", l, job.Limits{}, ask); err == nil {
		t.Error("two claims on one job")
	}
	if _, err := k.Admit(q, "bob", l, job.Limits{}, ask); err != nil {
		t.Error(err)
	}
	done()
	done()
	if _, err := k.Admit(q, "ann", l, job.Limits{}, ask); err != nil {
		t.Error(err)
	}
}

// Pages are counted again after their changes alone.
func TestUseFollowsTheJobs(t *testing.T) {
	svc, q, submit := openQueue(t, "", queuefs.Options{})
	k := quota.New(svc)
	use := func() quota.Use {
		t.Helper()
		u, err := k.Use(q, "ann", job.Limits{Active: 1})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for range 5 {
		submit(420, false, false) // over the pages of the index
		use()
	}
	submit(1, true, true)
	if got, want := use(), (quota.Use{Pending: 1, Active: 2100, Upload: 5}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	ctx := context.Background()
	taken, err := q.Take(ctx, queuefs.Take{By: "w", Lease: 1 << 40, Max: 3})
	if err != nil {
		t.Fatal(err)
	}
	if got := use().Active; got != 2100 {
		t.Errorf("got %d, want those in work too", got)
	}
	for _, one := range taken {
		if _, err := q.Conclude(ctx, one.ID, one.Token, job.Conclusion{Outcome: job.Completed}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := use().Active, int64(2100-len(taken)); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	if _, err := q.Release(ctx, 2101); err != nil {
		t.Fatal(err)
	}
	if got := use(); got.Pending != 0 || got.Active != int64(2101-len(taken)) {
		t.Errorf("got %+v after the release", got)
	}
}
