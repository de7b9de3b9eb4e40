package index_test

import (
	"reflect"
	"testing"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

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
