package queuefs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/catalog"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/testdata/long"
)

// TestReadersWhileFilesMove reads a job while its file goes to and fro: it is
// always whole, and as it was at some time.
func TestReadersWhileFilesMove(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: clock()})
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
		should(t, errOf(q.Next(ctx, "w")))
		should(t, s.Maintain(ctx))
		should(t, errOf(q.Requeue(ctx, 1)))
		should(t, s.Maintain(ctx))
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
		must(t, err)
		took = append(took, idsOf(jobs)...)
	}
	if len(took) != 2000 || took[0] != 1 || took[1999] != 2000 || !slices.IsSorted(took) {
		t.Errorf("took %d", len(took))
	}
	// What comes back is first, whatever page it is on.
	for _, id := range []queuefs.JobID{1500, queuefs.PageJobs, 3, queuefs.PageJobs - 1} {
		must(t, errOf(q.Requeue(ctx, id)))
		if j, err := q.Peek(); err != nil || j.ID > id {
			t.Errorf("%v is back, the head is %v, %v", id, j.ID, err)
		}
	}
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{Segment: 8 << 20})
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
	must(t, s.Checkpoint(ctx))
	inspect()
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{Segment: 4 << 20})
	inspect()
}

func TestEventsBoundaries(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Segment: smallSegment})
	submitN(t, q, 30, queuefs.Meta{}, strings.Repeat("x", 5000))
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
	must(t, s.Checkpoint(ctx))
	wantErr(t, errOf(q.Events(0, 1)), queuefs.ErrGone, "")
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
		must(t, s.Checkpoint(ctx))
	}
}

// TestFilesLostUnderAnOpenHome takes files away while a home is open: jobs are
// given as far as the index knows them, and what moves on is written anew.
func TestFilesLostUnderAnOpenHome(t *testing.T) {
	dir := fastDir(t)
	var problems atomic.Int64
	s, q := openHome(t, dir, queuefs.Options{Now: clock(), Report: func(queuefs.Problem) { problems.Add(1) }})
	submitN(t, q, 3, queuefs.Meta{Filename: "f"}, "payload")
	must(t, s.Checkpoint(ctx))
	base := filepath.Join(dir, "queues/jobs")
	must(t, errors.Join(os.Remove(base+"/pending/j000000000001"), os.WriteFile(base+"/pending/j000000000002", []byte("spoilt"), 0o666), os.Remove(base+"/payload/j000000000003")))
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
		should(t, errOf(q.Release(ctx, id)))
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
	should(t, s.Maintain(ctx))
	closeHome(t, s)
	r, err := check.Home(dir, check.Options{Segment: segmentSize})
	if err != nil || len(r.Problems) != 1 || !strings.HasSuffix(r.Problems[0].Path, "payload/j000000000003") {
		t.Errorf("check: %v, %+v", err, r)
	}
}

