package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/table"
)

// setClock is a clock that stands until it is moved.
type setClock struct{ us atomic.Int64 }

func newClock() *setClock {
	c := &setClock{}
	c.us.Store(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *setClock) now() time.Time          { return time.UnixMicro(c.us.Load()).UTC() }
func (c *setClock) forward(d time.Duration) { c.us.Add(d.Microseconds()) }

// culled gathers what Cull gives.
func culled(t testing.TB, s *queuefs.Service, o queuefs.CullOptions) (all []queuefs.Culled) {
	t.Helper()
	for c, err := range s.Cull(ctx, o) {
		must(t, err)
		all = append(all, c)
	}
	return all
}

// culledIDs is culled for the identifiers alone.
func culledIDs(t testing.TB, s *queuefs.Service, o queuefs.CullOptions) (ids []job.ID) {
	t.Helper()
	for _, c := range culled(t, s, o) {
		ids = append(ids, c.Job)
	}
	return ids
}

// TestThresholdsOfCulling has jobs 1 to 8, processed an hour from each other in
// the order 2 4 6 8 1 3, the even ones consumed, and 5 and 7 pending.
func TestThresholdsOfCulling(t *testing.T) {
	for _, tt := range []struct {
		size, age int64
		later     time.Duration // after the last one was processed
		want      []job.ID
	}{
		{-1, -1, 1000 * time.Hour, nil},
		{-1, 1, 1000 * time.Hour, nil}, // the age alone culls nothing
		{6, 0, time.Hour, nil},
		{5, 0, 0, []job.ID{2}},
		{5, -1, 0, []job.ID{2}},
		{2, 0, 0, []job.ID{2, 4, 6, 8}},
		{0, 0, 0, []job.ID{2, 4, 6, 8, 1, 3}},
		{6, 1, 1000 * time.Hour, nil},                        // not more than the size
		{5, 3, 0, []job.ID{2, 4}},                            // 2 and 4 hours more than 3 ago, also below the size
		{5, 1, 1000 * time.Hour, []job.ID{2, 4, 6, 8, 1, 3}}, // all, not only one
		{0, 720, 719 * time.Hour, []job.ID{2, 4, 6, 8}},      // 30 days
		{0, 5, 0, nil},                                       // the oldest is just as old
		{0, 2_562_047, 1000 * time.Hour, nil},                // beyond all dates
		{0, 4, time.Millisecond, []job.ID{2, 4}},
	} {
		t.Run(fmt.Sprintf("%d %d %v", tt.size, tt.age, tt.later), func(t *testing.T) {
			clock := newClock()
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Now: clock.now})
			submitN(t, q, 8, job.Meta{}, "four")
			var all []queuefs.Culled
			for i, id := range []job.ID{2, 4, 6, 8, 1, 3} {
				if i > 0 {
					clock.forward(time.Hour)
				}
				j, err := q.Delete(ctx, id)
				if id%2 == 0 && err == nil {
					if _, err = q.Requeue(ctx, id); err == nil {
						for _, held := range q.IDs(index.Filter{Status: job.Pending}) {
							if held < id {
								_, err = q.Hold(ctx, held, "not yet")
							}
						}
						if err == nil {
							j, err = q.Next(ctx, "w")
						}
						for _, held := range q.IDs(index.Filter{Status: job.Pending}) {
							if held < id && err == nil {
								_, err = q.Release(ctx, held)
							}
						}
					}
				}
				if err != nil || j.ID != id {
					t.Fatalf("%v: %v, %v", id, j.ID, err)
				}
				_, at := q.Status(id)
				all = append(all, queuefs.Culled{Queue: "jobs", Job: id, Status: j.Status, At: at, Size: 4})
			}
			clock.forward(tt.later)
			must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.CullingSize, i.CullingAge = tt.size, tt.age }))))
			var want []queuefs.Culled
			for _, id := range tt.want {
				want = append(want, all[slices.IndexFunc(all, func(c queuefs.Culled) bool { return c.Job == id })])
			}
			before, seq := observe(t, s), q.Seq()
			if got := culled(t, s, queuefs.CullOptions{Dry: true}); !slices.Equal(got, want) {
				t.Errorf("dry: got %v\nwant %v", got, want)
			}
			if d := before.difference(observe(t, s)); d != "" || q.Seq() != seq {
				t.Errorf("dry: %s", d)
			}
			if got := culled(t, s, queuefs.CullOptions{}); !slices.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
			after := before.clone()
			for _, id := range tt.want {
				delete(after["jobs"].byID, id)
			}
			after.expect(t, s)
			if got := culled(t, s, queuefs.CullOptions{Queue: "jobs"}); len(got) > 0 {
				t.Errorf("again: got %v", got)
			}
			crashed := copyHome(t, dir)
			closeHome(t, s)
			for _, dir := range []string{crashed, dir} {
				s, q := openHome(t, dir, queuefs.Options{Now: clock.now})
				after.expect(t, s, "reopened")
				if st := q.State(); st.Pending+st.Consumed+st.Deleted != int64(8-len(want)) || st.Seq != seq+job.Seq(len(want)) {
					t.Errorf("reopened: got %+v", st)
				}
				closeHome(t, s)
				if r := checkHome(t, dir, check.Options{Segment: segmentSize, Now: clock.now}); r.Jobs != 8-len(want) {
					t.Errorf("%d jobs", r.Jobs)
				}
			}
		})
	}
}

