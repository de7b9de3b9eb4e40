package bucket_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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
				if err := l.Release(l.Stats().Next - 2); err != nil {
					t.Fatal(err)
				}
				l.Sweep()
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
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
	if err := l.Release(l.Stats().Next); err != nil {
		t.Fatal(err)
	}
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
	if _, err := open(m, bucket.Options{Take: take(refused)}); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	st, err := bucket.Look(t.Context(), m, 0)
	if err != nil || st.Owner.Name != "unknown" || len(st.Damage) != 1 || !strings.HasPrefix(st.Damage[0].Error(), bucket.Name(1)) {
		t.Errorf("seen from outside: got %+v, %v", st, err)
	}
	l, err = open(m, bucket.Options{Take: take(nil)})
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := open(m, bucket.Options{}); !errors.Is(err, objects.ErrUnconditional) {
		t.Errorf("got %v", err)
	}
}