// TestDraftThatIsOver writes to payloads that were committed or discarded.
func TestDraftThatIsOver(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	for _, size := range []int{10, 200_000} {
		for _, end := range []func(*queuefs.Submission){
			func(sub *queuefs.Submission) { sub.Discard() },
			func(sub *queuefs.Submission) { sub.Commit(ctx) },
		} {
			sub := q.Begin()
			d, err := sub.Add(queuefs.Meta{})
			must(t, err)
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

// TestTakenJobsAreThoseOfTheQueue takes jobs whose files are behind the journal
// or not, that lie beside others there or not, of all sizes, and compares them
// with the same ones asked for by name.
func TestTakenJobsAreThoseOfTheQueue(t *testing.T) {
	s, q := openHome(t, t.TempDir(), queuefs.Options{})
	other, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other"})
	must(t, err)
	want := map[queuefs.JobID]string{}
	add := func(size int) queuefs.JobID {
		data := strings.Repeat("x", size)
		if size > 8 {
			data = fmt.Sprintf("%07d", len(want)) + data[7:]
		}
		j := submit(t, q, queuefs.Meta{Filename: fmt.Sprintf("f%d", len(want)), MediaType: "text/plain", Sidecar: strings.Repeat("s", len(want)%3*700)}, data)
		want[j.ID] = data
		return j.ID
	}
	sizes := []int{0, 1, 1 << 10, 0, 5 << 10, 60 << 10, 60 << 10, 60 << 10, 60 << 10, 60 << 10, 128 << 10, 128<<10 + 1, 200 << 10, 3}
	for _, size := range sizes {
		add(size)
	}
	must(t, s.Checkpoint(ctx))
	for i, size := range append(sizes, sizes...) {
		id := add(size)
		if i%3 == 1 {
			submit(t, other, queuefs.Meta{}, strings.Repeat("o", 3<<10*(i%4)))
		}
		if i%5 == 2 { // its job file moves away from its payload
			must(t, errOf(q.Delete(ctx, id)))
			must(t, errOf(q.Requeue(ctx, id)))
		}
	}
	last := queuefs.JobID(0)
	atHand, total := 0, len(want)
	for _, max := range []int{1, 1, 3, 7, 1, 100} {
		taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: max})
		must(t, err)
		octets := 0
		for i := range taken {
			j := &taken[i]
			data, ours := want[j.ID]
			delete(want, j.ID)
			if same, err := q.Job(j.ID); err != nil || !reflect.DeepEqual(same, j.Job) || j.ID <= last || !ours {
				t.Errorf("got %+v after %v, want %+v, %v", j.Job, last, same, err)
			}
			last = j.ID
			if j.AtHand() != nil {
				atHand++
				octets += len(data)
			}
			if j.AtHand() != nil && string(j.AtHand()) != data || payload(t, q, j.ID) != data {
				t.Errorf("%v of %d octets: got another payload, at hand %d octets", j.ID, len(data), len(j.AtHand()))
			}
		}
		if octets > 256<<10 {
			t.Errorf("%d octets of payloads came along with %d jobs", octets, len(taken))
		}
	}
	if len(want) != 0 || atHand < 12 {
		t.Errorf("of %d jobs %d did not come, %d had their payload at hand", total, len(want), atHand)
	}
}

// TestADamagedJournalDoesNotKeepNeighboursBack edits a job file in the journal,
// between two others, while it is read from there.
func TestADamagedJournalDoesNotKeepNeighboursBack(t *testing.T) {
	dir := t.TempDir()
	_, q := openHome(t, dir, queuefs.Options{})
	for _, name := range []string{"first", "victim", "third"} {
		submit(t, q, queuefs.Meta{Filename: name}, name)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "log", "journal", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("journal: %v, %v", logs, err)
	}
	edited := 0
	for _, log := range logs {
		data, err := os.ReadFile(log)
		must(t, err)
		at := bytes.Index(data, []byte("filename: victim"))
		if at < 0 {
			continue
		}
		f, err := os.OpenFile(log, os.O_WRONLY, 0)
		must(t, err)
		must(t, errOf(f.WriteAt([]byte("filename: edited"), int64(at))))
		f.Close()
		edited++
	}
	taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: 10})
	if err != nil || len(taken) != 3 || edited != 1 {
		t.Fatalf("got %d jobs, %v; edited %d", len(taken), err, edited)
	}
	for i, want := range []string{"first", "edited", "third"} {
		payload := []string{"first", "victim", "third"}[i]
		if got := taken[i].Filename; got != want {
			t.Errorf("job %d: got %s, want %s", i+1, got, want)
		}
		if at := taken[i].AtHand(); (at == nil) != (i == 1) || at != nil && string(at) != payload {
			t.Errorf("job %d: %q is at hand", i+1, at)
		}
	}
}

