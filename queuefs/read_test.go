package queuefs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/table"
	"cutie/testdata/long"
)

// TestReadersWhileFilesMove reads a job while its file goes to and fro: it is
// always whole, and as it was at some time.
func TestReadersWhileFilesMove(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: clock()})
	rounds := long.N(200, 1500)
	submit(t, q, job.Meta{Filename: "f", Sidecar: strings.Repeat("s", 20_000)}, "x")
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for last := job.Seq(0); !done.Load() && !t.Failed(); {
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
	const n = 2*index.PageJobs + 500
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: 8 << 20})
	fillQueue(t, q, n, 1)
	for _, limit := range []int{1, 7, index.PageJobs, index.PageJobs + 1, n, n + 1, 0} {
		var got []job.ID
		for {
			after := job.ID(0)
			if len(got) > 0 {
				after = got[len(got)-1]
			}
			ids := q.IDs(index.Filter{Status: job.Pending, After: after, Limit: limit})
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
	var took []job.ID
	for range 2 {
		jobs := sure(q.NextN(ctx, "w", 1000))(t)
		took = append(took, idsOf(jobs)...)
	}
	if len(took) != 2000 || took[0] != 1 || took[1999] != 2000 || !slices.IsSorted(took) {
		t.Errorf("took %d", len(took))
	}
	// What comes back is first, whatever page it is on.
	for _, id := range []job.ID{1500, index.PageJobs, 3, index.PageJobs - 1} {
		must(t, errOf(q.Requeue(ctx, id)))
		if j, err := q.Peek(); err != nil || j.ID > id {
			t.Errorf("%v is back, the head is %v, %v", id, j.ID, err)
		}
	}
	closeHome(t, s)
	_, q = openHome(t, dir, queuefs.Options{Segment: 8 << 20})
	for _, want := range []job.ID{3, index.PageJobs - 1, index.PageJobs, 1500, 2001} {
		takes(t, q, want)
	}
}

// TestPagesAgreeWithJobs compares what a publisher is told with the files.
func TestPagesAgreeWithJobs(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: 4 << 20})
	fillQueue(t, q, index.PageJobs+20, 3)
	q.NextN(ctx, "w", 5)
	q.Delete(ctx, index.PageJobs+1)
	submit(t, q, job.Meta{MediaType: "text/plain"}, strings.Repeat("l", 150_000))
	inspect := func() {
		t.Helper()
		var seen int64
		var newest job.Seq
		for n := range q.Pages() {
			entries, version, at := q.Page(n, nil)
			v, vat, pending, total := q.PageVersion(n)
			if v != version || !vat.Equal(at) || total != len(entries) {
				t.Errorf("page %d: version %d at %v with %d, or %d at %v with %d", n, version, at, len(entries), v, vat, total)
			}
			newest = max(newest, version)
			for _, e := range entries {
				seen++
				if e.Job/index.PageJobs != job.ID(n) {
					t.Errorf("%v on page %d", e.Job, n)
				}
				if e.Status == job.Pending {
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
	_, q = openHome(t, dir, queuefs.Options{Segment: 4 << 20})
	inspect()
}

func TestEventsBoundaries(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Segment: smallSegment})
	submitN(t, q, 30, job.Meta{}, strings.Repeat("x", 5000))
	for _, c := range []struct {
		after job.Seq
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
	wantErr(t, errOf(q.Events(0, 1)), ledger.ErrGone, "")
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
		submit(t, q, job.Meta{}, "x")
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
	s, q := openHome(t, dir, queuefs.Options{Now: clock(), Report: func(durable.Finding) { problems.Add(1) }})
	submitN(t, q, 3, job.Meta{Filename: "f"}, "payload")
	must(t, s.Checkpoint(ctx))
	base := filepath.Join(dir, "queues/jobs")
	must(t, errors.Join(os.Remove(base+"/pending/j000000000001"), os.WriteFile(base+"/pending/j000000000002", []byte("spoilt"), 0o666), os.Remove(base+"/payload/j000000000003")))
	for id := job.ID(1); id <= 2; id++ {
		j, err := q.Job(id)
		if err != nil || j.ID != id || j.Status != job.Pending || j.Size != 7 || payload(t, q, id) != "payload" {
			t.Errorf("got %+v, %v", j, err)
		}
	}
	if _, err := q.Payload(3); err == nil || errors.Is(err, ledger.ErrNoJob) {
		t.Errorf("payload that is gone: got %v", err)
	}
	if problems.Load() == 0 {
		t.Error("nothing was reported")
	}
	if _, err := q.Next(ctx, "w"); !errors.Is(err, ledger.ErrEmpty) || q.State().Held != 3 {
		t.Errorf("next without a job file: got %v, and %+v", err, q.State())
	}
	for id := job.ID(1); id <= 2; id++ {
		should(t, errOf(q.Release(ctx, id)))
	}
	for id := job.ID(1); id <= 2; id++ {
		takes(t, q, id)
	}
	if _, err := q.Next(ctx, "w"); !errors.Is(err, ledger.ErrEmpty) || q.State().Held != 1 {
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
			d := sure(sub.Add(job.Meta{}))(t)
			io.WriteString(d, strings.Repeat("x", size))
			end(sub)
			if _, err := d.Write([]byte("more")); err == nil {
				t.Error("a draft that is over takes more")
			}
			if _, err := sub.Commit(ctx); err == nil {
				t.Error("a submission was committed twice")
			}
			if _, err := sub.Add(job.Meta{}); err == nil {
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
	other := sure(s.CreateQueue(ctx, home.QueueInfo{Identifier: "other"}))(t)
	want := map[job.ID]string{}
	add := func(size int) job.ID {
		data := strings.Repeat("x", size)
		if size > 8 {
			data = fmt.Sprintf("%07d", len(want)) + data[7:]
		}
		j := submit(t, q, job.Meta{Filename: fmt.Sprintf("f%d", len(want)), MediaType: "text/plain", Sidecar: strings.Repeat("s", len(want)%3*700)}, data)
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
			submit(t, other, job.Meta{}, strings.Repeat("o", 3<<10*(i%4)))
		}
		if i%5 == 2 { // its job file moves away from its payload
			must(t, errOf(q.Delete(ctx, id)))
			must(t, errOf(q.Requeue(ctx, id)))
		}
	}
	last := job.ID(0)
	atHand, total := 0, len(want)
	for _, max := range []int{1, 1, 3, 7, 1, 100} {
		taken := sure(q.Take(ctx, queuefs.Take{By: "w", Max: max}))(t)
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
		submit(t, q, job.Meta{Filename: name}, name)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "log", "journal", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("journal: %v, %v", logs, err)
	}
	edited := 0
	for _, log := range logs {
		data := sure(os.ReadFile(log))(t)
		at := bytes.Index(data, []byte("filename: victim"))
		if at < 0 {
			continue
		}
		f := sure(os.OpenFile(log, os.O_WRONLY, 0))(t)
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
	submitN(t, q, 500, job.Meta{Sidecar: strings.Repeat("s", 24<<10)}, "x")
	taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: 500})
	if err != nil || len(taken) < 100 {
		t.Fatalf("%d jobs, %v", len(taken), err)
	}
	payloads := make([][]byte, len(taken))
	for i := range taken {
		if payloads[i] = taken[i].AtHand(); payloads[i] == nil {
			t.Fatalf("job %d: the payload is not at hand", i)
		}
	}
	taken = nil
	with := liveHeap()
	runtime.KeepAlive(payloads)
	if kept := with - liveHeap(); kept > 4<<20 {
		t.Errorf("%d octets are kept for one of each job", kept)
	}
}

// eventsOf returns all events of a queue after the given one.
func eventsOf(t testing.TB, q *queuefs.Queue, after job.Seq) []job.Event {
	t.Helper()
	events, err := q.Events(after, 1<<30)
	if err != nil || len(events) != int(q.Seq()-after) {
		t.Fatalf("%s: got %d events after %d of %d, %v", q.ID(), len(events), after, q.Seq(), err)
	}
	return events
}

// sameEvents compares events in all they say.
func sameEvents(t testing.TB, got, want []job.Event) {
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
	submit(t, q, job.Meta{MediaType: "text/plain", Sidecar: "x\ny"}, "one")
	submit(t, q, job.Meta{}, "")
	submit(t, q, job.Meta{MediaType: strings.Repeat("m", 1024)}, strings.Repeat("large", 50_000))
	fillQueue(t, q, 4, 10)
	text := "said"
	must(t, errOf(q.Describe(ctx, 1, queuefs.Description{Sidecar: &text})))
	must(t, errOf(q.Hold(ctx, 1, "wait")))
	must(t, errOf(q.Release(ctx, 1)))
	taken := takeOne(t, q, time.Hour)
	must(t, errOf(q.Extend(ctx, 1, taken.Token, 2*time.Hour)))
	must(t, putResult(q, 1, taken.Token, "first", "one"))
	must(t, errOf(q.Conclude(ctx, 1, taken.Token, job.Conclusion{Outcome: job.Failed, Message: "no luck"})))
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
	seen := map[job.Kind]bool{}
	for _, e := range want {
		seen[e.Kind] = true
	}
	for k := job.Submit; k < job.Phase; k++ {
		if !seen[k] {
			t.Errorf("there was no %v", k)
		}
	}
	closeHome(t, s)

	job := "/j000000000005"
	text := sure(os.ReadFile(dir + "/queues/jobs/pending" + job))(t)
	text = append(text, "mediaType: "+strings.Repeat("m", 70_000)+"\n"...) // no submitter could give it
	must(t, os.WriteFile(dir+"/queues/jobs/deleted"+job, text, 0o666))
	must(t, os.Remove(dir+"/queues/jobs/pending"+job))
	last := q.Seq()
	_, q = openHome(t, dir, queuefs.Options{})
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
			submit(t, q, job.Meta{MediaType: fmt.Sprint("x/", i)}, strings.Repeat("x", size))
		}
		events := eventsOf(t, q, after)
		for i, e := range events {
			if e.Payload.Type != fmt.Sprint("x/", i) || e.Seq != after+job.Seq(i+1) {
				t.Errorf("%06b: got %+v", large, e)
			}
		}
		some := sure(q.Events(after+2, 3))(t)
		sameEvents(t, some, events[2:5])
	}
}

