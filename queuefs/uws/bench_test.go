package uws_test

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkAChangeAnswersAllWhoWait is from a change of a job to the last
// answer to those who waited for it, without a network.
func BenchmarkAChangeAnswersAllWhoWait(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b, "")
			var total, cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				job := w.create("a=1")
				var waiting sync.WaitGroup
				for range n {
					waiting.Go(func() {
						r := httptest.NewRequest("GET", strings.TrimPrefix(job, w.srv.URL)+"?WAIT=-1", nil)
						a := httptest.NewRecorder()
						if w.h.ServeHTTP(a, r); !strings.Contains(a.Body.String(), "ABORTED") {
							b.Errorf("got %d %s", a.Code, a.Body)
						}
					})
				}
				for w.h.Waiting() < n {
					runtime.Gosched()
				}
				b.StartTimer()
				begun, busy := time.Now(), processor(b)
				w.want(303, "POST", job+"/phase", "PHASE=ABORT")
				waiting.Wait()
				total, cpu = total+time.Since(begun), cpu+processor(b)-busy
			}
			b.ReportMetric(total.Seconds()*1000/float64(b.N), "ms/change")
			b.ReportMetric(cpu.Seconds()*1e6/float64(b.N*n), "cpu-µs/answer")
		})
	}
}

// processor returns the processor time of this process.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
