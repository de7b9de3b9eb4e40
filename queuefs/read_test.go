package queuefs_test

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/testdata/long"
)

// TestReadersWhileFilesMove reads a job while its file goes to and fro: it is
// always whole, and as it was at some time.
func TestReadersWhileFilesMove(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: clock()})
	defer closeHome(t, s)
	rounds := long.N(200, 1500)
	submit(t, q, queuefs.Meta{Filename: "f", Sidecar: strings.Repeat("s", 20_000)}, "x")
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for last := queuefs.Seq(0); !done.Load() && !t.Failed(); {
				j, err := q.Job(1)
				if err != nil || j.Filename != "f" || len(j.Sidecar) != 20_000 || j.Extra != nil || j.Seq < last {
					t.Errorf("got %v %q %v after event %d, %v", j.Seq, j.Filename, j.Extra, last, err)
				}
				last = j.Seq
			}
		})
	}
	for range rounds {
		if _, err := q.Next(ctx, "w"); err != nil {
			t.Error(err)
		}
		if err := s.Maintain(ctx); err != nil {
			t.Error(err)
		}
		if _, err := q.Requeue(ctx, 1); err != nil {
			t.Error(err)
		}
		if err := s.Maintain(ctx); err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	readers.Wait()
}

// TestOrderAcrossPages takes and lists more jobs than a page of the index has.
func TestOrderAcrossPages(t *testing.T) {
	const n = 2*queuefs.PageJobs + 500
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: 8 << 20})
	fillQueue(t, q, n, 1)
	for _, limit := range []int{1, 7, queuefs.PageJobs, queuefs.PageJobs + 1, n, n + 1, 0} {
		var got []queuefs.JobID
		for {
			after := queuefs.JobID(0)
			if len(got) > 0 {
				after = got[len(got)-1]
			}
			ids := q.IDs(queuefs.ListOptions{Status: queuefs.Pending, After: after, Limit: limit})
			if len(ids) == 0 {
				break
			}
			if limit > 0 && len(ids) > limit || limit == 0 && len(ids) > 1000 {
				t.Fatalf("limit %d: got %d", limit, len(ids))
			}
			got = append(got, ids...)
		}
		if len(got) != n || got[0] != 1 || got[n-1] != n || !slices.IsSorted(got) {
			t.Errorf("limit %d: got %d jobs", limit, len(got))
		}
	}
	var took []queuefs.JobID
	for range 2 {
		jobs, err := q.NextN(ctx, "w", 1000)
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, idsOf(jobs)...)
	}
	if len(took) != 2000 || took[0] != 1 || took[1999] != 2000 || !slices.IsSorted(took) {
		t.Errorf("took %d", len(took))
	}
	// What comes back is first, whatever page it is on.
	for _, id := range []queuefs.JobID{1500, queuefs.PageJobs, 3, queuefs.PageJobs - 1} {
		if _, err := q.Requeue(ctx, id); err != nil {
			t.Fatal(err)
		}
		if j, err := q.Peek(); err != nil || j.ID > id {
			t.Errorf("%v is back, the head is %v, %v", id, j.ID, err)
		}
	}
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{Segment: 8 << 20})
	defer closeHome(t, s)
	for _, want := range []queuefs.JobID{3, queuefs.PageJobs - 1, queuefs.PageJobs, 1500, 2001} {
		if j, err := q.Next(ctx, "w"); err != nil || j.ID != want {
			t.Errorf("got %v, %v want %v", j.ID, err, want)
		}
	}
}

