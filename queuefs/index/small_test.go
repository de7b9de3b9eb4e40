package index_test

import (
	"testing"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// TestFewJobsTakeLittleMemory adds jobs one by one, with MD5s and keys, and reads the
// page as it stands on disk after each.
func TestFewJobsTakeLittleMemory(t *testing.T) {
	x := index.New("jobs")
	for id := job.ID(1); id < 200; id++ {
		c := index.Change{Job: id, Seq: job.Seq(id), Time: int64(id), Size: int64(id), Key: job.KeySum(id), Standing: index.Standing{Status: job.Pending}}
		c.MD5[0] = byte(id)
		x.Apply(&c)
		if most := int64(96 * max(2, 4*id)); id <= 64 && x.Memory() > most {
			t.Fatalf("%d jobs take %d bytes, more than %d", id, x.Memory(), most)
		}
		y := again(t, x)
		x = y
		for n := job.ID(1); n <= id; n++ {
			j, ok := y.Job(n)
			if of, known := y.JobOf(job.KeySum(n)); !ok || j.Size != int64(n) || j.MD5[0] != byte(n) || !known || of != n {
				t.Fatalf("after %v: job %v is %+v with the key of %v", id, n, j, of)
			}
		}
		if _, ok := y.Job(id + 1); ok || y.Counts.Available != int64(id) || y.Claim(id+1) || y.Keys() != int(id) {
			t.Fatalf("after %v: another job is there, or %+v", id, y.Counts)
		}
	}
}