func TestACulledJobIsGone(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	submit(t, q, job.Meta{MediaType: "text/plain"}, "small")
	submit(t, q, job.Meta{}, strings.Repeat("large", 50_000))
	must(t, errOf(q.NextN(ctx, "w", 2)))
	open := sure(q.Payload(2))(t)
	defer open.Close()
	must(t, s.Checkpoint(ctx))
	before := sure(q.Events(0, 0))(t)
	if got := cullQueue(t, s, "jobs"); !slices.Equal(got, []job.ID{1, 2}) {
		t.Fatalf("culled %v", got)
	}
	for id := job.ID(1); id <= 2; id++ {
		_, e1 := q.Job(id)
		_, e2 := q.Payload(id)
		_, _, e3 := q.JobFile(id, job.Consumed)
		_, e4 := q.Requeue(ctx, id)
		_, e5 := q.Delete(ctx, id)
		for i, err := range []error{e1, e2, e3, e4, e5} {
			if !errors.Is(err, ledger.ErrNoJob) {
				t.Errorf("%v: %d: got %v", id, i, err)
			}
		}
		if _, there := q.Entry(id); there {
			t.Errorf("%v has an entry", id)
		}
	}
	var b strings.Builder
	if n, err := open.WriteTo(&b); err != nil || n != 250_000 {
		t.Errorf("open payload: %d octets, %v", n, err)
	}
	events, err := q.Events(5, 0) // after that of the properties
	if err != nil || len(events) != 2 {
		t.Fatalf("got %+v, %v", events, err)
	}
	for i, e := range events {
		if e.Kind != job.Cull || e.Seq != job.Seq(6+i) || e.Job != job.ID(1+i) || e.From != job.Consumed || e.To != 0 ||
			e.Payload != before[i].Payload || e.File.Length != 0 {
			t.Errorf("got %+v", e)
		}
	}
	must(t, s.Checkpoint(ctx))
	if got := tree(t, dir); got != "jobs/queue-info.txt" {
		t.Errorf("files: got\n%s", got)
	}
}

func TestAJobWithALeaseIsNotCulled(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	submitN(t, q, 3, job.Meta{}, "x")
	taken := sure(q.Take(ctx, queuefs.Take{Max: 2, Lease: time.Hour}))(t)
	must(t, errOf(q.Next(ctx, "w")))
	if got := cullQueue(t, s, "jobs"); !slices.Equal(got, []job.ID{3}) {
		t.Errorf("culled %v, want 3", got)
	}
	must(t, errOf(q.Conclude(ctx, 2, taken[1].Token, job.Conclusion{Outcome: job.Completed})))
	if got := cullQueue(t, s, "jobs"); !slices.Equal(got, []job.ID{2}) {
		t.Errorf("culled %v, want 2", got)
	}
}

// TestCullingBesideOtherWork culls while jobs are submitted, taken, and
// requeued: what was requeued in time stays, and nothing is in between.
func TestCullingBesideOtherWork(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	f := newFollower(t)
	f.follow(s)
	cullQueue(t, s, "jobs")
	work, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var gone sync.Map
	wg.Go(func() {
		for work.Err() == nil {
			for c, err := range s.Cull(ctx, queuefs.CullOptions{}) {
				if err != nil {
					t.Error(err)
					return
				}
				gone.Store(c.Job, true)
			}
		}
	})
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for range 100 {
				submit(t, q, job.Meta{}, "x")
				j, err := q.Next(ctx, "w")
				if err != nil {
					continue // another was faster
				}
				if j, err = q.Requeue(ctx, j.ID); err != nil && !errors.Is(err, ledger.ErrNoJob) {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	stop()
	wg.Wait()
	f.check(q)
	want := observe(t, s)
	for id := range want["jobs"].byID {
		if _, was := gone.Load(id); was {
			t.Errorf("%v was culled, and is there", id)
		}
	}
	outlives(t, s, dir)
}

func TestCullingStopsWhenAskedTo(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	submit(t, q, job.Meta{}, "x")
	must(t, errOf(q.Next(ctx, "w")))
	must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.CullingSize = 0 }))))
	ended, end := context.WithCancel(ctx)
	end()
	for _, tt := range []struct {
		ctx   context.Context
		queue string
		err   error
	}{{ended, "", context.Canceled}, {ctx, "none", ledger.ErrNoQueue}} {
		n := 0
		for c, err := range s.Cull(tt.ctx, queuefs.CullOptions{Queue: tt.queue}) {
			if n++; !errors.Is(err, tt.err) || c != (queuefs.Culled{}) {
				t.Errorf("got %v, %v want %v", c, err, tt.err)
			}
		}
		if n != 1 {
			t.Errorf("%v: told %d times", tt.err, n)
		}
	}
	if st := q.State(); st.Consumed != 1 {
		t.Errorf("got %+v", st)
	}
}

