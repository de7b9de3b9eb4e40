package index_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/testdata/long"
)

// A model is a naive index: a map.
type model struct {
	jobs map[job.ID]index.Job
	last index.Numbers
	dead []index.Tombstone
}

func (m *model) apply(c *index.Change) {
	j := m.jobs[c.Job]
	m.jobs[c.Job] = index.Job{Standing: c.Standing, Behind: j.Behind, Filed: j.Filed, PayloadFiled: j.PayloadFiled,
		FileLength: c.FileLength, Size: c.Size, Submitted: c.Submitted, Changed: c.Time,
		SHA256: c.SHA256, MD5: c.MD5, FileSHA256: c.FileSHA256, MediaType: c.MediaType}
	m.last = m.last.Max(index.Numbers{Job: c.Job, Seq: c.Seq, Time: c.Time})
	if c.Kind == job.Cull {
		m.dead = append(m.dead, index.Tombstone{Job: c.Job, Culled: c.Time, Seq: c.Seq})
	}
}

func (m *model) ids(want func(index.Job) bool) (ids []job.ID) {
	for id, j := range m.jobs {
		if j.Status != 0 && want(j) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// check compares all that an index says with the model.
func (m *model) check(t *testing.T, x *index.Index) {
	t.Helper()
	var n index.Counts
	for id, want := range m.jobs {
		got, ok := x.Job(id)
		if ok != (want.Status != 0) || ok && got != want {
			t.Fatalf("%v: got %+v, %v, want %+v", id, got, ok, want)
		}
		if want.Status == 0 {
			continue
		}
		n.Status[want.Status]++
		for count, is := range map[*int64]bool{&n.Held: want.Held, &n.Leased: want.Leased, &n.Failed: want.Outcome == job.Failed, &n.Retained: want.Retained,
			&n.Available: want.Status == job.Pending && !want.Held && !want.Claimed} {
			if is {
				*count++
			}
		}
	}
	available := m.ids(func(j index.Job) bool { return j.Status == job.Pending && !j.Held && !j.Claimed })
	first := append(available, 0)[0]
	if x.Counts != n || x.First() != first || x.Last() != m.last {
		t.Fatalf("got %+v, first %v, %+v, want %+v, %v, %+v", x.Counts, x.First(), x.Last(), n, first, m.last)
	}
	for name, c := range map[string]struct{ got, want []job.ID }{
		"all":      {x.IDs(index.Filter{Limit: math.MaxInt}), m.ids(func(index.Job) bool { return true })},
		"consumed": {x.IDs(index.Filter{Status: job.Consumed, Limit: math.MaxInt}), m.ids(func(j index.Job) bool { return j.Status == job.Consumed })},
		"held":     {x.IDs(index.Filter{Held: true, Limit: math.MaxInt}), m.ids(func(j index.Job) bool { return j.Held })},
		"failed": {x.IDs(index.Filter{Outcome: job.Failed, After: 5, Limit: math.MaxInt}),
			slices.DeleteFunc(m.ids(func(j index.Job) bool { return j.Outcome == job.Failed }), func(id job.ID) bool { return id <= 5 })},
		"leased":  {x.Leased(), m.ids(func(j index.Job) bool { return j.Leased })},
		"results": {x.WithResults(), m.ids(func(j index.Job) bool { return j.Results })},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Fatalf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
}

var mediaTypes = []string{"", "text/plain", "image/jpeg", "application/x-é"}

// someChange makes up a change of a job.
func someChange(r *rand.Rand, id job.ID, seq job.Seq) *index.Change {
	c := &index.Change{Job: id, Seq: seq, Time: 1e15 + int64(seq), FileLength: r.IntN(1000), Size: r.Int64N(1 << 40), Submitted: 1e15,
		MediaType: mediaTypes[r.IntN(len(mediaTypes))], Kind: job.Update}
	c.SHA256[r.IntN(32)], c.FileSHA256[r.IntN(32)] = byte(r.IntN(256)), byte(r.IntN(256))
	if r.IntN(4) == 0 {
		c.MD5[r.IntN(16)] = 7
	}
	c.Status = job.Status(r.IntN(4))
	switch c.Status {
	case 0:
		c.Kind = job.Cull
	case job.Pending:
		c.Held = r.IntN(3) == 0
	case job.Consumed:
		c.Leased = r.IntN(2) == 0
		c.Outcome = job.Outcome(r.IntN(4))
	}
	if c.Status != 0 {
		c.Results, c.Retained = r.IntN(5) == 0, r.IntN(5) == 0
	}
	return c
}

// TestIndexIsWhatAMapWouldBe does what a queue does, in any order, and goes over
// the disk now and then.
func TestIndexIsWhatAMapWouldBe(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 0))
		x, m := index.New("jobs"), &model{jobs: map[job.ID]index.Job{}}
		for seq := job.Seq(1); seq < 3000; seq++ {
			id := job.ID(1 + r.IntN(3*index.PageJobs))
			if r.IntN(2) == 0 {
				id = job.ID(1 + r.IntN(20)) // some change often
			}
			switch r.IntN(8) {
			case 0:
				j, known := m.jobs[id]
				if ok := x.Claim(id); ok != (known && j.Status != 0 && !j.Claimed) {
					t.Fatalf("claim of %v: %v", id, ok)
				} else if ok {
					j.Claimed = true
					m.jobs[id] = j
				}
			case 1:
				x.Unclaim(id)
				if j, known := m.jobs[id]; known {
					j.Claimed = false
					m.jobs[id] = j
				}
			case 2:
				want := m.ids(func(j index.Job) bool { return j.Status == job.Pending && !j.Held && !j.Claimed })
				want = want[:min(len(want), 2)]
				if got := x.ClaimFirst(2); !slices.Equal(got, want) {
					t.Fatalf("got %v, want %v", got, want)
				}
				for _, id := range want {
					j := m.jobs[id]
					j.Claimed = true
					m.jobs[id] = j
				}
			default:
				c := someChange(r, id, seq)
				x.Apply(c)
				m.apply(c)
				if r.IntN(10) == 0 { // as a replay does
					x.Apply(c)
				}
			}
			if seq%500 == 0 {
				m.check(t, x)
				x = again(t, x)
				for id, j := range m.jobs {
					j.Claimed = false
					if j.Filed, j.PayloadFiled = j.Status, j.Status != 0; j.Status == 0 {
						j = index.Job{}
					}
					m.jobs[id] = j
				}
			}
		}
		m.check(t, x)
	}
}

