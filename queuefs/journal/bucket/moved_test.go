package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/objectstest"
)

var there = bucket.Owner{Home: "directory", Name: "the directory /srv/home"}

func expect(t *testing.T, s objects.Store, from bucket.Owner) *bucket.Arrival {
	t.Helper()
	a, err := bucket.Expect(context.Background(), s, from, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// moved returns where the journal is, by everybody who may ask.
func moved(t *testing.T, m *objectstest.Memory) (e *bucket.MovedError) {
	t.Helper()
	_, err := open(m, bucket.Options{})
	_, follow := bucket.Follow(context.Background(), m, bucket.Options{})
	for _, err := range []error{err, follow} {
		if !errors.As(err, &e) {
			t.Errorf("got %v", err)
			return &bucket.MovedError{}
		}
	}
	st, err := bucket.Look(context.Background(), m, time.Second)
	if err != nil || st.Owner != e.To {
		t.Errorf("got %+v, %v", st, err)
	}
	return e
}

// A journal comes from a directory with the numbers of its records, goes on in the store,
// moves to a directory again and comes back from there. Nobody else gets it meanwhile.
func TestAJournalMovesFromADirectoryAndBack(t *testing.T) {
	m := new(objectstest.Memory)
	a := expect(t, m, there)
	if e := moved(t, m); !e.Coming || e.To.Name != there.Name {
		t.Errorf("got %+v", e)
	}
	if again := expect(t, m, there); again.ID() != a.ID() || again.Claim() != a.Claim() {
		t.Error("a second attempt has another journal")
	}
	if _, err := bucket.Expect(context.Background(), m, bucket.Owner{Home: "other"}, time.Second); !errors.As(err, new(*bucket.MovedError)) {
		t.Errorf("from another directory: got %v", err)
	}
	if err := a.Begin(context.Background(), 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Expect(context.Background(), m, there, time.Second); !errors.Is(err, bucket.ErrThere) {
		t.Errorf("after it has come: got %v", err)
	}
	var from bucket.Owner
	l, err := open(m, bucket.Options{Take: func(o bucket.Owner) error {
		from = o
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !from.Left || from.Home != there.Home || from.Claim != a.Claim() || l.ID() != a.ID() {
		t.Errorf("came from %+v", from)
	}
	mustPut(t, l, "a record")
	if st := l.Stats(); st.First != 1000 || st.Next != 1001 {
		t.Errorf("got %+v", st)
	}
	if texts, err := all(l); err != nil || fmt.Sprint(texts) != "[a record]" {
		t.Errorf("got %q, %v", texts, err)
	}
	standby := mustFollow(t, m)
	if err := l.MoveTo(there); err != nil {
		t.Fatal(err)
	}
	if _, err := standby.Next(context.Background()); !errors.As(err, new(*bucket.MovedError)) {
		t.Errorf("a standby got %v", err)
	}
	if err := standby.TakeOver(context.Background(), bucket.Owner{}); !errors.Is(err, bucket.ErrBehind) {
		t.Errorf("a standby takes over: %v", err)
	}
	if e := moved(t, m); e.Coming {
		t.Errorf("got %+v", e)
	}
	back := expect(t, m, there)
	if back.ID() != a.ID() {
		t.Error("the journal that comes back is another one")
	}
	if err := back.Begin(context.Background(), 500); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		l = mustOpen(t, m, fmt.Sprint("round ", round))
		mustPut(t, l, "more")
		if texts, err := all(l); err != nil || len(texts) != round+1 || l.Stats().First != 500 {
			t.Errorf("got %q, %v, %+v", texts, err, l.Stats())
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	bad := func(err error) { t.Error(err) }
	st, err := bucket.Look(context.Background(), m, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Verify(context.Background(), m, time.Second, &st, bad, func(journal.Record) {}); err != nil {
		t.Error(err)
	}
	l = mustOpen(t, m, "last")
	if err := l.Release(l.Stats().Next); err != nil {
		t.Fatal(err)
	}
	l.Sweep()
	if texts, err := all(l); err != nil || len(texts) > 0 {
		t.Errorf("after the release: got %q, %v", texts, err)
	}
}

// Each request fails in turn. Then a journal is where it was, or where it goes to, and
// another attempt brings it there.
func TestAFaultAtEveryRequestOfAMove(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at++ {
				m := new(objectstest.Memory)
				m.Fault = func(r objectstest.Request) objectstest.Fault {
					if r.N == at {
						return fault
					}
					return objectstest.None
				}
				for try := 0; ; try++ {
					a, err := bucket.Expect(context.Background(), m, there, time.Millisecond)
					if err == nil {
						err = a.Begin(context.Background(), 7)
					}
					if err == nil {
						break
					}
					if try > 0 && !errors.Is(err, bucket.ErrThere) || try > 2 {
						t.Fatalf("request %d: %v", at, err)
					}
					if errors.Is(err, bucket.ErrThere) {
						break
					}
				}
				l, err := open(m, bucket.Options{Patience: time.Millisecond})
				if err != nil {
					l = mustOpen(t, m, "again")
				}
				if got := l.Stats().First; got != 7 {
					t.Errorf("request %d: the journal begins at %d", at, got)
				}
				done := m.Requests("") < at
				if err := l.MoveTo(there); err != nil {
					l = mustOpen(t, m, "a third time")
					if err := l.MoveTo(there); err != nil {
						t.Errorf("request %d: %v", at, err)
					}
				}
				if e := moved(t, m); e.To.Name != there.Name {
					t.Errorf("request %d: got %v", at, e)
				}
				if done {
					break
				}
			}
		})
	}
}