// TestPagesAgreeWithJobs compares what a publisher is told with the files.
func TestPagesAgreeWithJobs(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: 4 << 20})
	fillQueue(t, q, queuefs.PageJobs+20, 3)
	q.NextN(ctx, "w", 5)
	q.Delete(ctx, queuefs.PageJobs+1)
	submit(t, q, queuefs.Meta{MediaType: "text/plain"}, strings.Repeat("l", 150_000))
	inspect := func() {
		t.Helper()
		var seen int64
		var newest queuefs.Seq
		for n := range q.Pages() {
			entries, version, at := q.Page(n, nil)
			v, vat, pending, total := q.PageVersion(n)
			if v != version || !vat.Equal(at) || total != len(entries) {
				t.Errorf("page %d: version %d at %v with %d, or %d at %v with %d", n, version, at, len(entries), v, vat, total)
			}
			newest = max(newest, version)
			for _, e := range entries {
				seen++
				if e.Job/queuefs.PageJobs != queuefs.JobID(n) {
					t.Errorf("%v on page %d", e.Job, n)
				}
				if e.Status == queuefs.Pending {
					pending--
				}
				text, facts, err := q.JobFile(e.Job, e.Status)
				if err != nil || facts != e.File || sha256.Sum256(text) != facts.SHA256 || int64(len(text)) != facts.Length {
					t.Fatalf("%v: job file: %+v want %+v, %v", e.Job, facts, e.File, err)
				}
				data := payload(t, q, e.Job)
				if sha256.Sum256([]byte(data)) != e.Payload.SHA256 || int64(len(data)) != e.Payload.Length {
					t.Errorf("%v: payload: %+v", e.Job, e.Payload)
				}
				j, err := q.Job(e.Job)
				if err != nil || j.Type() != e.Payload.Type || !j.Submitted.Equal(e.Payload.Modified) || !j.Modified().Equal(e.File.Modified) || j.Seq > version {
					t.Errorf("%v: got %+v, %+v, %v", e.Job, j, e, err)
				}
			}
			if pending != 0 {
				t.Errorf("page %d: %d pending too many", n, pending)
			}
		}
		if st := q.State(); st.Pending+st.Consumed+st.Deleted != seen || newest != st.Seq {
			t.Errorf("got %+v, %d jobs, newest %d", st, seen, newest)
		}
		if entries, v, _ := q.Page(q.Pages(), nil); len(entries) != 0 || v != 0 {
			t.Errorf("behind the last page: %v, %d", entries, v)
		}
		data, facts := q.InfoFile()
		if sha256.Sum256(data) != facts.SHA256 || facts.Length != int64(len(data)) || !strings.Contains(string(data), "identifier: jobs\n") {
			t.Errorf("info file: %s, %+v", data, facts)
		}
	}
	inspect()
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	inspect()
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{Segment: 4 << 20})
	defer closeHome(t, s)
	inspect()
}

func TestEventsBoundaries(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Segment: smallSegment})
	defer closeHome(t, s)
	for range 30 {
		submit(t, q, queuefs.Meta{}, strings.Repeat("x", 5000))
	}
	for _, c := range []struct {
		after queuefs.Seq
		max   int
		want  int
	}{{0, 0, 30}, {0, 7, 7}, {29, 10, 1}, {30, 10, 0}, {31, 10, 0}, {1 << 60, 1, 0}, {5, 1 << 30, 25}, {5, -1, 25}} {
		events, err := q.Events(c.after, c.max)
		if err != nil || len(events) != c.want || c.want > 0 && events[0].Seq != c.after+1 {
			t.Errorf("after %d, %d: got %d, %v want %d", c.after, c.max, len(events), err, c.want)
		}
	}
	newFollower(t).follow(s) // who wants no more than what comes
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Events(0, 1); !errors.Is(err, queuefs.ErrGone) {
		t.Errorf("got %v", err)
	}
	if events, err := q.Events(30, 1); err != nil || len(events) != 0 {
		t.Errorf("got %v, %v", events, err)
	}
}

// TestCheckLeavesEventsToTheFollower checks a home after a crash, before and
// after its first checkpoint: who follows it finds what it has not seen.
func TestCheckLeavesEventsToTheFollower(t *testing.T) {
	dir := fastDir(t)
	f := newFollower(t)
	s, q := openHome(t, dir, queuefs.Options{})
	f.follow(s)
	for range 3 {
		submit(t, q, queuefs.Meta{}, "x")
		crashed := copyHome(t, dir)
		for range 2 {
			if r, err := check.Home(crashed, check.Options{Segment: segmentSize}); err != nil || len(r.Problems) > 0 {
				t.Errorf("check: %v, %+v", err, r)
			}
		}
		again, q := openHome(t, crashed, queuefs.Options{})
		late := newFollower(t)
		for name, n := range f.synced {
			late.seen[name], late.synced[name] = slices.Clone(f.seen[name][:n]), n
		}
		late.follow(again)
		late.check(q)
		closeHome(t, again)
		if err := s.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
	}
	closeHome(t, s)
}