// again returns the index as it is after a restart.
func again(t *testing.T, x *index.Index) *index.Index {
	t.Helper()
	y := index.New("jobs")
	y.SetMediaTypes(x.MediaTypes())
	y.Reach(x.Last())
	for n := range x.Pages() {
		x.SetPageChanged(n)
		if data, ok := x.AppendPage(nil, n); ok {
			if _, twice := x.AppendPage(nil, n); twice {
				t.Error("a page that was written is changed")
			}
			if err := y.LoadPage(data, n); err != nil {
				t.Fatal(err)
			}
			if v, err := index.PageVersion(data, "jobs", n); v != x.Page(n).Version || err != nil {
				t.Errorf("page %d: version %d, %v, want %d", n, v, err, x.Page(n).Version)
			}
		}
	}
	x.Free()
	return y
}

func TestNumbersNeverGoBack(t *testing.T) {
	x := index.New("jobs")
	x.Reach(index.Numbers{Job: 7, Seq: 8, Time: 900})
	was := x.Minted()
	id, ok := x.MintJob()
	seq, at := x.Mint(100) // the clock has stepped back
	if id != 8 || !ok || seq != 9 || at != 901 || x.Last() != was {
		t.Errorf("got %v, %v, %d, %d, %+v", id, ok, seq, at, x.Last())
	}
	x.Unmint(was)
	x.Skip(index.Numbers{Job: 20, Seq: 3})
	if id, _ := x.MintJob(); id != 21 {
		t.Errorf("got %v", id)
	}
	x.Skip(index.Numbers{Job: job.MaxID})
	if id, ok := x.MintJob(); ok {
		t.Errorf("got %v", id)
	}
	x.Apply(&index.Change{Job: 3, Seq: 4, Time: 5})
	if got, want := x.Last(), (index.Numbers{Job: 7, Seq: 8, Time: 900}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSearchFindsTheLongestUnchanged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := index.New("jobs")
	var all []index.Candidate
	for id := job.ID(1); id <= 3*index.PageJobs; id++ {
		c := &index.Change{Job: id, Seq: job.Seq(id), Time: 1000 + r.Int64N(1000), Standing: index.Standing{Status: job.Status(1 + r.IntN(3))}}
		c.Leased = c.Status == job.Consumed && r.IntN(4) == 0
		x.Apply(c)
		if c.Status != job.Pending && !c.Leased && id%7 != 0 && c.Time <= 1800 {
			all = append(all, index.Candidate{Changed: c.Time, Job: id})
		}
	}
	slices.SortFunc(all, index.Candidate.Compare)
	seventh := func(id job.ID) bool { return id%7 == 0 }
	var last index.Candidate
	for most := 100; len(all) > 0; most += 50 {
		s := index.NewSearch(last, 1800, 5000, most)
		for n := 0; x.Look(s, n, seventh); n++ {
		}
		got, rest := s.Found()
		want := all[:min(most, len(all))]
		if !slices.Equal(got, want) || (rest != 0) != (len(want) < most) {
			t.Fatalf("got %v, %d, want %v", got, rest, want)
		}
		for _, c := range got {
			if !x.Cullable(c) {
				t.Errorf("%v is not cullable", c)
			}
		}
		last, all = got[len(got)-1], all[len(want):]
	}
}

func TestVacantPagesTakeNoMemory(t *testing.T) {
	x := index.New("jobs")
	for id := range job.ID(2 * index.PageJobs) {
		x.Apply(&index.Change{Kind: job.Submit, Job: id, Seq: job.Seq(id + 1), Standing: index.Standing{Status: job.Deleted}})
	}
	for id := range job.ID(index.PageJobs) {
		x.Apply(&index.Change{Kind: job.Cull, Job: id, Seq: 9000 + job.Seq(id)})
	}
	x.Apply(&index.Change{Kind: job.Cull, Job: 5, Seq: 9000, At: 7})
	x.Vacate()
	if pages, full := x.Held(); pages != 2 || full != 2 {
		t.Errorf("got %d, %d", pages, full)
	}
	x.SetFilesWritten(5, index.Place{File: 7})
	x.Vacate()
	x = again(t, x)
	if pages, full := x.Held(); pages != 2 || full != 1 || x.Page(0).Version != 9000+index.PageJobs-1 {
		t.Errorf("got %d, %d, %+v", pages, full, x.Page(0))
	}
	x.Apply(&index.Change{Kind: job.Submit, Job: 3, Seq: 1, Standing: index.Standing{Status: job.Pending}})
	if x.First() != 3 {
		t.Errorf("got %v", x.First())
	}
}

// somePage returns an index with a page, and the page as it stands on disk.
func somePage() (*index.Index, []byte) {
	x := index.New("jobs")
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 50 {
		x.Apply(someChange(r, job.ID(r.IntN(index.PageJobs)), job.Seq(i+1)))
	}
	x.Apply(&index.Change{Job: 1, Seq: 60, MD5: [16]byte{1, 2}, Standing: index.Standing{Status: job.Pending}})
	data, _ := x.AppendPage(nil, 0)
	return x, data
}

func TestPagesThatDoNotVerifyAreRefused(t *testing.T) {
	x, data := somePage()
	load := func(queue string, data []byte, n int) error {
		y := index.New(queue)
		y.SetMediaTypes(x.MediaTypes())
		return y.LoadPage(data, n)
	}
	if err := load("jobs", data, 0); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"swapped":        load("jobs", data, 1),
		"of other queue": load("other", data, 0),
		"cut":            load("jobs", data[:len(data)-1], 0),
		"empty":          load("jobs", nil, 0),
		"unknown type":   index.New("jobs").LoadPage(data, 0),
	} {
		if err != index.ErrPage {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for i := range data {
		if i >= 16 && i%997 != 0 {
			continue
		}
		for _, bit := range []byte{1, 2, 4} {
			bad := bytes.Clone(data)
			bad[i] ^= bit
			if err := load("jobs", bad, 0); err != index.ErrPage {
				t.Errorf("octet %d: got %v", i, err)
			}
		}
	}
}

func TestTombstonesAreTakenOnce(t *testing.T) {
	x := index.New("jobs")
	x.Tombstones.SetLast(4)
	for seq := job.Seq(3); seq < 8; seq++ {
		x.Apply(&index.Change{Kind: job.Cull, Job: 9, Seq: seq, Time: int64(seq)})
	}
	x.Tombstones.Filed(1)
	if got := fmt.Sprint(x.Tombstones.Fresh()); got != "[{j000000000009 6 6} {j000000000009 7 7}]" {
		t.Errorf("got %s", got)
	}
}

func TestFilesAreBehindUntilTheyAreWritten(t *testing.T) {
	x := index.New("jobs")
	want := map[job.ID]index.Place{}
	r := rand.New(rand.NewPCG(1, 2))
	for at := journal.LSN(1); at < 20_000; at++ {
		id := job.ID(1 + r.IntN(5*index.PageJobs))
		if r.IntN(2) == 0 {
			c := &index.Change{Kind: job.Update, Job: id, Seq: job.Seq(at), At: at, Inline: r.IntN(2) == 0, Standing: index.Standing{Status: job.Pending}}
			x.Apply(c)
			to := want[id]
			if to.File = at; c.Inline {
				to.Payload = at
			}
			want[id] = to
		} else if j, _ := x.Job(id); r.IntN(4) == 0 && j.Behind {
			// Another record came while the files were written.
			if x.SetFilesWritten(id, index.Place{File: 1 << 40}) {
				t.Fatalf("%v is up to date", id)
			}
			want[id] = index.Place{File: want[id].File}
		} else {
			x.SetFilesWritten(id, want[id])
			delete(want, id)
		}
		if j, _ := x.Job(id); j.Journaled != want[id] || j.Behind != (want[id].File != 0) {
			t.Fatalf("%v: got %+v, want %+v", id, j, want[id])
		}
	}
	least := journal.LSN(math.MaxUint64)
	for _, p := range want {
		for _, at := range []journal.LSN{p.File, p.Payload} {
			if at != 0 {
				least = min(least, at)
			}
		}
	}
	if x.BehindOf(least) || !x.BehindOf(least+1) {
		t.Errorf("it is not known that record %d is the first without files", least)
	}
}

func TestHistoryIsOfTheLastEvents(t *testing.T) {
	var h index.History
	for seq := job.Seq(1); seq <= 10; seq++ {
		h.Note(seq, journal.LSN(10*seq))
	}
	h.Forget(35)
	if got, ok := h.After(3, 2); !ok || !slices.Equal(got, []journal.LSN{40, 50}) {
		t.Errorf("got %v, %v", got, ok)
	}
	for _, seq := range []job.Seq{2, 10} {
		if got, ok := h.After(seq, 5); ok {
			t.Errorf("after %d: got %v", seq, got)
		}
	}
	h.Note(20, 999)
	if got, ok := h.After(19, 5); !ok || !slices.Equal(got, []journal.LSN{999}) {
		t.Errorf("got %v, %v", got, ok)
	}
}

func TestDeadlinesThatHaveCome(t *testing.T) {
	var d index.Deadlines
	for id := job.ID(1); id <= 100; id++ {
		d.Set(id, int64(id*37%101))
	}
	d.Set(50, 0)
	d.Set(60, 1000)
	var got []job.ID
	d.Due(20, func(id job.ID) bool { got = append(got, id); return true })
	slices.Sort(got)
	var want []job.ID
	for id := job.ID(1); id <= 100; id++ {
		if ends, ok := d.At(id); ok && ends <= 20 {
			want = append(want, id)
		}
	}
	if !slices.Equal(got, want) || !d.Passed(20) || d.Passed(0) || len(d.Jobs()) != 99 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// FuzzPage reads whatever it gets, without falling, and writes what it could read
// as it was.
func FuzzPage(f *testing.F) {
	_, data := somePage()
	f.Add(data)
	f.Add(data[:32])
	x := index.New("jobs")
	x.Apply(&index.Change{Job: 1, Seq: 1, HoldEnds: 9, Standing: index.Standing{Status: job.Pending, Held: true}})
	data, _ = x.AppendPage(nil, 0)
	f.Add(data)
	x.Apply(&index.Change{Job: 2, Seq: 2, Key: 7, Standing: index.Standing{Status: job.Pending}})
	data, _ = x.AppendPage(nil, 0)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		x := index.New("jobs")
		x.SetMediaTypes(mediaTypes)
		if x.LoadPage(data, 0) != nil {
			return
		}
		x.SetPageChanged(0)
		once, _ := x.AppendPage(nil, 0)
		y := index.New("jobs")
		y.SetMediaTypes(mediaTypes)
		if err := y.LoadPage(once, 0); err != nil {
			t.Fatal(err)
		}
		y.SetPageChanged(0)
		if twice, _ := y.AppendPage(nil, 0); !bytes.Equal(once, twice) {
			t.Error("a page changes by being read and written")
		}
	})
}

func TestRestoredJobsSayWhatTheIndexKnows(t *testing.T) {
	at := time.UnixMicro(2e15).UTC()
	known := index.Job{FileLength: 1, Size: 4, Submitted: 1e15, Changed: 2e15, MediaType: "text/plain", SHA256: [32]byte{1}, MD5: [16]byte{2}}
	least := job.Job{ID: 7, Size: 4, MediaType: "text/plain", Submitted: time.UnixMicro(1e15).UTC(),
		Digests: []digest.Value{digest.NewValue(digest.SHA256, known.SHA256[:]), digest.NewValue(digest.MD5, known.MD5[:])},
		Extra:   anvl.Record{{Name: "note", Value: "job file lost, restored from the index"}}}
	for _, c := range []struct {
		is   index.Standing
		want func(*job.Job)
	}{
		{index.Standing{Status: job.Pending}, func(*job.Job) {}},
		{index.Standing{Status: job.Pending, Held: true}, func(j *job.Job) { j.Held = at }},
		{index.Standing{Status: job.Consumed}, func(j *job.Job) { j.Consumed = at }},
		{index.Standing{Status: job.Consumed, Leased: true}, func(j *job.Job) { j.Consumed, j.Lease.Ends = at, at }},
		{index.Standing{Status: job.Consumed, Outcome: job.Failed}, func(j *job.Job) { j.Consumed, j.Outcome, j.Finished = at, job.Failed, at }},
		{index.Standing{Status: job.Deleted}, func(j *job.Job) { j.Deleted = at }},
	} {
		k, want := known, least
		k.Standing = c.is
		want.Status = c.is.Status
		c.want(&want)
		got := k.Restored(7)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: got %+v\nwant %+v", c.is, got, want)
		}
		if s := index.StandingOf(&got); s != c.is {
			t.Errorf("stands at %+v, want %+v", s, c.is)
		}
	}
}