// TestFollowersOfManyCommitters follows queues, closely and from far behind,
// while many change them.
func TestFollowersOfManyCommitters(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Segment: 16 << 20})
	other := sure(s.CreateQueue(ctx, home.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1}))(t)
	queues := []*queuefs.Queue{q, other}
	const committers, each = 4, 60
	done, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	follow := func(q *queuefs.Queue, atOnce int) (events []job.Event) {
		for len(events) < committers*each {
			if err := q.Wait(done, job.Seq(len(events))); err != nil {
				t.Error(err)
				break
			}
			some, err := q.Events(job.Seq(len(events)), atOnce)
			if err != nil {
				t.Error(err)
				break
			}
			events = append(events, some...)
		}
		return events
	}
	var all sync.WaitGroup
	seen := make([][3][]job.Event, len(queues))
	for i, q := range queues {
		for n := range seen[i] {
			all.Go(func() { seen[i][n] = follow(q, 1+20*n) })
		}
		for n := range committers {
			all.Go(func() {
				for k := range each {
					submit(t, q, job.Meta{MediaType: fmt.Sprintf("x/%d-%d", n, k)}, "x")
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

// loseIndex takes the row of a queue out of the index.
func loseIndex(t testing.TB, dir, queue string) {
	t.Helper()
	loseRow(t, dir, table.Queues, queue)
}

// shy reads pieces that fit nowhere.
type shy struct{ io.Reader }

func (s shy) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), 10_007)]) }

