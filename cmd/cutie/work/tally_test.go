package work

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Sums come when there is news, and in the end.
func TestSummaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		w := &Worker{Queue: "jobs", Summary: time.Minute, Warn: func(format string, a ...any) { got = append(got, fmt.Sprintf(format, a...)) }}
		done := make(chan struct{})
		go w.summarize(done)
		w.tally.add(completed)
		w.tally.add(failed)
		time.Sleep(150 * time.Second)
		w.tally.add(lost)
		w.tally.add(retried)
		w.tally.add(retried)
		time.Sleep(time.Minute)
		close(done)
		synctest.Wait()
		want := []string{"jobs: 1 completed, 1 failed, 0 given back so far", "jobs: 1 completed, 1 failed, 0 given back, 2 to be tried again, 1 aborted or lost so far",
			"jobs: 1 completed, 1 failed, 0 given back, 2 to be tried again, 1 aborted or lost"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}