// TestFilesLostUnderAnOpenHome takes files away while a home is open: jobs are
// given as far as the index knows them, and what moves on is written anew.
func TestFilesLostUnderAnOpenHome(t *testing.T) {
	dir := fastDir(t)
	var problems atomic.Int64
	s, q := openHome(t, dir, queuefs.Options{Now: clock(), Report: func(queuefs.Problem) { problems.Add(1) }})
	for range 3 {
		submit(t, q, queuefs.Meta{Filename: "f"}, "payload")
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(dir, "queues/jobs")
	if err := errors.Join(os.Remove(base+"/pending/j000000000001"), os.WriteFile(base+"/pending/j000000000002", []byte("spoilt"), 0o666), os.Remove(base+"/payload/j000000000003")); err != nil {
		t.Fatal(err)
	}
	for id := queuefs.JobID(1); id <= 2; id++ {
		j, err := q.Job(id)
		if err != nil || j.ID != id || j.Status != queuefs.Pending || j.Size != 7 || payload(t, q, id) != "payload" {
			t.Errorf("got %+v, %v", j, err)
		}
	}
	if _, err := q.Payload(3); err == nil || errors.Is(err, queuefs.ErrNoJob) {
		t.Errorf("payload that is gone: got %v", err)
	}
	if problems.Load() == 0 {
		t.Error("nothing was reported")
	}
	if _, err := q.Next(ctx, "w"); !errors.Is(err, queuefs.ErrEmpty) || q.State().Held != 3 {
		t.Errorf("next without a job file: got %v, and %+v", err, q.State())
	}
	for id := queuefs.JobID(1); id <= 2; id++ {
		if _, err := q.Release(ctx, id); err != nil {
			t.Error(err)
		}
	}
	for id := queuefs.JobID(1); id <= 2; id++ {
		if j, err := q.Next(ctx, "w"); err != nil || j.ID != id {
			t.Errorf("next: got %v, %v", j.ID, err)
		}
	}
	if _, err := q.Next(ctx, "w"); !errors.Is(err, queuefs.ErrEmpty) || q.State().Held != 1 {
		t.Errorf("next without a payload: got %v, and %+v", err, q.State())
	}
	if _, err := q.Requeue(ctx, 1); err != nil { // from and to the directory where it is not
		t.Error(err)
	}
	if err := s.Maintain(ctx); err != nil {
		t.Error(err)
	}
	closeHome(t, s)
	r, err := check.Home(dir, check.Options{Segment: segmentSize})
	if err != nil || len(r.Problems) != 1 || !strings.HasSuffix(r.Problems[0].Path, "payload/j000000000003") {
		t.Errorf("check: %v, %+v", err, r)
	}
}

// TestDraftThatIsOver writes to payloads that were committed or discarded.
func TestDraftThatIsOver(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	for _, size := range []int{10, 200_000} {
		for _, end := range []func(*queuefs.Submission){
			func(sub *queuefs.Submission) { sub.Discard() },
			func(sub *queuefs.Submission) { sub.Commit(ctx) },
		} {
			sub := q.Begin()
			d, err := sub.Add(queuefs.Meta{})
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(d, strings.Repeat("x", size))
			end(sub)
			if _, err := d.Write([]byte("more")); err == nil {
				t.Error("a draft that is over takes more")
			}
			if _, err := sub.Commit(ctx); err == nil {
				t.Error("a submission was committed twice")
			}
			if _, err := sub.Add(queuefs.Meta{}); err == nil {
				t.Error("a submission that is over takes more")
			}
			sub.Discard()
		}
	}
	if st := q.State(); st.Pending != 2 {
		t.Errorf("got %+v", st)
	}
}