// TestReadFrom brings payloads of sizes around the limits from readers of all
// manners, some behind what was written: what is stored is what they had, with
// its digests, and only what is more than may be in memory is in a file.
func TestReadFrom(t *testing.T) {
	_, q := openHome(t, t.TempDir(), queuefs.Options{Segment: 4 << 20})
	const inline = 128 << 10
	pattern := strings.Repeat("0123456789abcdefghi\n", 40_000)
	for name, reader := range map[string]func(r io.Reader) io.Reader{
		"whole":             func(r io.Reader) io.Reader { return r },
		"pieces":            func(r io.Reader) io.Reader { return shy{r} },
		"end with the last": iotest.DataErrReader,
	} {
		for _, size := range []int{0, 1, 4095, 4096, 4097, inline - 1, inline, inline + 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 700_001} {
			for _, written := range []int{0, size / 3, size} {
				what := fmt.Sprintf("%s, %d octets, %d of them written", name, size, written)
				data := pattern[size%20:][:size]
				sub := q.Begin()
				d := sure(sub.Add(job.Meta{Expect: []digest.Value{digest.Sum(digest.SHA1, []byte(data))}}))(t)
				io.WriteString(d, data[:written])
				n, err := d.ReadFrom(reader(strings.NewReader(data[written:])))
				if err != nil || n != int64(size-written) || d.Size() != int64(size) {
					t.Fatalf("%s: read %d, %v", what, n, err)
				}
				r := sure(d.Reader())(t)
				if _, inMemory := r.(*bytes.Reader); inMemory != (size <= inline) {
					t.Errorf("%s: in memory: %v", what, inMemory)
				}
				jobs, err := sub.Commit(t.Context())
				if err != nil || jobs[0].Size != int64(size) || !slices.Contains(jobs[0].Digests, digest.Sum(digest.SHA256, []byte(data))) {
					t.Fatalf("%s: %+v, %v", what, jobs, err)
				}
				p := sure(q.Payload(jobs[0].ID))(t)
				if got, err := io.ReadAll(p); err != nil || string(got) != data {
					t.Errorf("%s: payload has %d octets, %v", what, len(got), err)
				}
				p.Close()
			}
		}
	}
}

