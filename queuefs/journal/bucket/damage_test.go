package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/objectstest"
)

// Every kind of damage to every batch is found by reading, and named.
func TestDamage(t *testing.T) {
	for _, released := range []bool{false, true} {
		m := new(objectstest.Memory)
		for round := range 2 {
			l := mustOpen(t, m, "a")
			for i := range 4 {
				mustPut(t, l, fmt.Sprint("a record of round ", round, ", ", i))
			}
			if released && round == 0 {
				must(t, l.Release(l.Stats().Next-2))
				l.Sweep()
			}
			must(t, l.Close())
		}
		whole := m.Objects()
		l := mustOpen(t, m, "reader")
		begins := l.Stats().First
		var names []string
		for name := range whole {
			names = append(names, name)
		}
		slices.Sort(names)
		if released { // the first claim stays, and is not part of the journal
			names = names[1:]
		}
		for i, name := range names {
			buf := whole[name]
			other := names[(i+1)%len(names)]
			for what, bad := range map[string][]byte{
				"missing":             nil,
				"swapped":             whole[other],
				"truncated":           buf[:len(buf)-1],
				"truncated in header": buf[:100],
				"empty":               {},
				"longer":              append(bytes.Clone(buf), 0),
				"flipped in body":     flipped(buf, len(buf)-1, false),
				"flipped in digest":   flipped(buf, 165, false),
				"flipped in header":   flipped(buf, 45, false),
				"other journal":       flipped(buf, 9, true),
				"replaced":            flipped(buf, len(buf)-1, true),
				"other before":        flipped(buf, 130, true),
				"other first record":  flipped(buf, 56, true),
			} {
				if bytes.Equal(bad, buf) {
					continue // there is no body to change
				}
				m.Set(name, bad)
				l.Forget()
				_, err := all(l)
				var d *bucket.DamageError
				if !errors.As(err, &d) {
					t.Errorf("%s %s: got %v", name, what, err)
				} else if d.Name != name && (i+1 >= len(names) || d.Name != names[i+1]) && !lastReplaced(err, name, names[i:]) {
					t.Errorf("%s %s: the error names %v", name, what, d)
				}
				m.Set(name, buf)
			}
		}
		l.Forget()
		if _, err := all(l); err != nil {
			t.Error(err)
		}
		if l.Stats().First != begins {
			t.Error("the beginning has moved")
		}
	}
}

// lastReplaced reports whether the error names the batch after the last one of names: the
// claim of the reader.
func lastReplaced(err error, name string, names []string) bool {
	var d *bucket.DamageError
	return errors.As(err, &d) && len(names) == 1 && d.Name > name
}

// flipped returns the bytes of a batch with one bit changed, and a digest made for them if
// sealed.
func flipped(buf []byte, at int, sealed bool) []byte {
	buf = bytes.Clone(buf)
	buf[at] ^= 1
	if sealed {
		bucket.Reseal(buf)
	}
	return buf
}

// The batch at the end is verified when the journal is opened.
func TestADamagedEndIsNotContinued(t *testing.T) {
	m := new(objectstest.Memory)
	l := mustOpen(t, m, "a")
	mustPut(t, l, "a record")
	buf := m.Objects()[bucket.Name(2)]
	m.Set(bucket.Name(2), flipped(buf, len(buf)-1, false))
	var d *bucket.DamageError
	if _, err := open(m, bucket.Options{}); !errors.As(err, &d) || d.Name != bucket.Name(2) {
		t.Errorf("got %v", err)
	}
}

// Who the owner was cannot be told without its claim. That is no reason to lose the journal.
func TestAJournalIsTakenFromAnOwnerUnknown(t *testing.T) {
	m := new(objectstest.Memory)
	l := mustOpen(t, m, "a")
	mustPut(t, l, "a record")
	must(t, l.Release(l.Stats().Next))
	l.Sweep()
	mustPut(t, l, "another one")
	m.Set(bucket.Name(1), nil)
	want := "unknown, for " + bucket.Name(1) + " is missing"
	refused := errors.New("refused")
	var asked []string
	take := func(answer error) func(bucket.Owner) error {
		return func(from bucket.Owner) error {
			asked = append(asked, from.Name)
			return answer
		}
	}
	wantErr(t, errOf(open(m, bucket.Options{Take: take(refused)})), refused, "")
	st, err := bucket.Look(t.Context(), m, 0)
	if err != nil || st.Owner.Name != "unknown" || len(st.Damage) != 1 || !strings.HasPrefix(st.Damage[0].Error(), bucket.Name(1)) {
		t.Errorf("seen from outside: got %+v, %v", st, err)
	}
	l = sure(open(m, bucket.Options{Take: take(nil)}))(t)
	if got, err := all(l); err != nil || len(got) != 1 {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range asked {
		if name != want {
			t.Errorf("asked about %q, want %q", name, want)
		}
	}
	if len(asked) != 2 {
		t.Errorf("asked %d times", len(asked))
	}
}

// A batch that is missing before the end is a hole, not the end.
func TestAHoleIsNotTheEnd(t *testing.T) {
	for hole := uint64(1); hole < 40; hole++ {
		m := new(objectstest.Memory)
		l := mustOpen(t, m, "a")
		for i := range 40 {
			mustPut(t, l, fmt.Sprint(i))
		}
		m.Set(bucket.Name(hole), nil)
		l, err := open(m, bucket.Options{})
		if err == nil {
			_, err = all(l)
		}
		var d *bucket.DamageError
		if !errors.As(err, &d) || d.Name != bucket.Name(hole) {
			t.Errorf("hole at %d: got %v", hole, err)
		}
		if m.Objects()[bucket.Name(hole)] != nil {
			t.Errorf("the hole at %d was filled", hole)
		}
	}
}

// A journal whose batches are not in memory is read by asking for headers.
func TestReadAtOfRecordsBeforeTheOpening(t *testing.T) {
	m := new(objectstest.Memory)
	l := mustOpen(t, m, "a")
	for i := range 60 {
		mustPut(t, l, fmt.Sprint("record ", i))
	}
	next := l.Stats().Next
	l = mustOpen(t, m, "b")
	before := m.Requests("")
	for at := journal.LSN(1); at < next; at += 7 {
		p := make([]byte, 100)
		n, err := l.ReadAt(p, at, 0)
		if want := fmt.Sprint("record ", at-1); string(p[:n]) != want {
			t.Errorf("record %d: got %q, %v", at, p[:n], err)
		}
	}
	if n := (m.Requests("") - before) / 9; n > 8 {
		t.Errorf("%d requests a record", n)
	}
}

func TestAStoreWithoutConditionalWritesIsRefused(t *testing.T) {
	m := &objectstest.Memory{Fault: func(objectstest.Request) objectstest.Fault { return objectstest.Lax }}
	wantErr(t, errOf(open(m, bucket.Options{})), objects.ErrUnconditional, "")
}

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
				m := &objectstest.Memory{Fault: objectstest.When(fault, func(r objectstest.Request) bool { return r.N == at+1 })}
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
	l := sure(open(m, bucket.Options{Patience: time.Millisecond}))(t)
	mustPut(t, l, "one")
	m.Fault = func(objectstest.Request) objectstest.Fault { return objectstest.Before }
	if err := put(l, "two"); !errors.Is(err, journal.ErrFailed) || !errors.Is(err, objectstest.ErrFault) {
		t.Errorf("got %v", err)
	}
	m.Fault = nil
	wantErr(t, put(l, "three"), journal.ErrFailed, "")
}

