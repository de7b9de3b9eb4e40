package index_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

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