// TestReadFromOneByOne is for the reader that gives the least.
func TestReadFromOneByOne(t *testing.T) {
	_, q := openHome(t, t.TempDir(), queuefs.Options{Segment: 1 << 20})
	data := strings.Repeat("x", 128<<10) + "yz"
	sub := q.Begin()
	d := sure(sub.Add(job.Meta{Expect: []digest.Value{digest.Sum(digest.MD5, []byte(data))}}))(t)
	if n, err := d.ReadFrom(iotest.OneByteReader(strings.NewReader(data))); n != int64(len(data)) || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	should(t, errOf(sub.Commit(t.Context())))
}

// TestReadFromMany fills what a submission may keep in memory: the rest goes to
// files, and every payload is what it was.
func TestReadFromMany(t *testing.T) {
	_, q := openHome(t, t.TempDir(), queuefs.Options{Segment: 2 << 20})
	sub := q.Begin()
	var want []string
	files := 0
	for i := range 20 {
		data := strings.Repeat(string(rune('a'+i)), 60_000+i)
		d := sure(sub.Add(job.Meta{}))(t)
		must(t, errOf(d.ReadFrom(strings.NewReader(data))))
		r := sure(d.Reader())(t)
		if _, inMemory := r.(*bytes.Reader); !inMemory {
			files++
		}
		want = append(want, data)
	}
	if files == 0 || files == len(want) {
		t.Errorf("%d of %d payloads are in files", files, len(want))
	}
	jobs := sure(sub.Commit(t.Context()))(t)
	for i, j := range jobs {
		p := sure(q.Payload(j.ID))(t)
		if got, err := io.ReadAll(p); err != nil || string(got) != want[i] {
			t.Errorf("%v: payload has %d octets, %v", j.ID, len(got), err)
		}
		p.Close()
	}
}