// TestCullsAtOnce has several callers cull a queue at the same time: together they leave
// as many processed jobs as it keeps.
func TestCullsAtOnce(t *testing.T) {
	const size, more, callers = 20, 40, 4
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.CullingSize = size }))))
	for round := range 20 {
		submitN(t, q, more, job.Meta{}, "four")
		if round == 0 {
			submitN(t, q, size, job.Meta{}, "four")
		}
		must(t, errOf(q.NextN(ctx, "w", more+size)))
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for _, err := range s.Cull(ctx, queuefs.CullOptions{}) {
					should(t, err)
				}
			})
		}
		all.Wait()
		if n := len(q.IDs(index.Filter{Status: job.Consumed})); n != size {
			t.Fatalf("round %d: %d processed jobs, want %d", round, n, size)
		}
	}
}

// TestThresholdsOfACall culls a queue that has none of its own, and one whose
// own would take more.
func TestThresholdsOfACall(t *testing.T) {
	for _, own := range []int64{-1, 0} {
		clock := newClock()
		s, q := openHome(t, fastDir(t), queuefs.Options{Now: clock.now})
		_, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.CullingSize, i.CullingAge = own, own }))
		must(t, err)
		for range 6 {
			submit(t, q, job.Meta{}, "x")
			must(t, errOf(q.Next(ctx, "w")))
			clock.forward(time.Hour)
		}
		for _, tt := range []struct {
			keep queuefs.Thresholds
			want []job.ID
		}{
			{queuefs.Thresholds{Size: 6}, nil},
			{queuefs.Thresholds{Size: 5}, []job.ID{1}},
			{queuefs.Thresholds{Age: 4}, []job.ID{2}},
			{queuefs.Thresholds{Size: 4, Age: 1}, nil},
			{queuefs.Thresholds{Size: 3, Age: 3}, []job.ID{3}},
			{queuefs.Thresholds{}, []job.ID{4, 5, 6}},
		} {
			for _, dry := range []bool{true, false} {
				got := culledIDs(t, s, queuefs.CullOptions{Queue: "jobs", Keep: &tt.keep, Dry: dry})
				if !slices.Equal(got, tt.want) {
					t.Errorf("%+v of a queue that keeps %d, dry %v: got %v, want %v", tt.keep, own, dry, got, tt.want)
				}
			}
		}
		if i := q.Info(); i.CullingSize != own || i.CullingAge != own {
			t.Errorf("the queue has %d, %d now", i.CullingSize, i.CullingAge)
		}
		for _, bad := range []queuefs.CullOptions{
			{Keep: &queuefs.Thresholds{}}, // of all queues
			{Queue: "jobs", Keep: &queuefs.Thresholds{Size: -1}},
			{Queue: "jobs", Keep: &queuefs.Thresholds{Age: -1}},
			{Queue: "jobs", Keep: &queuefs.Thresholds{Age: math.MaxInt64}},
		} {
			n := 0
			for _, err := range s.Cull(ctx, bad) {
				if n++; !errors.Is(err, job.ErrBadName) {
					t.Errorf("%+v: got %v", bad, err)
				}
			}
			if n != 1 {
				t.Errorf("%+v: gave %d times", bad, n)
			}
		}
		closeHome(t, s)
	}
}

// TestAFullDiskIsFreedWithoutThresholds fills a file system with processed jobs
// of a queue that keeps all. Its thresholds cannot be changed then, but a call
// may have some.
func TestAFullDiskIsFreedWithoutThresholds(t *testing.T) {
	dir := mount(t, "8m")
	now := time.Now()
	o := queuefs.Options{Segment: 4 * smallSegment, Behind: 300 << 10,
		Now: func() time.Time { return now }} // so upkeep takes the day for a calm one
	s, q := openHome(t, filepath.Join(dir, "home"), o)
	for range 20 {
		submit(t, q, job.Meta{}, strings.Repeat("y", 60<<10))
		must(t, errOf(q.Next(ctx, "w")))
	}
	must(t, s.Checkpoint(ctx))
	fill(t, dir, 0)
	tryForSpace(t, s, q, world{"jobs": jobs{byID: map[job.ID]fact{}}}, 10_000)
	lower := func() error {
		_, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.CullingSize = 5 }))
		return err
	}
	wantErr(t, lower(), ledger.ErrNoSpace, "set without room")
	if got := culled(t, s, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{Size: 5}}); len(got) != 15 {
		t.Errorf("%d culled, want 15", len(got))
	}
	must(t, s.Maintain(ctx))
	must(t, lower())
	submit(t, q, job.Meta{}, "again")
}