// TestPayloadsAtHandKeepNoJobFiles takes jobs of which nearly everything is
// their sidecars, and keeps the payloads.
func TestPayloadsAtHandKeepNoJobFiles(t *testing.T) {
	_, q := openHome(t, t.TempDir(), queuefs.Options{Segment: 64 << 20})
	submitN(t, q, 500, queuefs.Meta{Sidecar: strings.Repeat("s", 24<<10)}, "x")
	taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: 500})
	if err != nil || len(taken) < 100 {
		t.Fatalf("%d jobs, %v", len(taken), err)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	payloads := make([][]byte, len(taken))
	for i := range taken {
		if payloads[i] = taken[i].AtHand(); payloads[i] == nil {
			t.Fatalf("job %d: the payload is not at hand", i)
		}
	}
	taken = nil
	with := heap()
	runtime.KeepAlive(payloads)
	if kept := with - heap(); kept > 4<<20 {
		t.Errorf("%d octets are kept for one of each job", kept)
	}
}

// eventsOf returns all events of a queue after the given one.
func eventsOf(t testing.TB, q *queuefs.Queue, after queuefs.Seq) []queuefs.Event {
	t.Helper()
	events, err := q.Events(after, 1<<30)
	if err != nil || len(events) != int(q.Seq()-after) {
		t.Fatalf("%s: got %d events after %d of %d, %v", q.ID(), len(events), after, q.Seq(), err)
	}
	return events
}

// sameEvents compares events in all they say.
func sameEvents(t testing.TB, got, want []queuefs.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %d events, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
}

// allKinds has something of every kind happen in a queue.
func allKinds(t *testing.T, s *queuefs.Service, q *queuefs.Queue) {
	t.Helper()
	submit(t, q, queuefs.Meta{MediaType: "text/plain", Sidecar: "x\ny"}, "one")
	submit(t, q, queuefs.Meta{}, "")
	submit(t, q, queuefs.Meta{MediaType: strings.Repeat("m", 1024)}, strings.Repeat("large", 50_000))
	fillQueue(t, q, 4, 10)
	text := "said"
	_, err := q.Describe(ctx, 1, queuefs.Description{Sidecar: &text})
	must(t, err)
	must(t, errOf(q.Hold(ctx, 1, "wait")))
	must(t, errOf(q.Release(ctx, 1)))
	taken := takeOne(t, q, time.Hour)
	must(t, errOf(q.Extend(ctx, 1, taken.Token, 2*time.Hour)))
	must(t, putResult(q, 1, taken.Token, "first", "one"))
	_, err = q.Conclude(ctx, 1, taken.Token, queuefs.Conclusion{Outcome: queuefs.Failed, Message: "no luck"})
	must(t, err)
	must(t, errOf(q.RequeueEnd(ctx, 1)))
	must(t, errOf(q.Requeue(ctx, 1)))
	must(t, errOf(q.NextN(ctx, "w", 3)))
	must(t, errOf(q.Delete(ctx, 4)))
	if got := cullQueue(t, s, q.ID()); len(got) != 4 { // an update of queue-info.txt first
		t.Fatalf("culled %v", got)
	}
}

// TestEventsAreTheSameWhenOpenedAgain has events of all kinds of a queue of its own, and then of other
// hands while the home is closed.
func TestEventsAreTheSameWhenOpenedAgain(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	allKinds(t, s, q)
	want := eventsOf(t, q, 0)
	seen := map[queuefs.Kind]bool{}
	for _, e := range want {
		seen[e.Kind] = true
	}
	for k := queuefs.Submit; k < queuefs.Phase; k++ {
		if !seen[k] {
			t.Errorf("there was no %v", k)
		}
	}
	closeHome(t, s)

	job := "/j000000000005"
	text, err := os.ReadFile(dir + "/queues/jobs/pending" + job)
	must(t, err)
	text = append(text, "mediaType: "+strings.Repeat("m", 70_000)+"\n"...) // no submitter could give it
	must(t, os.WriteFile(dir+"/queues/jobs/deleted"+job, text, 0o666))
	must(t, os.Remove(dir+"/queues/jobs/pending"+job))
	last := q.Seq()
	s, q = openHome(t, dir, queuefs.Options{})
	if q.Seq() != last+1 {
		t.Errorf("got %d events of other hands", q.Seq()-last)
	}
	sameEvents(t, eventsOf(t, q, 0)[:last], want)
}

