package index_test

import (
	"testing"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

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
