package bucket_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/journal/journaltest"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/objects/s3"
	"cutie/testdata/long"
)

func open(s objects.Store, o bucket.Options) (*bucket.Log, error) {
	return bucket.Open(context.Background(), s, o)
}

// realStore starts a server, and returns a function for a new place in it.
func realStore(t testing.TB) func() objects.Store {
	t.Helper()
	endpoint := objectstest.Real(t)
	t.Setenv("AWS_ACCESS_KEY_ID", objectstest.Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", objectstest.Secret)
	return func() objects.Store {
		s, err := s3.Open("s3://bucket/"+rand.Text(), endpoint)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func TestLogIsAJournalInARealStore(t *testing.T) {
	store := realStore(t)
	journaltest.Run(t, func(*testing.T) journaltest.Open {
		s := store()
		return func(journal.LSN) (journal.Journal, error) { return open(s, bucket.Options{}) }
	})
}

func TestLogIsAJournal(t *testing.T) {
	for _, c := range []struct {
		name string
		most int64 // bytes of temporary files
	}{{"ByStore", 0}, {"BySmallFiles", 64 << 10}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			journaltest.Run(t, func(t *testing.T) journaltest.Open {
				m := new(objectstest.Memory)
				o := bucket.Options{Most: c.most}
				if c.most > 0 {
					d := sure(durable.OpenDir(t.TempDir(), nil))(t)
					t.Cleanup(func() { d.Close() })
					o.Temp = d
				}
				return func(journal.LSN) (journal.Journal, error) { return open(m, o) }
			})
		})
	}
}

// put appends a record and waits for it.
func put(l *bucket.Log, text string) error {
	for {
		t, err := l.Append(journal.Adds, []journal.Contents{{Head: []byte(text)}})
		if errors.Is(err, journal.ErrUnready) {
			if err = l.Reserve(journal.Adds, 1, len(text)); err == nil {
				continue
			}
		}
		if err == nil {
			_, err = t.Wait()
		}
		return err
	}
}

// all reads all records of a journal.
func all(l *bucket.Log) (texts []string, err error) {
	for r, err := range l.Read(0) {
		if err != nil {
			return texts, err
		}
		texts = append(texts, string(r.Data))
	}
	return texts, nil
}

func mustOpen(t *testing.T, s objects.Store, name string) *bucket.Log {
	t.Helper()
	l := sure(open(s, bucket.Options{Owner: bucket.Owner{Home: "home of " + name, Name: name}}))(t)
	return l
}

func mustPut(t *testing.T, l *bucket.Log, text string) {
	t.Helper()
	must(t, put(l, text))
}

// fenced checks that a log has lost its journal to an owner.
func fenced(t *testing.T, l *bucket.Log, by string) {
	t.Helper()
	err := put(l, "too late")
	var f *bucket.FencedError
	if !errors.As(err, &f) || f.By != by || !errors.Is(err, journal.ErrFenced) {
		t.Errorf("got %v, want fenced by %s", err, by)
	}
	wantErr(t, l.Release(l.Stats().Next), journal.ErrFenced, "release of a fenced owner")
}

func TestAFormerOwnerIsFenced(t *testing.T) {
	m := new(objectstest.Memory)
	a := mustOpen(t, m, "a")
	mustPut(t, a, "of a")
	b := mustOpen(t, m, "b")
	fenced(t, a, "b")
	mustPut(t, b, "of b")
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if got, err := all(b); err != nil || fmt.Sprint(got) != "[of a of b]" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A former owner that wakes after all was released finds the claim of the next one.
func TestAnOwnerThatSleptIsFencedByAClaimThatStays(t *testing.T) {
	m := new(objectstest.Memory)
	a := mustOpen(t, m, "a")
	mustPut(t, a, "of a")
	b := mustOpen(t, m, "b")
	mustPut(t, b, "of b")
	c := mustOpen(t, m, "c")
	for i := range 5 {
		mustPut(t, c, fmt.Sprint(i))
	}
	must(t, c.Release(c.Stats().Next))
	c.Sweep()
	if n := len(m.Objects()); n != 4 { // three claims and the mark
		t.Errorf("%d objects stay", n)
	}
	fenced(t, a, "b")
	fenced(t, b, "c")
	mustPut(t, c, "goes on")
}

// paused holds the first conditional write of a batch back.
type paused struct {
	objects.Store
	number  uint64
	once    sync.Once
	asleep  chan struct{}
	goAhead chan struct{}
}

func (p *paused) Create(ctx context.Context, name string, data []byte) error {
	if name == bucket.Name(p.number) {
		p.once.Do(func() {
			close(p.asleep)
			<-p.goAhead
		})
	}
	return p.Store.Create(ctx, name, data)
}

// An opener that sleeps before its claim, until the number was written and released, must
// not take the free number for the end of the journal.
func TestAnOpenerThatSleptDoesNotClaimAReleasedNumber(t *testing.T) {
	for _, more := range []int{0, 1, 5} { // batches before the opener looks
		m := new(objectstest.Memory)
		a := mustOpen(t, m, "a")
		for range more {
			mustPut(t, a, "before")
		}
		p := &paused{Store: m, number: uint64(2 + more), asleep: make(chan struct{}), goAhead: make(chan struct{})}
		opened := make(chan *bucket.Log)
		go func() {
			b, err := open(p, bucket.Options{Owner: bucket.Owner{Name: "b"}})
			if err != nil {
				t.Error(err)
			}
			opened <- b
		}()
		<-p.asleep
		for range 5 {
			mustPut(t, a, "after")
		}
		must(t, a.Release(a.Stats().Next))
		mustPut(t, a, "last")
		a.Sweep()
		close(p.goAhead)
		b := <-opened
		fenced(t, a, "b")
		mustPut(t, b, "of b")
		if got, err := all(b); err != nil || fmt.Sprint(got) != "[last of b]" {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

func TestTakeIsAskedBeforeTheJournalIsTaken(t *testing.T) {
	m := new(objectstest.Memory)
	a := mustOpen(t, m, "a")
	mustPut(t, a, "of a")
	no := errors.New("no")
	var asked []bucket.Owner
	take := func(o bucket.Owner) error {
		asked = append(asked, o)
		if o.Left {
			return nil
		}
		return no
	}
	wantErr(t, errOf(open(m, bucket.Options{Take: take})), no, "")
	mustPut(t, a, "goes on")
	must(t, a.Close())
	b := sure(open(m, bucket.Options{Take: take}))(t)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	owner := bucket.Owner{Home: "home of a", Name: "a", Claim: 1}
	left := owner
	left.Left = true
	if want := []bucket.Owner{owner, left}; !slices.Equal(asked, want) {
		t.Errorf("asked of %+v, want %+v", asked, want)
	}
}

func TestLookoutFindsTheNextOwner(t *testing.T) {
	m := new(objectstest.Memory)
	a := mustOpen(t, m, "a")
	mustPut(t, a, "of a")
	must(t, a.Lookout())
	mustOpen(t, m, "b")
	wantErr(t, a.Lookout(), journal.ErrFenced, "")
	fenced(t, a, "b")
}

// Two owners open at once, and write as long as they can. Each number has one winner:
// all that was acknowledged is there, in the order of each writer.
func TestRaces(t *testing.T) {
	for number := range 300 {
		race(t, number, new(objectstest.Memory))
	}
}

func TestRacesInARealStore(t *testing.T) {
	store := realStore(t)
	for number := range long.N(20, 300) {
		race(t, number, store())
	}
}

func race(t *testing.T, race int, m objects.Store) {
	t.Helper()
	var wg sync.WaitGroup
	done := make([]int, 2) // records acknowledged
	for i := range done {
		wg.Go(func() {
			l, err := open(m, bucket.Options{Owner: bucket.Owner{Name: fmt.Sprint(i)}})
			if err != nil {
				t.Errorf("race %d: %v", race, err)
				return
			}
			for n := range 8 {
				if err := put(l, fmt.Sprint(i, ":", n)); err != nil {
					if !errors.Is(err, journal.ErrFenced) {
						t.Errorf("race %d: %v", race, err)
					}
					return
				}
				done[i]++
			}
		})
	}
	wg.Wait()
	got := sure(all(mustOpen(t, m, "reader")))(t)
	found := make([]int, 2)
	for _, text := range got {
		var i, n int
		if _, err := fmt.Sscanf(strings.Replace(text, ":", " ", 1), "%d %d", &i, &n); err != nil || n != found[i] {
			t.Fatalf("race %d: read %q", race, got)
		}
		found[i]++
	}
	if done[0] != found[0] || done[1] != found[1] || max(done[0], done[1]) < 8 {
		t.Fatalf("race %d: acknowledged %v, read %v", race, done, found)
	}
}

// An owner under load is taken over from.
func TestABusyOwnerIsTakenOverFrom(t *testing.T) {
	m := new(objectstest.Memory)
	a := mustOpen(t, m, "a")
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	started := make(chan struct{})
	for g := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				text := fmt.Sprint(g, ":", n)
				if err := put(a, text); err != nil {
					if !errors.Is(err, journal.ErrFenced) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				if acknowledged[text] = true; len(acknowledged) == 100 {
					close(started)
				}
				mu.Unlock()
			}
		})
	}
	<-started
	b := mustOpen(t, m, "b")
	wg.Wait()
	got := sure(all(b))(t)
	if len(got) != len(acknowledged) {
		t.Errorf("acknowledged %d records, read %d", len(acknowledged), len(got))
	}
	for _, text := range got {
		if !acknowledged[text] {
			t.Errorf("%s was not acknowledged", text)
		}
	}
}

var there = bucket.Owner{Home: "directory", Name: "the directory /srv/home"}

func expect(t *testing.T, s objects.Store, from bucket.Owner) *bucket.Arrival {
	t.Helper()
	a := sure(bucket.Expect(context.Background(), s, from, time.Second))(t)
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
	must(t, a.Begin(context.Background(), 1000))
	wantErr(t, errOf(bucket.Expect(context.Background(), m, there, time.Second)), bucket.ErrThere, "after it has come")
	var from bucket.Owner
	l := sure(open(m, bucket.Options{Take: func(o bucket.Owner) error {
		from = o
		return nil
	}}))(t)
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
	must(t, l.MoveTo(there))
	if _, err := standby.Next(context.Background()); !errors.As(err, new(*bucket.MovedError)) {
		t.Errorf("a standby got %v", err)
	}
	wantErr(t, standby.TakeOver(context.Background(), bucket.Owner{}), bucket.ErrBehind, "a standby takes over")
	if e := moved(t, m); e.Coming {
		t.Errorf("got %+v", e)
	}
	back := expect(t, m, there)
	if back.ID() != a.ID() {
		t.Error("the journal that comes back is another one")
	}
	must(t, back.Begin(context.Background(), 500))
	for round := range 2 {
		l = mustOpen(t, m, fmt.Sprint("round ", round))
		mustPut(t, l, "more")
		if texts, err := all(l); err != nil || len(texts) != round+1 || l.Stats().First != 500 {
			t.Errorf("got %q, %v, %+v", texts, err, l.Stats())
		}
		must(t, l.Close())
	}
	bad := func(err error) { t.Error(err) }
	st := sure(bucket.Look(context.Background(), m, time.Second))(t)
	if _, err := bucket.Verify(context.Background(), m, time.Second, &st, bad, func(journal.Record) {}); err != nil {
		t.Error(err)
	}
	l = mustOpen(t, m, "last")
	must(t, l.Release(l.Stats().Next))
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
				m.Fault = objectstest.When(fault, func(r objectstest.Request) bool { return r.N == at })
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

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errOf returns the error of a call with a result.
func errOf[T any](_ T, err error) error { return err }

// sure returns the result of a call, which ends the test if it fails.
func sure[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// wantErr reports an error that is not the one wanted; about says of what.
func wantErr(t testing.TB, err, want error, about string, args ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", fmt.Sprintf(about, args...), err, want)
	}
}