// TestFewJobsTakeLittleMemory adds jobs one by one, with MD5s and keys, and reads the
// page as it stands on disk after each.
func TestFewJobsTakeLittleMemory(t *testing.T) {
	x := index.New("jobs")
	for id := job.ID(1); id < 200; id++ {
		c := index.Change{Job: id, Seq: job.Seq(id), Time: int64(id), Size: int64(id), Key: job.KeySum(id), Standing: index.Standing{Status: job.Pending}}
		c.MD5[0] = byte(id)
		x.Apply(&c)
		if most := int64(96 * max(2, 4*id)); id <= 64 && x.Memory() > most {
			t.Fatalf("%d jobs take %d bytes, more than %d", id, x.Memory(), most)
		}
		y := again(t, x)
		x = y
		for n := job.ID(1); n <= id; n++ {
			j, ok := y.Job(n)
			if of, known := y.JobOf(job.KeySum(n)); !ok || j.Size != int64(n) || j.MD5[0] != byte(n) || !known || of != n {
				t.Fatalf("after %v: job %v is %+v with the key of %v", id, n, j, of)
			}
		}
		if _, ok := y.Job(id + 1); ok || y.Counts.Available != int64(id) || y.Claim(id+1) || y.Keys() != int(id) {
			t.Fatalf("after %v: another job is there, or %+v", id, y.Counts)
		}
	}
}