// TestReadFromBroken cuts payloads off at sizes around the limits: the error is
// that of the reader, also where it is the one that io.ReadFull has for the
// end.
func TestReadFromBroken(t *testing.T) {
	_, q := openHome(t, t.TempDir(), queuefs.Options{Segment: 1 << 20})
	for _, size := range []int{0, 1, 4096, 128 << 10, 128<<10 + 1, 256 << 10, 300_000} {
		for _, broken := range []error{io.ErrUnexpectedEOF, errors.New("cut off")} {
			sub := q.Begin()
			d := sure(sub.Add(job.Meta{}))(t)
			n, err := d.ReadFrom(io.MultiReader(strings.NewReader(strings.Repeat("x", size)), iotest.ErrReader(broken)))
			if err != broken || n != int64(size) {
				t.Errorf("%d octets: read %d, %v", size, n, err)
			}
			sub.Discard()
			if _, err := d.ReadFrom(strings.NewReader("x")); err == nil {
				t.Errorf("%d octets: the submission is over, and it reads on", size)
			}
		}
	}
	if st := q.State(); st.Seq != 0 {
		t.Errorf("got %+v", st)
	}
}

// TestReadFromKeepsWhatItMust brings small payloads of many jobs: what they take
// in memory is about what they have.
func TestReadFromKeepsWhatItMust(t *testing.T) {
	_, q := openHome(t, t.TempDir(), queuefs.Options{Segment: 64 << 20})
	for _, size := range []int{1, 1000, 5000} {
		before := liveHeap()
		const jobs = 2000
		sub := q.Begin()
		for range jobs {
			d := sure(sub.Add(job.Meta{}))(t)
			must(t, errOf(d.ReadFrom(shy{strings.NewReader(strings.Repeat("x", size))})))
		}
		if each := (liveHeap() - before) / jobs; each > 2048+2*int64(size) {
			t.Errorf("a payload of %d octets takes %d", size, each)
		}
		sub.Discard()
	}
}

// liveHeap returns the octets that are in use.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestPayloadIsReadableAtEveryStep reads all jobs from inside every step that
// writes their files, and after a crash there.
func TestPayloadIsReadableAtEveryStep(t *testing.T) {
	var look func(step string)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Fault: func(step string, do func() error) error {
		err := do()
		if look != nil {
			look(step)
		}
		return err
	}})
	defer closeHome(t, s)
	for n := range 4 {
		submit(t, q, job.Meta{Filename: fmt.Sprint(n)}, strings.Repeat("0123456789", 20_000*n))
	}
	w := observe(t, s)
	looked := 0
	look = func(step string) {
		looked++
		w.expect(t, s, "%s", step)
		again, _ := openHome(t, copyHome(t, dir), queuefs.Options{})
		w.expect(t, again, "%s, crashed", step)
		again.Close()
	}
	must(t, s.Checkpoint(ctx))
	look = nil
	if looked < 8 {
		t.Errorf("looked %d times", looked)
	}
}

// TestPayloadForms reads payloads of all sizes around the limits in every way.
func TestPayloadForms(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testPayloadForms(t, fastDir(t)) })
	t.Run("disk", func(t *testing.T) { testPayloadForms(t, t.TempDir()) })
}

