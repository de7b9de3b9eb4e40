package index_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
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

func TestTombstonesReadAsWritten(t *testing.T) {
	want := index.Tombstone{Job: 1, Culled: 2, Seq: 3}
	b := want.Append(nil)
	if got, ok := index.ParseTombstone(b); got != want || !ok || len(b) != index.TombstoneSize {
		t.Errorf("got %+v, %v", got, ok)
	}
	for i := range 28 {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if got, ok := index.ParseTombstone(bad); ok {
			t.Errorf("octet %d: got %+v", i, got)
		}
	}
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