// TestVacantPagesAreGivenBack culls whole pages of the index, whose memory and
// files shrink, and goes on after every kind of stop.
func TestVacantPagesAreGivenBack(t *testing.T) {
	dir := fastDir(t)
	o := queuefs.Options{Segment: 32 << 20}
	s, q := openHome(t, dir, o)
	fillQueue(t, q, 3*index.PageJobs+10, 0)
	drain(t, q, 2*index.PageJobs)
	if got := cullQueue(t, s, "jobs"); len(got) != 2*index.PageJobs {
		t.Fatalf("culled %d", len(got))
	}
	version, at, _, _ := q.PageVersion(0)
	must(t, s.Checkpoint(ctx))
	culled(t, s, queuefs.CullOptions{})
	must(t, s.Checkpoint(ctx))
	pages := (*queuefs.Service).PagesInMemory
	if n := pages(s); n != 2 {
		t.Errorf("%d pages of the index are in memory", n)
	}
	sizes := func(dir string) (all []int) {
		dir = copyHome(t, dir)
		for n := range 4 {
			changeRow(t, dir, table.Pages, table.PageKey("jobs", n), func(d []byte) []byte { all = append(all, len(d)); return d })
		}
		return all
	}
	if got := sizes(dir); got[0] > 100 || got[1] > 100 || got[2] < 1000 || got[3] < 1000 {
		t.Errorf("index pages have %v octets", got)
	}
	want := observe(t, s)
	crashed := copyHome(t, dir)
	closeHome(t, s)
	for _, dir := range []string{crashed, dir} {
		var problems []string
		o.Report = func(p durable.Finding) { problems = append(problems, p.String()) }
		s, q := openHome(t, dir, o)
		if n := pages(s); n != 2 {
			t.Errorf("opened: %d pages of the index are in memory", n)
		}
		want.expect(t, s)
		if v, a, pending, total := q.PageVersion(0); v != version || !a.Equal(at) || pending != 0 || total != 0 {
			t.Errorf("page 0: version %d at %v, %d pending of %d; want version %d at %v", v, a, pending, total, version, at)
		}
		submitAs(t, q, 3*index.PageJobs+11, job.Meta{}, "x")
		wantErr(t, errOf(q.Job(5)), ledger.ErrNoJob, "")
		closeHome(t, s)
		// Other hands may bring a job to a vacant page.
		text := sure(os.ReadFile(dir + "/queues/jobs/pending/j000000003082"))(t)
		text = []byte(strings.Replace(string(text), "identifier: j000000003082", "identifier: j000000000007", 1))
		must(t, errors.Join(os.WriteFile(dir+"/queues/jobs/pending/j000000000007", text, 0o666), os.WriteFile(dir+"/queues/jobs/payload/j000000000007", nil, 0o666)))
		s, q = openHome(t, dir, o)
		takes(t, q, 7)
		if n := pages(s); n != 3 {
			t.Errorf("brought: %d pages of the index are in memory", n)
		}
		wantErr(t, errOf(q.Job(8)), ledger.ErrNoJob, "beside the one that was brought")
		if v, _ := q.Status(index.PageJobs + 7); v != 0 {
			t.Errorf("in another vacant page: got %v", v)
		}
		closeHome(t, s)
		if len(problems) != 1 {
			t.Errorf("reported %q", problems)
		}
	}
}

