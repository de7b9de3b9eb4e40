package index_test

import (
	"math"
	"testing"
	"time"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

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