func testPayloadForms(t *testing.T, dir string) {
	s, q := openHome(t, dir, queuefs.Options{Segment: 2 << 20})
	var want []string
	for _, size := range []int{0, 1, 4095, 4096, 128<<10 - 1, 128 << 10, 128<<10 + 1, 256 << 10, 1<<20 + 17} {
		sub := q.Begin()
		d := sure(sub.Add(job.Meta{}))(t)
		data := strings.Repeat("abcdefg", size/7+1)[:size]
		for at := 0; at < size; at += 10_001 { // in pieces that fit nowhere
			if n, err := io.WriteString(d, data[at:min(at+10_001, size)]); err != nil || n != min(10_001, size-at) {
				t.Fatalf("write: %d, %v", n, err)
			}
		}
		if d.Size() != int64(size) {
			t.Errorf("got %d want %d", d.Size(), size)
		}
		jobs, err := sub.Commit(ctx)
		if err != nil || jobs[0].Size != int64(size) || !slices.Equal(jobs[0].Digests, []digest.Value{digest.Sum(digest.SHA256, []byte(data))}) {
			t.Fatalf("got %+v, %v", jobs, err)
		}
		want = append(want, data)
	}
	read := func() {
		t.Helper()
		for i, data := range want {
			p := sure(q.Payload(job.ID(i + 1)))(t)
			var b bytes.Buffer
			if n, err := p.WriteTo(&b); n != int64(len(data)) || err != nil || b.String() != data || p.Size() != n {
				t.Errorf("%d octets: wrote %d, %v", len(data), n, err)
			}
			if end, err := p.Seek(0, io.SeekEnd); end != int64(len(data)) || err != nil {
				t.Errorf("%d octets: end at %d, %v", len(data), end, err)
			}
			should(t, errOf(p.Seek(int64(len(data)/2), io.SeekStart)))
			if rest, err := io.ReadAll(p); err != nil || string(rest) != data[len(data)/2:] {
				t.Errorf("%d octets: the half has %d, %v", len(data), len(rest), err)
			}
			should(t, p.Close())
		}
	}
	read()
	must(t, s.Maintain(ctx))
	read()
	closeHome(t, s)
	_, q = openHome(t, dir, queuefs.Options{Segment: 2 << 20})
	read()
	wantErr(t, errOf(q.Payload(100)), ledger.ErrNoJob, "")
}

// TestRightDigests gives each kind of digest before the payload, after it, and
// in the place of another kind.
func TestRightDigests(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	for _, size := range []int{10, 140_000} {
		kinds := append([]digest.Type{0}, digest.Types()...)
		if size > 10 {
			kinds = []digest.Type{0, digest.CRC32}
		}
		data := strings.Repeat("d", size)
		for _, kind := range digest.Types() {
			right := digest.Sum(kind, []byte(data))
			for _, first := range kinds {
				sub := q.Begin()
				var m job.Meta
				if first != 0 {
					m.Expect = []digest.Value{digest.Sum(first, []byte("other"))}
				}
				d := sure(sub.Add(m))(t)
				io.WriteString(d, data)
				must(t, d.SetMeta(job.Meta{Expect: []digest.Value{right}}))
				jobs, err := sub.Commit(ctx)
				if err != nil || !slices.Contains(jobs[0].Digests, right) {
					t.Errorf("%v after %v, %d octets: %v", kind, first, size, err)
					continue
				}
				if j, err := q.Job(jobs[0].ID); err != nil || !slices.Equal(j.Digests, jobs[0].Digests) {
					t.Errorf("%v: got %v want %v", kind, j.Digests, jobs[0].Digests)
				}
			}
		}
	}
}

// TestQueueAsksForDigests: what the queue asks for and what the submitter gives
// are in the job file, and the MD5 is told to publishers, also after the home
// was opened again, and after a crash.
func TestQueueAsksForDigests(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	data := []byte("hello\n")
	sum := func(types ...digest.Type) (values []digest.Value) {
		for _, typ := range types {
			values = append(values, digest.Sum(typ, data))
		}
		return values
	}
	for i, c := range []struct {
		asked  digest.Set
		given  []digest.Value
		stored []digest.Value
	}{
		{0, nil, sum(digest.SHA256)},
		{0, sum(digest.MD5, digest.SHA256), sum(digest.SHA256, digest.MD5)},
		{digest.SetOf(digest.MD5), nil, sum(digest.SHA256, digest.MD5)},
		{digest.SetOf(digest.MD5, digest.SHA512, digest.SHA256), sum(digest.CRC32), sum(digest.SHA256, digest.MD5, digest.SHA512, digest.CRC32)},
	} {
		must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Digests = c.asked }))))
		made := submit(t, q, job.Meta{Expect: c.given}, string(data))
		id := made.ID
		want := [16]byte{}
		if slices.ContainsFunc(c.stored, func(v digest.Value) bool { return v.Type == digest.MD5 }) {
			want = [16]byte{0xb1, 0x94, 0x6a, 0xc9, 0x24, 0x92, 0xd2, 0x34, 0x7c, 0x62, 0x35, 0xb4, 0xd2, 0x61, 0x11, 0x84}
		}
		check := func(when string) {
			t.Helper()
			j, err := q.Job(id)
			if err != nil || !slices.Equal(j.Digests, c.stored) {
				t.Errorf("%d %s: got %v, %v, want %v", i, when, j.Digests, err, c.stored)
			}
			if e, ok := q.Entry(id); !ok || e.Payload.MD5 != want || e.File.MD5 != [16]byte{} {
				t.Errorf("%d %s: got %+v, want MD5 %x", i, when, e, want)
			}
		}
		check("submitted")
		events, err := q.Events(made.Seq-1, 1)
		if err != nil || events[0].Payload.MD5 != want {
			t.Errorf("%d: got %+v, %v", i, events, err)
		}
		closeHome(t, s)
		s, q = openHome(t, dir, queuefs.Options{})
		check("opened again")
	}
}