func TestProcessedJobsAreDueBySizeAndAge(t *testing.T) {
	hour := time.Hour.Microseconds()
	x := index.New("jobs")
	for n := range 5 {
		st := job.Consumed
		if n == 4 {
			st = job.Pending
		}
		c := index.Change{Kind: job.Consume, Job: job.ID(n + 1), Seq: job.Seq(n + 1), Time: int64(n+1) * hour, Standing: index.Standing{Status: st}}
		x.Apply(&c)
	}
	for _, c := range []struct{ size, age, now, before, most int64 }{
		{-1, 0, 100 * hour, 0, 0},
		{-1, 1, 100 * hour, 0, 0},
		{4, 0, 100 * hour, 0, 0},
		{3, 0, 100 * hour, math.MaxInt64, 1},
		{0, 0, 100 * hour, math.MaxInt64, 4},
		{0, 10, 100 * hour, 90*hour - 1, math.MaxInt},
		{4, 10, 100 * hour, 0, 0},
	} {
		before, most := x.DueAfter(c.size, c.age, c.now)
		if before != c.before || most != int(c.most) {
			t.Errorf("%+v: got %d, %d", c, before, most)
		}
	}
	// Nobody is looked for where nobody can be: an event at this very instant is too young.
	x.SetUnchanged(5 * hour)
	for now, want := range map[int64]int{15 * hour: 0, 15*hour + 1: math.MaxInt} {
		if _, most := x.DueAfter(0, 10, now); most != want {
			t.Errorf("at %d: got %d, want %d", now, most, want)
		}
	}
}

