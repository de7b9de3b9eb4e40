package dashboard_test

import (
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

// onePreview shows the same beginning of each payload.
type onePreview struct{}

func (onePreview) Queue(string) *dashboard.QueueAside { return nil }

func (onePreview) Job(string, queuefs.JobID, string) *dashboard.JobAside {
	return &dashboard.JobAside{Preview: &dashboard.Preview{Text: "hello"}}
}

// BenchmarkJobPage writes the page that a client without a wish for a form gets for each
// submission.
func BenchmarkJobPage(b *testing.B) {
	j := statetest.PlainJob()
	pages, now := dashboard.Pages{Asides: onePreview{}}, time.Now()
	var page []byte
	b.ReportAllocs()
	for b.Loop() {
		d := state.OfJob(statetest.Base, &j)
		page = pages.State(page[:0], &d, rest.View{Now: now})
	}
	b.SetBytes(int64(len(page)))
}
