package hub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cutie/publisher/hub"
)

// story is what the tests of steps tell. Every line of it is to reach the
// subscriber, and each step is told of when it is done.
func (h *house) story(j *journal, r *receiver, step func(error)) {
	tick := func() {
		h.clock.advance(2 * time.Hour)
		err := h.hub.Tick(ctx)
		h.hub.Wait()
		step(err)
	}
	for status := 0; status != 202; {
		status, _ = h.ask("subscribe", topic, r.URL, "secret", "s", "lease_seconds", "2592000")
	}
	step(nil)
	j.add(topic, "1")
	tick()
	j.add(topic, "2", "3", "4", "5")
	r.answers(func(n int) (int, string) { return map[bool]int{true: 503, false: 204}[n == 2], "" })
	tick()
	j.add(topic, "6")
	tick()
	for status := 0; status != 202; {
		status, _ = h.ask("subscribe", topic, r.URL, "secret", "t", "lease_seconds", "2592000")
	}
	j.add(topic, "7")
	tick()
	tick()
	tick()
}

// lines returns the lines that were acknowledged, in their order.
func (r *receiver) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for i, d := range r.got {
		if i+1 < len(r.got) && strings.HasPrefix(r.got[i+1].body, strings.SplitAfter(d.body, "\n")[0]) {
			continue // it was refused, and came again
		}
		all = append(all, strings.Split(d.body, "\n")...)
	}
	return all
}

// A kill at any step neither loses a line nor changes the order; what comes
// twice was delivered since the last save.
func TestKillAtAnyStepLosesNothing(t *testing.T) {
	type kill struct {
		at, dir string
	}
	var kills []kill
	j, r := newJournal(topic), newReceiver(t)
	var h *house
	fault := func(step string, do func() error) error {
		if h != nil {
			kills = append(kills, kill{step, copyDir(t, h.path)})
		}
		return do()
	}
	var accepted int
	h = newHouse(t, hub.Options{Source: j}, fault)
	h.story(j, r, func(err error) {
		must(t, err)
		if accepted == 0 {
			accepted = len(kills)
		}
	})
	if len(kills) < 12 || accepted == 0 {
		t.Fatalf("only %d steps", len(kills))
	}
	for i, k := range kills {
		if i < accepted {
			continue // nothing was promised yet
		}
		where := fmt.Sprintf("kill %d before %s", i, k.at)
		r.answers(nil)
		e := &house{TB: t, path: k.dir, opts: h.opts, clock: h.clock}
		e.open(nil)
		for range 4 {
			e.later(2 * time.Hour)
		}
		got := r.lines()
		if len(got) == 0 {
			// All was delivered and saved.
			if i < len(kills)-6 {
				t.Errorf("%s: nothing is left to be told", where)
			}
		} else if want := strings.Split("1 2 3 4 5 6 7", " "); strings.Join(got, " ") != strings.Join(want[len(want)-len(got):], " ") {
			t.Errorf("%s: got %q, want the end of %q", where, got, want)
		}
		e.close()
	}
}

func TestStepThatFailsIsMadeUpFor(t *testing.T) {
	errStep := errors.New("step failed")
	for _, happened := range []bool{false, true} {
		for n := 1; ; n++ {
			count, where := -1, fmt.Sprintf("step %d, happened: %v", n, happened)
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
			j, r := newJournal(topic), newReceiver(t)
			h := newHouse(t, hub.Options{Source: j}, fault)
			count = 0
			failed := 0
			h.story(j, r, func(err error) {
				if err != nil && !errors.Is(err, errStep) {
					t.Fatalf("%s: %v", where, err)
				} else if err != nil {
					failed++
				}
			})
			if failed > 1 {
				t.Errorf("%s: %d calls failed", where, failed)
			}
			steps := count
			count = -1
			r.answers(nil)
			h.close()
			h.open(nil)
			h.later(time.Hour)
			want(t, r.bodies(), nil)
			h.wantStates(topic + " verified=true signed=true external=false failures=0 expires in 715h0m0s\n")
			h.close()
			if n >= steps {
				break
			}
		}
	}
}