// What a cull leaves that was broken off is due for the next one at once, and not
// only when the oldest of what was too young is.
func TestACullThatWasBrokenOffGoesOn(t *testing.T) {
	const jobs = 3000
	keep := queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{Age: 2}}
	for _, how := range []string{"context", "caller", "retained"} {
		t.Run(how, func(t *testing.T) {
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			asked, stop := 0, func() {} // of each job with a retention it is asked whether that has ended
			var meta job.Meta
			if how == "retained" {
				meta.Destruction = now.Add(time.Hour)
			}
			s, q := openHome(t, fastDir(t), queuefs.Options{Now: func() time.Time {
				if asked++; asked == 1500 {
					stop()
				}
				now = now.Add(time.Microsecond)
				return now
			}})
			for range jobs / 500 {
				sub := q.Begin()
				for range 500 {
					must(t, errOf(sub.Add(meta)))
				}
				must(t, errOf(sub.Commit(ctx)))
			}
			drain(t, q, jobs)
			now = now.Add(3 * time.Hour)

			first, cancel := context.WithCancel(ctx)
			defer cancel()
			if asked = 0; how == "retained" {
				stop = cancel
			}
			culled := 0
			for _, err := range s.Cull(first, keep) {
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Fatal(err)
					}
					break
				}
				if culled++; culled == 500 && how == "context" {
					cancel()
				}
				if culled == 500 && how == "caller" {
					break
				}
			}
			if culled == jobs {
				t.Fatal("it was not broken off")
			}
			// What was in the batch has gone, whether the caller was told or not.
			left := q.State().Consumed
			now = now.Add(time.Minute)
			culled = 0
			for _, err := range s.Cull(ctx, keep) {
				must(t, err)
				culled++
			}
			if int64(culled) != left || left == 0 {
				t.Errorf("%d jobs are culled, want the %d that were left", culled, left)
			}
			closeHome(t, s)
		})
	}
}

// Culling leaves jobs to the repeated request of a consumer with a key, until the time for
// it or the work is over.
func TestAJobConsumedWithAKeyIsNotCulledWhileItMayBeAskedFor(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixMicro())
	o := queuefs.Options{Now: func() time.Time { return time.UnixMicro(now.Load()) }}
	dir := fastDir(t)
	s, q := openHome(t, dir, o)
	submitN(t, q, 3, job.Meta{}, "x")
	take := func(want string) {
		t.Helper()
		taken, err := q.Take(ctx, queuefs.Take{Key: "k", Max: 2})
		if err != nil || takenIDs(taken) != want {
			t.Fatalf("got %v, %v", taken, err)
		}
	}
	none := func() {
		t.Helper()
		if got := cullQueue(t, s, "jobs"); len(got) > 0 {
			t.Fatalf("culled %v", got)
		}
	}
	take("1 2")
	none()
	take("1 2 again")
	closeHome(t, s)
	s, q = openHome(t, dir, o)
	none()
	take("1 2 again")
	now.Add((queuefs.KeyRemembered + time.Second).Microseconds())
	if got := cullQueue(t, s, "jobs"); len(got) != 2 {
		t.Errorf("culled %v", got)
	}
	taken := sure(q.Take(ctx, queuefs.Take{Key: "other", Lease: time.Hour}))(t)
	none()
	must(t, errOf(q.Conclude(ctx, taken[0].ID, taken[0].Token, job.Conclusion{Outcome: job.Completed})))
	if got := cullQueue(t, s, "jobs"); len(got) != 1 {
		t.Errorf("after the work: culled %v", got)
	}
}

// dueAll asks until the queue knows what it has, and returns what is due.
func dueAll(t testing.TB, q *queuefs.Queue, now time.Time) (ids []job.ID) {
	t.Helper()
	for range 10 {
		var err error
		ids, err = q.Due(ctx, now, 1000)
		must(t, err)
	}
	slices.Sort(ids)
	return ids
}

// destroyAt gives a job its destruction; the zero time takes it away.
func destroyAt(t testing.TB, q *queuefs.Queue, id job.ID, at time.Time) {
	t.Helper()
	must(t, errOf(q.Amend(ctx, id, func(j *job.Job) error {
		j.Destruction = at
		return nil
	})))
}

// The destruction of jobs comes in its time, whichever way the home was opened.
func TestDueJobsAreNamed(t *testing.T) {
	now := newClock()
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: now.now})
	at := now.now().Add(time.Hour)
	for id := job.ID(1); id <= 8; id++ {
		m := job.Meta{}
		if id%2 == 0 {
			m.Destruction = at.Add(time.Duration(id) * time.Minute)
		}
		submit(t, q, m, "x")
	}
	destroyAt(t, q, 1, at)
	destroyAt(t, q, 8, time.Time{})
	nextN(t, q, 3)
	inspect := func(when string) {
		t.Helper()
		for after, want := range map[time.Duration][]job.ID{-time.Second: nil, 0: {1}, 3 * time.Minute: {1, 2}, 24 * time.Hour: {1, 2, 4, 6}} {
			if got := dueAll(t, q, at.Add(after)); !slices.Equal(got, want) {
				t.Errorf("%s, %v: got %v, want %v", when, after, got, want)
			}
		}
	}
	inspect("at first")
	killed := copyHome(t, dir)
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{Now: now.now})
	inspect("after a stop")
	if id := submit(t, q, job.Meta{Destruction: at.Add(48 * time.Hour)}, "x").ID; !slices.Contains(dueAll(t, q, at.Add(72*time.Hour)), id) {
		t.Errorf("job %v that came after the start is not named", id)
	}
	closeHome(t, s)
	s, q = openHome(t, killed, queuefs.Options{Now: now.now})
	inspect("after a kill")
	closeHome(t, s)
	must(t, errOf(check.Home(killed, check.Options{Rebuild: true, Segment: segmentSize})))
	_, q = openHome(t, killed, queuefs.Options{Now: now.now})
	inspect("after a rebuild")
}