// TestEventsCloseAndFarApart reads events whose records are neighbours in the
// journal, or have large payloads between them.
func TestEventsCloseAndFarApart(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	for large := range 1 << 6 {
		after := q.Seq()
		for i := range 6 {
			size := 1 + large>>i&1*70_000
			submit(t, q, queuefs.Meta{MediaType: fmt.Sprint("x/", i)}, strings.Repeat("x", size))
		}
		events := eventsOf(t, q, after)
		for i, e := range events {
			if e.Payload.Type != fmt.Sprint("x/", i) || e.Seq != after+queuefs.Seq(i+1) {
				t.Errorf("%06b: got %+v", large, e)
			}
		}
		some, err := q.Events(after+2, 3)
		must(t, err)
		sameEvents(t, some, events[2:5])
	}
}

// TestAQueueMadeAgainHasNoFormerEvents removes a queue and makes one of its name.
func TestAQueueMadeAgainHasNoFormerEvents(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	submit(t, q, queuefs.Meta{}, "x")
	submit(t, q, queuefs.Meta{}, "y")
	must(t, errOf(q.NextN(ctx, "w", 2)))
	cullQueue(t, s, "jobs")
	last := q.Seq()
	must(t, s.RemoveQueue(ctx, "jobs"))
	again, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1})
	must(t, err)
	submit(t, again, queuefs.Meta{}, "z")
	wantErr(t, errOf(again.Events(last-1, 1)), queuefs.ErrGone, "events of the former queue")
	got := eventsOf(t, again, last)
	if len(got) != 1 || got[0].Seq != last+1 || got[0].Kind != queuefs.Submit {
		t.Errorf("got %+v", got)
	}
}

// TestFollowersOfManyCommitters follows queues, closely and from far behind,
// while many change them.
func TestFollowersOfManyCommitters(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Segment: 16 << 20})
	other, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1})
	must(t, err)
	queues := []*queuefs.Queue{q, other}
	const committers, each = 4, 60
	done, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	follow := func(q *queuefs.Queue, atOnce int) (events []queuefs.Event) {
		for len(events) < committers*each {
			if err := q.Wait(done, queuefs.Seq(len(events))); err != nil {
				t.Error(err)
				break
			}
			some, err := q.Events(queuefs.Seq(len(events)), atOnce)
			if err != nil {
				t.Error(err)
				break
			}
			events = append(events, some...)
		}
		return events
	}
	var all sync.WaitGroup
	seen := make([][3][]queuefs.Event, len(queues))
	for i, q := range queues {
		for n := range seen[i] {
			all.Go(func() { seen[i][n] = follow(q, 1+20*n) })
		}
		for n := range committers {
			all.Go(func() {
				for k := range each {
					submit(t, q, queuefs.Meta{MediaType: fmt.Sprintf("x/%d-%d", n, k)}, "x")
				}
			})
		}
	}
	all.Wait()
	for i, q := range queues {
		want := eventsOf(t, q, 0)
		for _, got := range seen[i] {
			if !slices.Equal(got, want) {
				t.Errorf("%s: a follower has seen other events than the journal has", q.ID())
			}
		}
	}
}

// loseIndex takes a small queue out of the index.
func loseIndex(t testing.TB, dir, queue string) {
	t.Helper()
	d, err := durable.OpenDir(dir+"/log/index", nil)
	must(t, err)
	defer d.Close()
	f, _, err := catalog.Open(d, "small", "index of small queues", 0)
	must(t, err)
	defer f.Close()
	if !f.Has(queue) {
		t.Fatalf("queue %s is not in the index", queue)
	}
	must(t, f.Append(catalog.Entry{Name: queue}))
}
