package callback_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/callback"
	"cutie/queuefs"
)

// story is what the tests of steps tell: it lets the receiver fail now and
// then, and lets the journal go.
func (h *home) story(r *receiver, step func(error)) {
	filler := h.queue("filler", "")
	q := h.queue("jobs", r.URL)
	tick := func() {
		err := h.sender.Tick(ctx)
		h.sender.Wait()
		h.clock.advance(2 * time.Hour)
		step(err)
	}
	for range 4 {
		h.submit(q, "x")
	}
	tick()
	h.consume(q)
	r.fails(1)
	tick()
	step(h.svc.Checkpoint(ctx))
	tick()
	h.submit(q, "x")
	h.requeue(q, 1)
	r.fails(1)
	tick()
	h.fill(filler)
	step(h.svc.Checkpoint(ctx))
	tick()
	tick()
	step(h.svc.Checkpoint(ctx))
}

// wantAll fails the test unless the last change of each job is among the
// deliveries.
func (h *home) wantAll(got []delivery, where string) {
	h.t.Helper()
	told := map[string]bool{}
	for _, d := range got {
		told[d.String()] = true
	}
	q := h.queue("jobs", "")
	for _, id := range q.IDs(queuefs.ListOptions{}) {
		j, err := q.Job(id)
		if err != nil {
			h.t.Fatal(err)
		}
		kind := map[bool]string{true: "submit", false: "requeue"}[j.Requeues == 0]
		if j.Status == queuefs.Consumed {
			kind = "consume"
		}
		if want := fmt.Sprint("jobs ", j.Seq, " ", kind, " ", id, " ", j.Status); !told[want] {
			h.t.Errorf("%s: nobody was told %q", where, want)
		}
	}
}

// wantOrder fails the test unless the numbers of the deliveries grow; that of
// an attempt may come again.
func wantOrder(t *testing.T, got []delivery, where string) {
	t.Helper()
	last := 0
	for _, d := range got {
		seq, err := strconv.Atoi(d.header.Get("Cutie-Sequence"))
		if err != nil || seq < last {
			t.Errorf("%s: %s after number %d", where, d, last)
		}
		last = seq
	}
}

func TestKillAtAnyStepLosesNothing(t *testing.T) {
	type kill struct {
		at, dir string
		told    int
	}
	var kills []kill
	var h *home
	r := newReceiver(t)
	// A refused attempt does not count as told.
	var acknowledged []delivery
	// What stands before a step is what the one before it left.
	fault := func(step string, do func() error) error {
		if h == nil {
			return do()
		}
		kills = append(kills, kill{"before " + step, copyHome(t, h.dir), len(r.seen())})
		return do()
	}
	h = newHome(t, callback.Options{Fault: fault})
	h.story(r, func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	if len(kills) < 15 {
		t.Fatalf("only %d steps", len(kills))
	}
	acknowledged = r.seen()
	wantOrder(t, acknowledged, "without a kill")
	h.wantAll(succeeded(acknowledged), "without a kill")
	for _, k := range kills {
		if _, err := os.Stat(filepath.Join(k.dir, "queues/jobs/queue-info.txt")); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r.received()
		c := h.elsewhere(k.dir)
		c.clock.advance(3 * time.Hour)
		c.tick()
		after := r.seen()
		wantOrder(t, after, k.at)
		c.wantAll(append(succeeded(acknowledged[:k.told]), after...), k.at)
		if got := c.reported(); len(got) > 0 {
			t.Errorf("%s: got reports %q", k.at, got)
		}
		if got := c.files(); strings.Contains(got, "cutie-tmp") {
			t.Errorf("%s: left behind %s", k.at, got)
		}
		c.close()
	}
}

// seen returns what came so far.
func (r *receiver) seen() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]delivery(nil), r.got...)
}

// succeeded leaves out attempts that were made again: those before another one
// of the same delivery.
func succeeded(got []delivery) (list []delivery) {
	for i, d := range got {
		if i+1 < len(got) && got[i+1].header.Get("Cutie-Delivery") == d.header.Get("Cutie-Delivery") {
			continue
		}
		list = append(list, d)
	}
	return list
}

func TestStepThatFailsIsMadeUpFor(t *testing.T) {
	errStep := errors.New("step failed")
	for _, happened := range []bool{false, true} {
		for n := 1; ; n++ {
			where := fmt.Sprintf("step %d, happened: %v", n, happened)
			count, failed := -1, 0 // until it is open
			fault := func(step string, do func() error) error {
				if count >= 0 {
					count++
				}
				if count != n {
					return do()
				}
				if happened {
					if err := do(); err != nil {
						return err
					}
				}
				where += " " + step
				return errStep
			}
			h, r := newHome(t, callback.Options{Fault: fault}), newReceiver(t)
			h.queue("filler", "")
			h.queue("jobs", r.URL)
			count = 0
			h.story(r, func(err error) {
				if err != nil && !errors.Is(err, errStep) {
					t.Fatalf("%s: %v", where, err)
				} else if err != nil {
					failed++
				}
			})
			if failed > 1 {
				t.Errorf("%s: %d calls failed", where, failed)
			}
			h.wantAll(succeeded(r.seen()), where)
			wantOrder(t, r.seen(), where)
			r.received()
			steps := count
			count = -1
			h.close()
			h.open()
			h.tick()
			r.want(t)
			h.close()
			if steps < n {
				break
			}
		}
	}
}