// Culling leaves a job until its destruction, and one that was put at the end
// again as long as the job that was made of it.
func TestCullingLeavesWhatIsRetained(t *testing.T) {
	now := newClock()
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: now.now})
	must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.CullingSize = 0 }))))
	next := func() {
		t.Helper()
		must(t, errOf(q.Next(ctx, "w")))
	}
	cull := func(when string, want ...job.ID) {
		t.Helper()
		for _, dry := range []bool{true, false} {
			got := culledIDs(t, s, queuefs.CullOptions{Dry: dry})
			if !slices.Equal(got, want) {
				t.Errorf("%s, dry %v: got %v, want %v", when, dry, got, want)
			}
		}
	}
	submit(t, q, job.Meta{Destruction: now.now().Add(time.Hour)}, "x")
	submit(t, q, job.Meta{}, "x")
	submit(t, q, job.Meta{Destruction: now.now().Add(3 * time.Hour)}, "x")
	for range 3 {
		next()
	}
	must(t, errOf(q.RequeueEnd(ctx, 2)))
	cull("at first")
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{Now: now.now})
	cull("before the job files were read")
	now.forward(2 * time.Hour)
	cull("after the destruction of the first", 1)
	next()
	destroyAt(t, q, 3, now.now().Add(9*time.Hour))
	cull("after the second was done again", 4)
	cull("after that was culled", 2)
	now.forward(2 * time.Hour)
	cull("with a later destruction")
	destroyAt(t, q, 3, time.Time{})
	cull("without a destruction", 3)
}

// A job that waits for its submitter is handed out when it is released.
func TestASubmissionOnHold(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	meta := job.Meta{OnHold: true, Name: func(id job.ID) anvl.Element { return anvl.Element{Name: "name", Value: id.String()} }}
	submit(t, q, meta, "first")
	if _, err := q.Next(ctx, "w"); err != ledger.ErrEmpty {
		t.Errorf("got %v, want that no job is there", err)
	}
	sub := q.Begin()
	sub.Replace(1)
	d := sure(sub.Add(meta))(t)
	d.Write([]byte("second"))
	must(t, errOf(sub.Commit(ctx)))
	sub = q.Begin()
	defer sub.Discard()
	sub.Replace(1)
	must(t, errOf(sub.Add(meta)))
	if _, err := sub.Commit(ctx); err == nil {
		t.Error("a job that is gone was replaced")
	}
	if state := q.State(); state.Pending != 1 || state.Held != 1 || state.Deleted != 1 {
		t.Errorf("got %d pending, %d held, %d deleted", state.Pending, state.Held, state.Deleted)
	}
	j := sure(q.Release(ctx, 2))(t)
	if j.Extra.Value("name") != "j000000000002" || j.Extra.Value("requeuedFrom") != "j000000000001" {
		t.Errorf("got %v", j.Extra)
	}
	taken := sure(q.Take(ctx, queuefs.Take{By: "w"}))(t)
	if got := payload(t, q, taken[0].ID); got != "second" {
		t.Errorf("got payload %q", got)
	}
}

