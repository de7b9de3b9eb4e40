package job_test

import (
	"os"
	"testing"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
)

// TestJobFileKeepsItsForm compares job files with files of former versions, octet by
// octet: the digest of a job file is published.
func TestJobFileKeepsItsForm(t *testing.T) {
	at := func(n int) time.Time { return time.UnixMicro(1_700_000_000_000_001 + int64(n)*1e6).UTC() }
	var sum [32]byte
	for i := range sum {
		sum[i] = byte(i)
	}
	full := job.Job{ID: 42, Status: job.Consumed, Seq: 77, Filename: "a:b %\tü", MediaType: "text/plain", Submitter: "curl/8",
		Sidecar: "line one\n  line: two\n\n# three\n", Size: 12345, Batch: "b000000000041-3", Owner: "ann",
		Digests:   []digest.Value{digest.NewValue(digest.SHA256, sum[:]), digest.NewValue(digest.MD5, sum[:16])},
		Submitted: at(0), Requeued: at(1), Requeues: 2, Updated: at(2), Consumed: at(3), Consumer: "worker", Attempts: 3,
		Lease: job.Lease{Ends: at(4), Key: "00ff"}, Deleted: at(5), Held: at(6), HeldFor: "because", Outcome: job.Failed,
		Finished: at(7), Message: "one\ntwo", Transient: true, Destruction: at(8),
		Results: []job.Result{{Name: "out", MediaType: "text/csv; header=present", Size: 9, SHA256: sum}, {Name: "log"}},
		Extra:   anvl.Record{{Name: "Who", Value: "me"}, {Name: job.RequeuedAs, Value: "j000000000050"}}}
	waits := job.Job{ID: 7, Status: job.Pending, Seq: 9, Size: 5, Submitted: at(0), Requeued: at(3), Requeues: 1, Attempts: 1, Held: at(3), HeldFor: job.ForRetry,
		HeldUntil: at(60), Message: "no route to host"}
	for name, j := range map[string]job.Job{"full": full, "waits": waits, "least": {ID: 1, Status: job.Pending, Seq: 1, Submitted: at(0)}} {
		want, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := j.AppendText(nil); string(got) != string(want) {
			t.Errorf("%s: got %s\nwant %s", name, got, want)
		}
		if got := job.HoldEnds(want); !got.Equal(j.HeldUntil) {
			t.Errorf("%s: got a hold until %v want %v", name, got, j.HeldUntil)
		}
		if got, err := job.Parse(want); err != nil || !got.HeldUntil.Equal(j.HeldUntil) {
			t.Errorf("%s: got %v, %v want %v", name, got.HeldUntil, err, j.HeldUntil)
		}
	}
}