// The flow explains the depth, and pages of Latest together are the list backwards,
// whatever the bound of one page.
func TestFlowAndLatestAgreeWithTheRest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	x := index.New("jobs")
	for i := range 3000 {
		x.Apply(someChange(r, job.ID(r.IntN(5*index.PageJobs)), job.Seq(i+1)))
	}
	if got, want := int64(x.Flow.In)-int64(x.Flow.Out), x.Counts.Status[job.Pending]; got != want || x.Flow.Failed == 0 {
		t.Errorf("flow %+v, pending %d", x.Flow, want)
	}
	for _, f := range []index.Filter{{}, {Status: job.Pending}, {Outcome: job.Failed}, {Held: true}, {Status: job.Consumed, Outcome: job.Failed}} {
		f.Limit = 10_000
		want := x.IDs(f)
		slices.Reverse(want)
		for _, page := range []struct{ limit, most int }{{10_000, 10_000}, {7, 10_000}, {10_000, 50}, {3, 5}} {
			f.Limit = page.limit
			var got []job.ID
			for before := job.ID(0); ; {
				ids, reached := x.Latest(f, before, page.most)
				if len(ids) > page.limit || before != 0 && reached >= before {
					t.Fatalf("%+v %+v: %d jobs, from %v to %v", f, page, len(ids), before, reached)
				}
				if got = append(got, ids...); reached == 0 {
					break
				}
				before = reached
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v %+v: got %d jobs, want %d", f, page, len(got), len(want))
			}
		}
	}
}