// What culling leaves is counted: here jobs 1 to 8, consumed an hour from each other, of
// which 1, 2 and 7 are spared.
func TestWhatCullingLeavesIsCounted(t *testing.T) {
	for _, tt := range []struct {
		keep   queuefs.Thresholds
		spared int
		culled []job.ID
	}{
		{queuefs.Thresholds{Size: 8}, 0, nil},
		{queuefs.Thresholds{Size: 6}, 0, []job.ID{3, 4}},
		{queuefs.Thresholds{Size: 2}, 1, []job.ID{3, 4, 5, 6, 8}}, // six are too many
		{queuefs.Thresholds{Size: 1}, 2, []job.ID{3, 4, 5, 6, 8}},
		{queuefs.Thresholds{}, 3, []job.ID{3, 4, 5, 6, 8}},
		{queuefs.Thresholds{Size: 6, Age: 4}, 0, []job.ID{3, 4}}, // then they are six
		{queuefs.Thresholds{Size: 5, Age: 4}, 2, []job.ID{3, 4}},
		{queuefs.Thresholds{Size: 5, Age: 2}, 0, []job.ID{3, 4, 5, 6}},
		{queuefs.Thresholds{Age: 7}, 1, nil}, // 1 is older
		{queuefs.Thresholds{Age: 100}, 0, nil},
	} {
		t.Run(fmt.Sprint(tt.keep), func(t *testing.T) {
			clock := newClock()
			s, q := openHome(t, fastDir(t), queuefs.Options{Now: clock.now})
			spared := []job.ID{1, 2, 7}
			for id := job.ID(1); id <= 8; id++ {
				m := job.Meta{}
				if slices.Contains(spared, id) {
					m.Destruction = clock.now().Add(1000 * time.Hour)
				}
				submit(t, q, m, "x")
				must(t, errOf(q.Next(ctx, "w")))
				clock.forward(time.Hour)
			}
			submit(t, q, job.Meta{}, "pending")
			o := queuefs.CullOptions{Queue: "jobs", Keep: &tt.keep}
			want := []queuefs.Kept{{Queue: "jobs", Spared: tt.spared}}
			if tt.spared == 0 {
				want = nil
			}
			for _, o.Dry = range []bool{true, false} {
				got := culledIDs(t, s, o)
				if !slices.Equal(got, tt.culled) {
					t.Errorf("dry %v: culled %v, want %v", o.Dry, got, tt.culled)
				}
				// Thresholds of the queue have none of it.
				for _, o := range []queuefs.CullOptions{o, {}} {
					kept := sure(s.Kept(ctx, o))(t)
					if o.Keep == nil {
						if len(kept) > 0 {
							t.Errorf("by the thresholds of the queue: %+v are kept", kept)
						}
					} else if !slices.Equal(kept, want) {
						t.Errorf("dry %v: got %+v, want %+v", o.Dry, kept, want)
					}
				}
			}
			if len(want) == 0 {
				return
			}
			for _, id := range spared {
				destroyAt(t, q, id, time.Time{})
			}
			culled(t, s, o)
			if kept, err := s.Kept(ctx, o); err != nil || len(kept) > 0 {
				t.Errorf("at last: %+v, %v", kept, err)
			}
		})
	}
}

func TestKeptRefuses(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	wantErr(t, errOf(s.Kept(ctx, queuefs.CullOptions{Keep: &queuefs.Thresholds{}})), job.ErrBadName, "thresholds of all queues")
	wantErr(t, errOf(s.Kept(ctx, queuefs.CullOptions{Queue: "none"})), ledger.ErrNoQueue, "no queue")
	submit(t, q, job.Meta{}, "x")
	must(t, errOf(q.Next(ctx, "w")))
	over, end := context.WithCancel(ctx)
	end()
	wantErr(t, errOf(s.Kept(over, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}})), context.Canceled, "given up")
}

// TestWhatIsOnItsWayIsNotCulled takes jobs whose payloads are to be read, and culls
// before they have been.
func TestWhatIsOnItsWayIsNotCulled(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	large := strings.Repeat("payload ", 100<<10)
	for _, payload := range []string{large, "small", large} {
		submit(t, q, job.Meta{}, payload)
	}
	cull := func(want ...job.ID) {
		t.Helper()
		o := queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}
		ids := culledIDs(t, s, o)
		if !slices.Equal(ids, want) {
			t.Errorf("culled %v, want %v", ids, want)
		}
		if kept, err := s.Kept(ctx, o); err != nil || len(kept) > 0 {
			t.Errorf("got %v, %v", kept, err)
		}
	}
	take := func(n int) []queuefs.Taken {
		t.Helper()
		taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: n, Keep: true})
		if err != nil || len(taken) != n {
			t.Fatalf("took %d, %v", len(taken), err)
		}
		return taken
	}
	first := take(3)
	cull(2) // which is at hand
	must(t, errOf(q.Requeue(ctx, 1)))
	second := take(1)
	cull()
	q.Given(first)
	cull(3)
	q.Given(second)
	cull(1)

	// Who does not ask for it keeps nothing.
	submit(t, q, job.Meta{}, large)
	must(t, errOf(q.Take(ctx, queuefs.Take{By: "w"})))
	cull(4)
}

// process submits n jobs and consumes them.
func process(t testing.TB, q *queuefs.Queue, n int) {
	t.Helper()
	fillQueue(t, q, n, 0)
	drain(t, q, n)
}

// drain consumes n jobs.
func drain(t testing.TB, q *queuefs.Queue, n int) {
	t.Helper()
	for n > 0 {
		jobs := sure(q.NextN(ctx, "w", min(n, queuefs.MaxTake)))(t)
		n -= len(jobs)
	}
}

// stones reads all tombstones, a few at a time.
func stones(t testing.TB, q *queuefs.Queue, since time.Time, limit int) (all []queuefs.Tombstone) {
	t.Helper()
	for {
		some := sure(q.Tombstones(since, limit))(t)
		if len(some) == 0 {
			return all
		}
		if len(some) > limit {
			t.Fatalf("got %d, more than %d", len(some), limit)
		}
		all = append(all, some...)
		since = some[len(some)-1].Culled
	}
}

