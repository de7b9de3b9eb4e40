package bucket_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects/objectstest"
)

// A script opens a journal, adds, releases, closes and begins again, up to an error. It
// returns the records acknowledged, and those tried.
func script(m *objectstest.Memory) (acknowledged, tried []string, released journal.LSN, err error) {
	for round := range 2 {
		l, err := open(m, bucket.Options{Patience: time.Millisecond})
		if err != nil {
			return acknowledged, tried, released, err
		}
		for n := range 4 {
			text := fmt.Sprint(round, ":", n)
			tried = append(tried, text)
			if err := put(l, text); err != nil {
				return acknowledged, tried, released, err
			}
			acknowledged = append(acknowledged, text)
			if n == 1 {
				before := l.Stats().Next - 1
				if err := l.Release(before); err != nil {
					return acknowledged, tried, before, err
				}
				released = before
				l.Sweep()
			}
		}
		if err := l.Close(); err != nil {
			return acknowledged, tried, released, err
		}
	}
	return acknowledged, tried, released, nil
}

// check opens the journal of a script without faults: it has all that was acknowledged
// and not released, in order, and beyond that at most the record that was tried last.
func check(m *objectstest.Memory, acknowledged, tried []string, released journal.LSN) error {
	m.Fault = nil
	for range 2 {
		l, err := open(m, bucket.Options{})
		if err != nil {
			return err
		}
		got, err := all(l)
		if err != nil {
			return err
		}
		if l.Stats().First > max(1, released) {
			return fmt.Errorf("begins at %d, and %d was released", l.Stats().First, released)
		}
		full := strings.Join(tried, " ")
		if text := strings.Join(got, " "); text != "" && !strings.HasSuffix(full, text) && !strings.HasSuffix(strings.Join(acknowledged, " "), text) {
			return fmt.Errorf("read %q of %q", got, tried)
		}
		kept := acknowledged[min(max(1, int(released))-1, len(acknowledged)):]
		if len(kept) > 0 && !slices.Contains(got, kept[0]) || len(got) < len(kept) {
			return fmt.Errorf("read %q, acknowledged and not released %q", got, kept)
		}
		if err := put(l, "more"); err != nil {
			return err
		}
		acknowledged, tried = append(slices.Clone(got), "more"), append(slices.Clone(got), "more")
		released = 0
		if err := l.Close(); err != nil {
			return err
		}
		if l.Stats().First > 1 { // then got is without what was released
			return nil
		}
	}
	return nil
}

var faults = map[string]objectstest.Fault{"failed before": objectstest.Before, "failed but done": objectstest.After,
	"done late": objectstest.Late, "done twice": objectstest.Twice, "stale list": objectstest.Stale}

// One request of the script has a fault: nothing acknowledged is lost.
func TestAFaultAtEveryRequest(t *testing.T) {
	whole := new(objectstest.Memory)
	if _, _, _, err := script(whole); err != nil {
		t.Fatal(err)
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at := range whole.Requests("") {
				m := &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
					if r.N == at+1 {
						return fault
					}
					return objectstest.None
				}}
				acknowledged, tried, released, err := script(m)
				if err := check(m, acknowledged, tried, released); err != nil {
					t.Errorf("request %d: %v", at+1, err)
				}
				if fault == objectstest.Twice && err != nil {
					t.Errorf("request %d: %v", at+1, err)
				}
			}
		})
	}
}

// From one request on none succeeds: the machine, the network or the store is gone.
func TestTheStoreIsGoneFromEveryRequestOn(t *testing.T) {
	whole := new(objectstest.Memory)
	if _, _, _, err := script(whole); err != nil {
		t.Fatal(err)
	}
	for at := range whole.Requests("") {
		for _, first := range []objectstest.Fault{objectstest.Before, objectstest.After} {
			m := &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
				switch {
				case r.N == at+1:
					return first
				case r.N > at+1:
					return objectstest.Before
				}
				return objectstest.None
			}}
			acknowledged, tried, released, err := script(m)
			if err == nil && at+3 < whole.Requests("") {
				t.Errorf("request %d: no error", at+1)
			}
			if err := check(m, acknowledged, tried, released); err != nil {
				t.Errorf("request %d: %v", at+1, err)
			}
		}
	}
}

// Every third request is answered by a fault, in turn.
func TestManyFaults(t *testing.T) {
	kinds := []objectstest.Fault{objectstest.Before, objectstest.After, objectstest.Late, objectstest.Twice}
	m := new(objectstest.Memory)
	l := mustOpen(t, m, "a")
	m.Fault = func(r objectstest.Request) objectstest.Fault {
		if r.N%3 == 0 {
			return kinds[r.N/3%len(kinds)]
		}
		return objectstest.None
	}
	var want []string
	for i := range 40 {
		mustPut(t, l, fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
	}
	if got, err := all(l); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAnErrorOfTheStoreIsFinal(t *testing.T) {
	m := new(objectstest.Memory)
	l, err := open(m, bucket.Options{Patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, l, "one")
	m.Fault = func(objectstest.Request) objectstest.Fault { return objectstest.Before }
	if err := put(l, "two"); !errors.Is(err, journal.ErrFailed) || !errors.Is(err, objectstest.ErrFault) {
		t.Errorf("got %v", err)
	}
	m.Fault = nil
	if err := put(l, "three"); !errors.Is(err, journal.ErrFailed) {
		t.Errorf("got %v", err)
	}
}
