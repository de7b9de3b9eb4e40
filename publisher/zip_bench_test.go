package publisher_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs/job"
)

// BenchmarkChangeDumpBesideZip packs the closed list of 50,000 submissions of
// 1 KiB, stored and deflated, and lets zip pack the same files before and
// after it. The ratio is of the speeds: 1 is as fast as zip.
func BenchmarkChangeDumpBesideZip(b *testing.B) {
	if _, err := exec.LookPath("zip"); err != nil {
		b.Skip("zip is not installed")
	}
	const jobs, size = 50_000, 1024
	for _, kind := range []struct{ mediaType, level string }{{"application/octet-stream", "-0"}, {"text/plain", "-1"}} {
		b.Run("zip "+kind.level, func(b *testing.B) {
			var ours, theirs, oursCPU, theirsCPU time.Duration
			for range b.N {
				s := newSource(b, publisher.Options{}, "jobs")
				q := s.queue("jobs")
				words := rand.New(rand.NewPCG(1, 2))
				for range jobs / 500 {
					sub := q.Begin()
					for range 500 {
						d, err := sub.Add(job.Meta{MediaType: kind.mediaType})
						must(b, err)
						var text []byte
						for len(text) < size {
							text = fmt.Appendf(text, "word%d ", words.IntN(5000))
						}
						_, err = d.Write(text[:size])
						must(b, err)
					}
					_, err := sub.Commit(context.Background())
					must(b, err)
				}
				s.submit(q, "closes the list")
				must(b, s.svc.Checkpoint(context.Background()))
				zip := func() {
					start := time.Now()
					cmd := exec.Command("zip", kind.level, "-q", "-r", filepath.Join(s.newDir(), "out.zip"), ".")
					cmd.Dir = filepath.Join(s.dir, "queues", "jobs", "payload")
					out, err := cmd.CombinedOutput()
					if err != nil {
						b.Fatalf("%v: %s", err, out)
					}
					theirs += time.Since(start) / 2
					theirsCPU += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()) / 2
				}
				zip()
				url := s.doc(q, "pending", "changedump-000000000001.zip")
				start, cpu := time.Now(), cpuTime(b)
				for s.request(url, "identity", "").status != 200 {
					must(b, s.pub.Tick(context.Background()))
				}
				ours += time.Since(start)
				oursCPU += cpuTime(b) - cpu
				zip()
				s.close()
			}
			b.ReportMetric(float64(theirs)/float64(ours), "ratio")
			b.ReportMetric(ours.Seconds()/float64(b.N), "s/package")
			b.ReportMetric(theirs.Seconds()/float64(b.N), "s/zip")
			b.ReportMetric(float64(theirsCPU)/float64(oursCPU), "cpu-ratio")
		})
	}
}

// cpuTime returns the processor time of this process, which other load on the
// machine does not make longer.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