// putting is held while a payload is put into its place; payloads are written side by side.
var putting sync.Mutex

// put writes a payload and puts it into its place.
func put(q *queuefs.Queue, s *queuefs.Submission, place int, m job.Meta, payload string) error {
	part := q.Begin()
	defer part.Discard()
	d, err := part.Add(m)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(d, payload); err != nil {
		return err
	}
	putting.Lock()
	defer putting.Unlock()
	return s.Put(place, part)
}

// staged is a payload of a size around what the journal takes.
func staged(place int) string {
	return strings.Repeat(fmt.Sprintf("%07d\n", place), 1+place*place*400)
}

func TestStageTakesPayloadsInAnyOrder(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: 256 << 10}) // more than may be in memory
	submit(t, q, job.Meta{}, "before")
	const n = 20
	stage := q.Assemble(n)
	var wg sync.WaitGroup
	for _, place := range rand.Perm(n) {
		wg.Go(func() {
			m := job.Meta{Filename: fmt.Sprint(place), Expect: []digest.Value{digest.Sum(digest.CRC32, []byte(staged(place)))}}
			if place == 3 {
				m.Batch = "own"
			}
			should(t, put(q, stage, place, m, staged(place)))
		})
	}
	wg.Wait()
	jobs := sure(stage.Commit(ctx))(t)
	stage.Discard() // does nothing
	check := func(q *queuefs.Queue) {
		t.Helper()
		got, err := q.List(index.Filter{After: 1})
		if err != nil || len(got) != n || len(jobs) != n {
			t.Fatalf("got %d jobs of %d, %v", len(got), len(jobs), err)
		}
		for place, j := range got {
			want := jobs[place]
			batch := "b000000000002-20"
			if place == 3 {
				batch = "own"
			}
			if fmt.Sprint(j) != fmt.Sprint(want) || j.ID != job.ID(place+2) || j.Filename != fmt.Sprint(place) || j.Batch != batch {
				t.Errorf("got %+v, want %+v", j, want)
			}
			if got := payload(t, q, j.ID); got != staged(place) {
				t.Errorf("%v: got %d octets, want %d", j.ID, len(got), len(staged(place)))
			}
		}
	}
	check(q)
	closeHome(t, s)
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	_, q = openHome(t, dir, queuefs.Options{})
	check(q)
}