// TestTombstonesOutliveEveryStop culls in several rounds, and looks at the
// tombstones after stops between the rounds.
func TestTombstonesOutliveEveryStop(t *testing.T) {
	clock := newClock()
	dir := fastDir(t)
	o := queuefs.Options{Now: clock.now}
	s, q := openHome(t, dir, o)
	var want []queuefs.Tombstone
	check := func(when string, q *queuefs.Queue) {
		t.Helper()
		for _, limit := range []int{1, 3, 1000} {
			if got := stones(t, q, time.Time{}, limit); !slices.Equal(got, want) {
				t.Fatalf("%s: got %v\nwant %v", when, got, want)
			}
		}
		if n := len(want); n > 2 {
			if got := stones(t, q, want[n-3].Culled, 5); !slices.Equal(got, want[n-2:]) {
				t.Fatalf("%s: since the last but two: got %v\nwant %v", when, got, want[n-2:])
			}
		}
	}
	round := func() {
		t.Helper()
		process(t, q, 3)
		culled := cullQueue(t, s, "jobs")
		seq := q.Seq() - job.Seq(len(culled))
		for i, id := range culled {
			events, err := q.Events(seq+job.Seq(i), 1)
			if err != nil || len(events) != 1 || events[0].Job != id {
				t.Fatalf("got %v, %v", events, err)
			}
			want = append(want, queuefs.Tombstone{Job: id, Culled: events[0].Time, Seq: events[0].Seq})
		}
	}
	for n := range 4 {
		round()
		check("in memory", q)
		if n%2 == 1 {
			must(t, s.Checkpoint(ctx))
			check("checkpoint", q)
			round()
		}
		c, cq := openHome(t, copyHome(t, dir), o)
		check("crash", cq)
		closeHome(t, c)
		closeHome(t, s)
		s, q = openHome(t, dir, o)
		check("reopened", q)
		clock.forward(time.Hour)
	}
	defer func() { closeHome(t, s) }()

	clock.forward(90*24*time.Hour - 3*time.Hour - 30*time.Minute)
	want = slices.DeleteFunc(want, func(s queuefs.Tombstone) bool { return !s.Culled.After(clock.now().Add(-90 * 24 * time.Hour)) })
	if len(want) == 0 || len(want) >= 18 {
		t.Fatalf("%d are young enough", len(want))
	}
	check("after 90 days", q)
	clock.forward(24 * time.Hour)
	want = nil
	check("after 91 days", q)
}

// TestOldTombstonesGo has more than are staged at once.
func TestOldTombstonesGo(t *testing.T) {
	clock := newClock()
	dir := fastDir(t)
	o := queuefs.Options{Now: clock.now, Segment: 32 << 20}
	s, q := openHome(t, dir, o)
	for _, hours := range []int64{-1, 876_001} {
		if err := s.SetService(ctx, func(i *home.ServiceInfo) error { i.TombstoneAge = hours; return nil }); err == nil {
			t.Errorf("%d hours: got no error", hours)
		}
	}
	must(t, s.SetService(ctx, func(i *home.ServiceInfo) error { i.TombstoneAge = 3; return nil }))
	const n = 5000
	size := func(want int) {
		t.Helper()
		if got := len(rows(t, dir, table.Culled)); got != want {
			t.Errorf("the table has %d tombstones, want %d", got, want)
		}
	}
	for round := range 2 {
		process(t, q, n+1)
		if got := cullQueue(t, s, "jobs"); len(got) != n+1 {
			t.Fatalf("culled %d", len(got))
		}
		for _, settled := range []bool{false, true} {
			for limit, want := range map[int]int{-1: 1000, 0: 1000, 7: 7, 10_000: min(10_000, (round+1)*(n+1)), 1 << 40: min(10_000, (round+1)*(n+1))} {
				if got, err := q.Tombstones(time.Time{}, limit); err != nil || len(got) != want {
					t.Errorf("limit %d, settled %v: got %d, %v want %d", limit, settled, len(got), err, want)
				}
			}
			must(t, s.Checkpoint(ctx))
		}
		size((round + 1) * (n + 1))
		clock.forward(2 * time.Hour)
	}
	process(t, q, 1)
	cullQueue(t, s, "jobs")
	closeHome(t, s)
	size(n + 2)
	_, q = openHome(t, dir, o)
	got := stones(t, q, time.Time{}, 10_000)
	if len(got) != n+2 || got[0].Job != n+2 || got[n+1].Job != 2*n+3 || got[n+1].Seq != 3*(2*n+3)+1 { // one is of the properties
		t.Errorf("got %d, first %v, last %v", len(got), got[0], got[len(got)-1])
	}
}
