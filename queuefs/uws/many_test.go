package uws_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/testdata/long"
)

// follows are the phases that may be seen after one, some of those between
// being missed. From EXECUTING back to QUEUED it goes when a worker gives a job
// back.
var follows = map[string]string{
	"PENDING":   "PENDING QUEUED EXECUTING COMPLETED ERROR ABORTED",
	"QUEUED":    "QUEUED EXECUTING COMPLETED ERROR ABORTED",
	"EXECUTING": "EXECUTING QUEUED COMPLETED ERROR ABORTED",
	"COMPLETED": "COMPLETED",
	"ERROR":     "ERROR",
	"ABORTED":   "ABORTED",
}

// A seenJob is what its client and those who look on know of a job.
type seenJob struct {
	url   string
	n     int
	mu    sync.Mutex
	phase string // last seen
	abort bool   // its client has aborted it
}

// look asks for the phase and compares it with the one before.
func (j *seenJob) look(w *world) (phase string) {
	j.mu.Lock() // answers that cross would say nothing
	defer j.mu.Unlock()
	_, _, phase = w.do("GET", j.url+"/phase", "")
	if !strings.Contains(" "+follows[j.phase]+" ", " "+phase+" ") {
		w.t.Errorf("job %d: %q after %q", j.n, phase, j.phase)
	}
	j.phase = phase
	return phase
}

// Eight clients make jobs, eight workers do them, four look on.
// CUTIE_UWS_JOBS is how many jobs, by default 150, or 400 if tests are to be long.
func TestEveryPhaseOfManyJobsIsLegal(t *testing.T) {
	total := long.N(150, 400)
	if s := os.Getenv("CUTIE_UWS_JOBS"); s != "" {
		var err error
		if total, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	const clients, workers, lookers = 8, 8, 4
	w := newWorld(t, "")
	var (
		mu     sync.Mutex
		jobs   []*seenJob
		looks  atomic.Int64
		making sync.WaitGroup
		doing  sync.WaitGroup
		looked sync.WaitGroup
	)
	begun := time.Now()
	working, endWork := context.WithCancel(context.Background())
	for i := range workers {
		doing.Go(func() { manyWork(working, w, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	looking, endLook := context.WithCancel(context.Background())
	for i := range lookers {
		random := rand.New(rand.NewPCG(2, uint64(i)))
		looked.Go(func() {
			for looking.Err() == nil {
				mu.Lock()
				var j *seenJob
				if n := len(jobs); n > 0 {
					j = jobs[max(0, n-1-random.IntN(200))]
				}
				mu.Unlock()
				if j != nil {
					j.look(w)
					looks.Add(1)
				}
			}
		})
	}
	for c := range clients {
		random := rand.New(rand.NewPCG(3, uint64(c)))
		making.Go(func() {
			for n := c; n < total; n += clients {
				j := &seenJob{n: n, phase: "PENDING"}
				form := url.Values{"n": {strconv.Itoa(n)}}
				at := random.IntN(3) == 0
				if at {
					form.Set("PHASE", "RUN")
				}
				_, j.url, _ = w.do("POST", "async", form.Encode())
				mu.Lock()
				jobs = append(jobs, j)
				mu.Unlock()
				if !at {
					if status, _, text := w.do("POST", j.url+"/phase", "PHASE=RUN"); status != 303 {
						t.Errorf("run: got %d %s", status, text)
					}
				}
				if p := j.look(w); p == "PENDING" {
					t.Errorf("job %d is PENDING after RUN", n)
				}
				if random.IntN(20) == 0 {
					if status, _, text := w.do("POST", j.url+"/phase", "PHASE=ABORT"); status != 303 {
						t.Errorf("abort: got %d %s", status, text)
					}
					j.abort = true
					if p := j.look(w); p == "QUEUED" || p == "EXECUTING" {
						t.Errorf("job %d is %s after ABORT", n, p)
					}
				}
			}
		})
	}
	making.Wait()
	endLook()
	looked.Wait()
	counts := map[string]int{}
	for _, j := range jobs {
		for strings.Contains(follows[j.look(w)], " ") { // not at its end
			w.do("GET", j.url+"?WAIT=5", "")
		}
		counts[j.phase]++
		_, _, got := w.do("GET", j.url+"/results/result", "")
		if want := manyResult(strconv.Itoa(j.n)); j.phase == "COMPLETED" && got != want {
			t.Errorf("job %d: got a result of %d octets, want %d", j.n, len(got), len(want))
		}
		if j.phase == "ABORTED" && !j.abort {
			t.Errorf("job %d was aborted by nobody", j.n)
		}
	}
	endWork()
	doing.Wait()
	if got := len(ids(w.get("async"))); got != total || len(jobs) != total {
		t.Errorf("got %d jobs in the list and %d made, want %d", got, len(jobs), total)
	}
	t.Logf("%d jobs in %v: %v, %d looks", total, time.Since(begun).Round(time.Millisecond), counts, looks.Load())
}

func manyResult(n string) string { return strings.Repeat("result of "+n+"\n", 500) }

// manyWork does jobs: one in twenty fails, one in twenty is given back.
func manyWork(ctx context.Context, w *world, random *rand.Rand) {
	for {
		taken, err := w.q.TakeWait(ctx, queuefs.Take{By: "worker", Lease: time.Hour})
		if err != nil {
			if !errors.Is(err, queuefs.ErrEmpty) {
				w.t.Error(err)
			}
			return
		}
		job := taken[0]
		n := strings.TrimPrefix(job.Sidecar, "n=")
		switch random.IntN(20) {
		case 0:
			_, err = w.q.Return(context.Background(), job.ID, job.Token, "another time")
		case 1:
			_, err = w.q.Conclude(context.Background(), job.ID, job.Token, queuefs.Conclusion{Outcome: queuefs.Failed, Message: "no"})
		default:
			if err = manyGive(w, job, manyResult(n)); err == nil {
				_, err = w.q.Conclude(context.Background(), job.ID, job.Token, queuefs.Conclusion{Outcome: queuefs.Completed})
			}
		}
		if err != nil && !errors.Is(err, queuefs.ErrLease) { // its client has aborted it
			w.t.Error(fmt.Errorf("%v: %w", job.ID, err))
		}
	}
}

func manyGive(w *world, job queuefs.Taken, text string) error {
	d, err := w.q.NewResult(context.Background(), job.ID, job.Token, "result", "text/plain", nil)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(d, text); err != nil {
		return err
	}
	_, err = d.Commit(context.Background())
	return err
}