func TestStageRefuses(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	other := sure(s.CreateQueue(ctx, home.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1}))(t)
	large := strings.Repeat("x", 200<<10)
	stage := q.Assemble(2)
	wrong := job.Meta{Expect: []digest.Value{digest.Sum(digest.SHA1, nil)}}
	for _, body := range []string{"small", large} {
		wantErr(t, put(q, stage, 0, wrong, body), digest.ErrMismatch, "wrong digest")
	}
	must(t, put(q, stage, 0, job.Meta{}, large))
	if err := put(q, stage, 0, job.Meta{}, large); err == nil {
		t.Error("a place was taken twice")
	}
	if err := put(other, stage, 1, job.Meta{}, large); err == nil {
		t.Error("a job of another queue was taken")
	}
	if err := stage.Put(1, q.Begin()); err == nil {
		t.Error("a submission of no job was taken")
	}
	if jobs, err := stage.Commit(ctx); err == nil {
		t.Errorf("a batch that is not complete: got %v", jobs)
	}
	stage.Discard()
	stage.Discard()
	if err := put(q, stage, 1, job.Meta{}, large); err == nil {
		t.Error("a batch that is over took a job")
	}
	if jobs, err := stage.Commit(ctx); err == nil {
		t.Errorf("a batch that is over: got %v", jobs)
	}
	if st := q.State(); st.Pending != 0 {
		t.Errorf("%d jobs are pending", st.Pending)
	}
	if left := leftovers(t, filepath.Join(dir, "cutie-tmp")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// A manifest is read back from the draft it came into, small or large.
func TestDraftIsReadAndVerified(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	for _, body := range []string{"", "hello\n", strings.Repeat("0123456789", 15_000)} {
		sub := q.Begin()
		d := sure(sub.Add(job.Meta{}))(t)
		must(t, errOf(io.WriteString(d, body)))
		for range 2 {
			r := sure(d.Reader())(t)
			if got, err := io.ReadAll(r); string(got) != body || err != nil {
				t.Errorf("got %d octets, %v, want %d", len(got), err, len(body))
			}
		}
		for _, typ := range []digest.Type{digest.CRC32, digest.MD5, digest.SHA256, digest.SHA512} { // named when the payload had come
			for of, want := range map[string]error{body: nil, "other": digest.ErrMismatch} {
				must(t, d.SetMeta(job.Meta{Expect: []digest.Value{digest.Sum(typ, []byte(of))}}))
				wantErr(t, d.Verify(), want, "%s", typ)
			}
		}
		sub.Discard()
		if _, err := d.Reader(); err == nil {
			t.Error("a submission that is over was read")
		}
	}
}

// Whatever step fails, all jobs of the batch are there or none, and nothing is
// left over.
func TestEveryStepOfAStageFails(t *testing.T) {
	for _, way := range []struct {
		name string
		err  error
		done bool
	}{{"fails", errInjected, false}, {"no space but happened", syscall.ENOSPC, true}} {
		fired := true
		for at := 1; fired; at++ {
			f := newFaults(0, way.err)
			f.done = way.done
			dir := fastDir(t)
			o := queuefs.Options{Segment: smallSegment, Now: clock()}
			s, _ := openHome(t, dir, o)
			closeHome(t, s)
			o.Fault = f.step
			s, q := openHome(t, dir, o)
			f.lock <- struct{}{}
			f.at = f.n + at
			<-f.lock
			stage := q.Assemble(3)
			var err error
			for _, place := range []int{2, 0, 1} {
				if err == nil {
					err = put(q, stage, place, job.Meta{Filename: fmt.Sprint(place)}, strings.Repeat("x", 30_000+place*60_000))
				}
			}
			var jobs []job.Job
			if err == nil {
				jobs, err = stage.Commit(ctx)
			}
			stage.Discard()
			fired = f.fired()
			if err == nil && len(jobs) != 3 || err != nil && !fired {
				t.Errorf("%s at %d (%s): got %d jobs, %v", way.name, at, f.name, len(jobs), err)
			}
			s.Close() // may fail, as the storage did
			s, q = openHome(t, dir, queuefs.Options{Segment: smallSegment})
			names, listErr := q.List(index.Filter{})
			got := ""
			for _, j := range names {
				got += j.Filename
			}
			if may := []string{"012"}; listErr != nil || !slices.Contains(may, got) && (err == nil || got != "") {
				t.Errorf("%s at %d (%s): submitting: %v, then got jobs %q, %v", way.name, at, f.name, err, got, listErr)
			}
			closeHome(t, s)
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("%s at %d (%s): left over: %q", way.name, at, f.name, left)
			}
			if !fired && at < 10 {
				t.Errorf("%s: only %d steps", way.name, at-1)
			}
		}
	}
}