// TestPagesHaveTheEndsOfHolds restarts with ends of holds, beside known MD5s and keys or
// not.
func TestPagesHaveTheEndsOfHolds(t *testing.T) {
	for parts := range 4 {
		md5, keyed := parts&1 != 0, parts&2 != 0
		x := index.New("jobs")
		held := index.Standing{Status: job.Pending, Held: true}
		put := func(id job.ID, st index.Standing, ends int64) {
			c := index.Change{Job: id, Seq: job.Seq(id), Time: int64(id), Standing: st, HoldEnds: ends}
			if md5 {
				c.MD5[0] = 1
			}
			if keyed {
				c.Key = job.KeySum(id)
			}
			x.Apply(&c)
		}
		put(1, held, 100)
		put(2, held, 0)
		put(3, index.Standing{Status: job.Pending}, 0)
		put(1023, held, 50)
		put(1500, held, 70) // on the next page
		put(5000, held, 60)
		put(5000, index.Standing{Status: job.Pending}, 0) // released
		put(3000, held, 0)
		pages := map[int]int{}
		for n := range x.Pages() {
			x.SetPageChanged(n)
			data, _ := x.AppendPage(nil, n)
			pages[n] = len(data)
		}
		if pages[0] != pages[1] || pages[0] != pages[2]+8*index.PageJobs || pages[2] != pages[4] {
			t.Errorf("sizes of pages: got %v", pages)
		}
		y := again(t, x)
		for id, want := range map[job.ID]int64{1: 100, 2: 0, 3: 0, 1023: 50, 1500: 70, 3000: 0, 5000: 0} {
			j, ok := y.Job(id)
			if ends, set := y.Holds.At(id); !ok || ends != want || set != (want != 0) || j.HoldEnds != want {
				t.Errorf("%v: got %d, %v, %+v want %d", id, ends, set, j, want)
			}
			if of, known := y.JobOf(job.KeySum(id)); known != keyed || keyed && of != id || (j.MD5[0] == 1) != md5 {
				t.Errorf("%v: got key of %v, MD5 %x, want key %v, MD5 %v", id, of, j.MD5, keyed, md5)
			}
		}
		if !y.Holds.Passed(50) || y.Holds.Passed(49) {
			t.Error("the first end is not 50")
		}
		if y.Counts.Held != 5 || y.Counts.Available != 2 {
			t.Errorf("got %+v", y.Counts)
		}
	}
}

