package index_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/testdata/long"
)

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

func TestPagesHaveKeysBesideMD5s(t *testing.T) {
	x := index.New("jobs")
	c := keyed(1, 1, job.Pending, "a")
	c.MD5[3] = 4
	x.Apply(c)
	data, _ := x.AppendPage(nil, 0)
	y := index.New("jobs")
	if err := y.LoadPage(data, 0); err != nil {
		t.Fatal(err)
	}
	wantJob(t, y, "a", 1)
	if j, _ := y.Job(1); j.MD5 != c.MD5 {
		t.Errorf("got MD5 %x", j.MD5)
	}
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
