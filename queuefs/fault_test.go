package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/testdata/long"
)

var errInjected = errors.New("injected")

// smallSegment is the smallest that a journal takes.
const smallSegment = 64 << 10

// newScenario prepares a scenario in a fresh copy of an empty home.
func newScenario(t testing.TB, f *faults) *scenario {
	t.Helper()
	dir := filepath.Join(fastDir(t), "home")
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	// Behind makes some operations write the files of others.
	c := &scenario{t: t, dir: dir, fault: f, f: newFollower(t), o: queuefs.Options{Segment: smallSegment, Behind: 150 << 10, Fault: f.step}}
	now := clock()
	c.o.Now = func() time.Time { return now().Add(time.Duration(c.skew.Load())) }
	return c
}

// stride thins tests out that try every step, unless they are to be long. Different
// ways to fail begin at different steps.
func stride() int { return long.N(7, 1) }

// TestEveryStepFails fails each step of the scenario in turn.
func TestEveryStepFails(t *testing.T) {
	failEveryStep(t, stride(), (*scenario).run)
}

// failEveryStep fails each step of what play does in turn, or each stride'th,
// in each way, and compares the whole state after opening the home again.
func failEveryStep(t *testing.T, stride int, play func(*scenario)) {
	for i, way := range []struct {
		name        string
		err         error
		done, stops bool
	}{
		{"fails", errInjected, false, false},
		{"fails but happened", errInjected, true, false},
		{"no space", syscall.ENOSPC, false, false},
		{"no space but happened", syscall.ENOSPC, true, false},
		{"machine stops before", errInjected, false, true},
		{"machine stops behind", errInjected, true, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			for at := 1 + i%stride; ; at += stride {
				f := newFaults(at, way.err)
				f.done, f.stops = way.done, way.stops
				fired := false
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					c := newScenario(t, f)
					defer func() {
						if t.Failed() {
							t.Logf("step %d failed: %s", at, f.name)
						}
						os.RemoveAll(c.dir)
					}()
					play(c)
					fired = f.fired()
					v := verifier{TB: t, dir: c.dir, o: c.o, f: c.f}
					v.verify(c.outcomes()...)
				})
				if !fired {
					if at <= stride {
						t.Error("no step was taken")
					}
					break
				}
			}
		})
	}
}