func keyed(id job.ID, seq job.Seq, st job.Status, key string) *index.Change {
	return &index.Change{Kind: job.Update, Job: id, Seq: seq, Time: int64(seq), Standing: index.Standing{Status: st}, Key: job.SumOfKey("", key)}
}

func wantJob(t *testing.T, x *index.Index, key string, want job.ID) {
	t.Helper()
	if id, ok := x.JobOf(job.SumOfKey("", key)); id != want || ok != (want != 0) {
		t.Errorf("key %s: got %v, %v, want %v", key, id, ok, want)
	}
}

func TestKeysLastAsLongAsTheirJobs(t *testing.T) {
	x := index.New("jobs")
	wantJob(t, x, "a", 0)
	x.Apply(keyed(1, 1, job.Pending, "a"))
	x.Apply(keyed(2, 2, job.Pending, ""))
	x.Apply(keyed(3000, 3, job.Pending, "b"))
	x.Apply(keyed(1, 4, job.Consumed, "a"))
	x.Apply(keyed(1, 4, job.Consumed, "a")) // replayed
	wantJob(t, x, "a", 1)
	wantJob(t, x, "b", 3000)

	// A page with keys is read as it was written.
	y := index.New("jobs")
	for _, n := range []int{0, 2} {
		data, ok := x.AppendPage(nil, n)
		if !ok || len(data) > index.PageLimit {
			t.Fatalf("page %d: %d octets, %v", n, len(data), ok)
		}
		if err := y.LoadPage(data, n); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []*index.Index{x, y} {
		x.Apply(&index.Change{Kind: job.Cull, Job: 1, Seq: 5, Time: 5})
		wantJob(t, x, "a", 0)
		wantJob(t, x, "b", 3000)
		x.Apply(keyed(3001, 6, job.Pending, "a"))
		wantJob(t, x, "a", 3001)
		if x.Keys() != 2 {
			t.Errorf("got %d keys", x.Keys())
		}
		x.Free()
		wantJob(t, x, "b", 0)
	}
}

// TestOfTwoJobsWithAKeyTheFirstHasIt is about copies of job files by other hands.
func TestOfTwoJobsWithAKeyTheFirstHasIt(t *testing.T) {
	x := index.New("jobs")
	x.Apply(keyed(5, 1, job.Pending, "a"))
	x.Apply(keyed(4, 2, job.Pending, "a"))
	wantJob(t, x, "a", 5)
	x.Apply(&index.Change{Kind: job.Cull, Job: 4, Seq: 3, Time: 3})
	wantJob(t, x, "a", 5)
}

func TestJobsOfConsumersWithKeysAreFound(t *testing.T) {
	x := index.New("jobs")
	for id, at := range map[job.ID]int64{1: 10, 2: 20, 3: 30, 5000: 5} {
		x.Apply(&index.Change{Kind: job.Consume, Job: id, Seq: job.Seq(at), Time: at, Standing: index.Standing{Status: job.Consumed, Keyed: id != 3}})
	}
	if got := fmt.Sprint(x.Keyed(20)); got != "[j000000000002]" {
		t.Errorf("got %s", got)
	}
	data, _ := x.AppendPage(nil, 0)
	y := index.New("jobs")
	if err := y.LoadPage(data, 0); err != nil || len(y.Keyed(0)) != 2 {
		t.Errorf("got %v, %v", y.Keyed(0), err)
	}
}

// TestAKeyTakesFewBytes measures the map on its way, emptiest after each doubling, with
// the eight bytes of the page.
func TestAKeyTakesFewBytes(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	x, before := index.New("jobs"), heap()
	for n, last := 1, long.N(250_000, 1_000_000); n <= last; n++ {
		x.Apply(keyed(job.ID(n), job.Seq(n), job.Pending, strconv.Itoa(n)))
		if n >= 100_000 && n%10_000 == 0 {
			if each := float64(heap()-before) / float64(n); each >= 64 { // slots are outside of the heap
				t.Errorf("%d keys take %.1f bytes each", n, each)
			}
		}
	}
	runtime.KeepAlive(x)
}
