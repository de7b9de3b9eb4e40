package bucket_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/objectstest"
)

// A journal that failed for its store says when it can be opened again, and has then what was
// acknowledged, and perhaps what failed.
func TestAJournalKnowsWhenItsStoreIsBack(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	m := &objectstest.Memory{Fault: func(objectstest.Request) objectstest.Fault {
		if away.Load() {
			return objectstest.Before
		}
		return objectstest.None
	}}
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
	if err := l.Lookout(); !errors.Is(err, bucket.ErrBack) {
		t.Errorf("with the store again: %v", err)
	}
	if err := put(l, "late"); !errors.Is(err, journal.ErrFailed) {
		t.Errorf("before it is opened again: %v", err)
	}
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
	l, err := open(m, bucket.Options{Patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	m.Set("journal/00000000000000000002", []byte("other bytes"))
	if err := put(l, "first"); !errors.Is(err, journal.ErrFailed) || errors.Is(err, objects.ErrAway) {
		t.Errorf("a batch over damage: %v", err)
	}
	if err := l.Lookout(); err == nil || errors.Is(err, bucket.ErrBack) {
		t.Errorf("got %v", err)
	}
	l.Close()
}