// A journal that failed for its store says when it can be opened again, and has then what was
// acknowledged, and perhaps what failed.
func TestAJournalKnowsWhenItsStoreIsBack(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	m := &objectstest.Memory{Fault: objectstest.When(objectstest.Before, func(objectstest.Request) bool { return away.Load() })}
	o := bucket.Options{Patience: time.Millisecond}
	l, err := open(m, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(l, "first"); err != nil || l.Lookout() != nil || l.Trouble() != nil {
		t.Fatalf("in order: %v, %v, %v", err, l.Lookout(), l.Trouble())
	}
	pulse := &bucket.Pulse{Log: l}
	if err := pulse.Beat(t.Context()); err != nil { // the batch was a sign of life
		t.Fatal(err)
	}
	away.Store(true)
	if err := pulse.Beat(t.Context()); err == nil || l.Trouble() == nil || !errors.Is(l.Trouble().Err, objectstest.ErrFault) {
		t.Errorf("a sign of life: %v, %v", err, l.Trouble())
	}
	since := l.Trouble().Since
	away.Store(false)
	if err := pulse.Beat(t.Context()); err != nil || l.Trouble() != nil {
		t.Errorf("a sign of life after it: %v, %v", err, l.Trouble())
	}
	away.Store(true)
	if err := put(l, "lost"); !errors.Is(err, objects.ErrAway) || !errors.Is(err, journal.ErrFailed) {
		t.Errorf("without the store: %v", err)
	}
	if tr := l.Trouble(); tr == nil || !tr.Since.After(since) {
		t.Errorf("without the store: %v", tr)
	}
	if err := l.Lookout(); !errors.Is(err, objects.ErrAway) || errors.Is(err, bucket.ErrBack) {
		t.Errorf("still without: %v", err)
	}
	away.Store(false)
	wantErr(t, l.Lookout(), bucket.ErrBack, "with the store again")
	wantErr(t, put(l, "late"), journal.ErrFailed, "before it is opened again")
	l.Close()
	if l, err = open(m, o); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got, err := all(l); err != nil || len(got) != 1 || got[0] != "first" {
		t.Errorf("opened again: %q, %v", got, err)
	}
}

// Damage does not go away: nobody waits for the store then.
func TestAJournalWithDamageIsNotBack(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	l := sure(open(m, bucket.Options{Patience: time.Millisecond}))(t)
	m.Set("journal/00000000000000000002", []byte("other bytes"))
	if err := put(l, "first"); !errors.Is(err, journal.ErrFailed) || errors.Is(err, objects.ErrAway) {
		t.Errorf("a batch over damage: %v", err)
	}
	if err := l.Lookout(); err == nil || errors.Is(err, bucket.ErrBack) {
		t.Errorf("got %v", err)
	}
	l.Close()
}

// A store killed in the middle may say of an object that it is there, and that it is not.
type contradicting struct {
	objects.Store
	of string // its name
}

func (c contradicting) Create(ctx context.Context, name string, data []byte) error {
	if name == c.of {
		return objects.ErrExist
	}
	return c.Store.Create(ctx, name, data)
}

func TestAStoreThatContradictsItselfIsTold(t *testing.T) {
	t.Parallel()
	l, err := open(contradicting{new(objectstest.Memory), "journal/00000000000000000002"}, bucket.Options{Patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	err = put(l, "lost")
	for _, is := range []error{journal.ErrFailed, objects.ErrAway, objects.ErrExist, objects.ErrNotExist} {
		if !errors.Is(err, is) {
			t.Errorf("got %v, which is not: %v", err, is)
		}
	}
	if tr := l.Trouble(); tr == nil || !errors.Is(tr.Err, objects.ErrNotExist) {
		t.Errorf("trouble %+v", tr)
	}
}
