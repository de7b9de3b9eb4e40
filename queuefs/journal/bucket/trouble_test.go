package bucket_test

import (
	"context"
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
