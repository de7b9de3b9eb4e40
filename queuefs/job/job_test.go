package job_test

import (
	"errors"
	"testing"

	"cutie/queuefs/job"
)

func TestWordsReadAsWritten(t *testing.T) {
	for _, id := range []job.ID{1, 42, job.MaxID} {
		if got, err := job.ParseID(id.String()); got != id || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, id)
		}
	}
	for s := job.Pending; s <= job.Deleted; s++ {
		if got, err := job.ParseStatus(s.String()); got != s || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, s)
		}
	}
	for k := job.Submit; k <= job.Phase; k++ {
		if got, err := job.ParseKind(k.String()); got != k || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, k)
		}
	}
	for o := job.Completed; o <= job.Aborted; o++ {
		if got, err := job.ParseOutcome(o.String()); got != o || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, o)
		}
	}
	for _, bad := range []string{"", "j", "j000000000000", "J000000000001", "j00000000001", "j00000000000x", "Pending", "Status(0)"} {
		_, e1 := job.ParseID(bad)
		_, e2 := job.ParseStatus(bad)
		_, e3 := job.ParseKind(bad)
		_, e4 := job.ParseOutcome(bad)
		for _, err := range []error{e1, e2, e3, e4} {
			if !errors.Is(err, job.ErrBadName) {
				t.Errorf("%q: got %v", bad, err)
			}
		}
	}
}
