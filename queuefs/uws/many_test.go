package uws_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
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

// Eight clients make jobs and look at those of all, and eight workers do them.
func TestEveryPhaseOfManyJobsIsLegal(t *testing.T) {
	total := long.N(150, 400)
	const hands = 8
	w := newWorld(t, "")
	var (
		mu            sync.Mutex
		jobs          []*seenJob
		making, doing sync.WaitGroup
	)
	working, endWork := context.WithCancel(context.Background())
	for i := range hands {
		doing.Go(func() { manyWork(working, w, rand.New(rand.NewPCG(1, uint64(i)))) })
		random := rand.New(rand.NewPCG(2, uint64(i)))
		making.Go(func() {
			for n := i; n < total; n += hands {
				form := "n=" + strconv.Itoa(n)
				started := random.IntN(3) == 0
				if started {
					form += "&PHASE=RUN"
				}
				j := &seenJob{n: n, phase: "PENDING"}
				_, j.url, _ = w.do("POST", "async", form)
				mu.Lock()
				jobs = append(jobs, j)
				mu.Unlock()
				if !started {
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
				for range 5 {
					mu.Lock()
					other := jobs[random.IntN(len(jobs))]
					mu.Unlock()
					other.look(w)
				}
			}
		})
	}
	making.Wait()
	for _, j := range jobs {
		for strings.Contains(follows[j.look(w)], " ") { // not at its end
			w.do("GET", j.url+"?WAIT=5", "")
		}
		_, _, got := w.do("GET", j.url+"/results/result", "")
		if want := manyResult(strconv.Itoa(j.n)); j.phase == "COMPLETED" && got != want {
			t.Errorf("job %d: got a result of %d bytes, want %d", j.n, len(got), len(want))
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
