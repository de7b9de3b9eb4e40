package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/objectstest"
)

func mustFollow(t *testing.T, s objects.Store) *bucket.Log {
	t.Helper()
	l := sure(bucket.Follow(context.Background(), s, bucket.Options{Patience: time.Second}))(t)
	return l
}

// readOn applies all there is, and returns it.
func readOn(t *testing.T, l *bucket.Log) (texts []string) {
	t.Helper()
	for {
		n, err := l.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if n == nil {
			return texts
		}
		err = n.Apply(func(r journal.Record) error {
			if next := l.Stats().Next; next > r.LSN {
				t.Errorf("record %d is not applied yet, and counts: the next is %d", r.LSN, next)
			}
			buf := make([]byte, len(r.Data))
			if _, err := l.ReadAt(buf, r.LSN, 0); err != nil || string(buf) != string(r.Data) {
				t.Errorf("read record %d: got %q, %v", r.LSN, buf, err)
			}
			texts = append(texts, string(r.Data))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func takeOver(t *testing.T, l *bucket.Log, name string) {
	t.Helper()
	must(t, l.TakeOver(context.Background(), bucket.Owner{Home: "home of " + name, Name: name, URL: "http://" + name + "/"}))
}

func TestALogFollowsItsOwnerAndTakesOver(t *testing.T) {
	m := new(objectstest.Memory)
	wantErr(t, errOf(bucket.Follow(context.Background(), m, bucket.Options{})), objects.ErrNotExist, "without a journal")
	a := mustOpen(t, m, "a")
	mustPut(t, a, "1")
	b, c := mustFollow(t, m), mustFollow(t, m)
	if got, err := all(b); err != nil || fmt.Sprint(got) != "[1]" {
		t.Errorf("at the opening: got %q, %v", got, err)
	}
	mustPut(t, a, "2")
	mustPut(t, a, "3")
	for what, err := range map[string]error{"append": put(b, "x"), "release": b.Release(2), "reserve": b.Reserve(journal.Adds, 1, 1)} {
		if !errors.Is(err, journal.ErrFollowing) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	wantErr(t, b.TakeOver(context.Background(), bucket.Owner{Name: "b"}), bucket.ErrBehind, "with batches unread")
	if got := readOn(t, b); fmt.Sprint(got) != "[2 3]" {
		t.Errorf("followed: got %q", got)
	}
	takeOver(t, b, "b")
	fenced(t, a, "b")
	mustPut(t, b, "4")
	if got := readOn(t, c); fmt.Sprint(got) != "[2 3 4]" {
		t.Errorf("followed over a change of the owner: got %q", got)
	}
	if o, err := c.Owner(context.Background()); err != nil || o.Name != "b" || o.URL != "http://b/" || o.Left || o.Claim != b.Claim() {
		t.Errorf("got %+v, %v", o, err)
	}
	if got, want := c.Stats().Next, b.Stats().Next; got != want {
		t.Errorf("the next record is %d, want %d", got, want)
	}
}

func TestAnOwnerLeavesAndFollows(t *testing.T) {
	m := new(objectstest.Memory)
	a := mustOpen(t, m, "a")
	b := mustFollow(t, m)
	mustPut(t, a, "1")
	must(t, a.Leave())
	wantErr(t, put(a, "x"), journal.ErrFollowing, "")
	readOn(t, b)
	if o, err := b.Owner(context.Background()); err != nil || !o.Left || o.Name != "a" {
		t.Errorf("got %+v, %v", o, err)
	}
	takeOver(t, b, "b")
	mustPut(t, b, "2")
	if got := readOn(t, a); fmt.Sprint(got) != "[2]" {
		t.Errorf("got %q", got)
	}
	takeOver(t, a, "a")
	fenced(t, b, "a")
	mustPut(t, a, "3")
	if got, err := all(a); err != nil || fmt.Sprint(got) != "[1 2 3]" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// A follower that slept while its next batches were released says so.
func TestAFollowerFallsBehindTheBeginning(t *testing.T) {
	m := new(objectstest.Memory)
	a := mustOpen(t, m, "a")
	b := mustFollow(t, m)
	for i := range 5 {
		mustPut(t, a, fmt.Sprint(i))
	}
	must(t, a.Release(a.Stats().Next))
	a.Sweep()
	if n, err := b.Next(context.Background()); n != nil || err != nil {
		t.Errorf("got %v, %v", n, err)
	}
	now := time.Now()
	v := bucket.Vigil{Log: b, Now: func() time.Time { return now }}
	if _, err := v.Silent(context.Background()); err != nil {
		t.Errorf("at first: got %v", err)
	}
	p := bucket.Pulse{Log: a}
	for range 2 { // the batches are a sign of life, too
		must(t, p.Beat(context.Background()))
	}
	now = now.Add(time.Second)
	wantErr(t, errOf(v.Silent(context.Background())), journal.ErrReleased, "with a sign of life")
	m.Set("beat/00000000000000000001", nil)
	now = now.Add(time.Minute)
	wantErr(t, errOf(v.Silent(context.Background())), journal.ErrReleased, "without")
	wantErr(t, b.TakeOver(context.Background(), bucket.Owner{Name: "b"}), journal.ErrReleased, "taking over")
	mustPut(t, a, "goes on")
}

// An owner is silent once it gives no sign of life, by a batch or beside the journal. A
// store that does not answer is no silence.
func TestSilence(t *testing.T) {
	away := false
	m := &objectstest.Memory{Fault: objectstest.When(objectstest.Before, func(objectstest.Request) bool { return away })}
	a := mustOpen(t, m, "a")
	b := mustFollow(t, m)
	now := time.Now()
	v := bucket.Vigil{Log: b, Now: func() time.Time { return now }}
	silent := func(after, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if got, err := v.Silent(context.Background()); got != want || (err != nil) != away {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	p := bucket.Pulse{Log: a}
	beat := func() {
		t.Helper()
		if err := p.Beat(context.Background()); err != nil {
			t.Error(err)
		}
	}
	beat() // the claim is a sign
	silent(0, 0)
	silent(3*time.Second, 3*time.Second)
	if n := m.Requests("Put"); n != 0 {
		t.Errorf("%d signs of life beside a batch", n)
	}
	beat()
	silent(2*time.Second, 0)
	silent(2*time.Second, 2*time.Second)
	mustPut(t, a, "1")
	beat()
	readOn(t, b)
	silent(2*time.Second, 0)
	away = true
	silent(9*time.Second, 0)
	away = false
	silent(2*time.Second, 2*time.Second)
	if n := m.Requests("Put"); n != 1 {
		t.Errorf("%d signs of life", n)
	}
	if err := a.Leave(); err != nil {
		t.Error(err)
	}
	beat()
	if n := m.Requests("Put"); n != 1 {
		t.Errorf("%d signs of life, one of them of no owner", n)
	}
}

// Each request of a hand-over fails once, before it is done or after. There is one owner
// at the end, with all that was acknowledged.
func TestFaultsOfAHandOver(t *testing.T) {
	for _, fault := range []objectstest.Fault{objectstest.Before, objectstest.After} {
		for nth, failed := 1, true; failed; nth++ {
			failed = false
			m := &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
				if r.N == nth {
					failed = true
					return fault
				}
				return objectstest.None
			}}
			a := mustOpen(t, m, "a")
			mustPut(t, a, "1")
			b := mustFollow(t, m)
			mustPut(t, a, "2")
			readOn(t, b)
			if err := a.Leave(); err != nil {
				t.Fatalf("request %d: %v", nth, err)
			}
			readOn(t, b)
			takeOver(t, b, "b")
			mustPut(t, b, "3")
			readOn(t, a)
			takeOver(t, a, "a")
			mustPut(t, a, "4")
			if got, err := all(a); err != nil || fmt.Sprint(got) != "[1 2 3 4]" {
				t.Errorf("request %d: got %q, %v", nth, got, err)
			}
			fenced(t, b, "a")
		}
	}
}

// A follower whose files are behind reads batches here that its owner has released, as long
// as it has their bytes.
func TestAFollowerReadsReleasedRecordsItHasHere(t *testing.T) {
	for _, c := range []struct {
		name string
		here bool
		want error
	}{{"WithFiles", true, nil}, {"WithoutFiles", false, journal.ErrReleased}} {
		t.Run(c.name, func(t *testing.T) {
			m := new(objectstest.Memory)
			owner := mustOpen(t, m, "owner")
			o := bucket.Options{Patience: time.Second}
			if c.here {
				d := sure(durable.OpenDir(t.TempDir(), nil))(t)
				t.Cleanup(func() { d.Close() })
				o.Temp = d
			}
			standby := sure(bucket.Follow(t.Context(), m, o))(t)
			mustPut(t, owner, "first")
			mustPut(t, owner, "second")
			readOn(t, standby)
			must(t, owner.Release(owner.Stats().Next))
			owner.Sweep()
			readOn(t, standby)
			buf := make([]byte, 5)
			n, err := standby.ReadAt(buf, 1, 0)
			if !errors.Is(err, c.want) || err == nil && string(buf[:n]) != "first" {
				t.Errorf("the standby reads %q, %v, want %v", buf[:n], err, c.want)
			}
			wantErr(t, errOf(owner.ReadAt(buf, 1, 0)), journal.ErrReleased, "the owner reads")
		})
	}
}

// A hanging is a store that does nothing with signs of life, until the caller gives up.
type hanging struct{ objects.Store }

func (h hanging) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if strings.HasPrefix(name, "beat/") {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Store.Put(ctx, name, body, size)
}

func (h hanging) Get(ctx context.Context, name string, most int64) (io.ReadCloser, error) {
	if strings.HasPrefix(name, "beat/") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.Store.Get(ctx, name, most)
}

// A sign of life without an answer, or a look for one, does not hold back the next ones.
func TestSignsOfLifeWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := hanging{new(objectstest.Memory)}
	a := sure(bucket.Open(t.Context(), s, bucket.Options{}))(t)
	b := sure(bucket.Follow(t.Context(), s, bucket.Options{}))(t)
	now := time.Now()
	v := bucket.Vigil{Log: b, Now: func() time.Time { return now }}
	p := bucket.Pulse{Log: a}
	if err := p.Beat(t.Context()); err != nil { // the claim is a sign
		t.Fatal(err)
	}
	must(t, errOf(v.Silent(t.Context())))
	now = now.Add(time.Second)
	done := make(chan error, 2)
	go func() { done <- p.Beat(t.Context()) }()
	go func() {
		_, err := v.Silent(t.Context())
		done <- err
	}()
	for range 2 {
		select {
		case err := <-done:
			if err == nil {
				t.Error("the store has answered")
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it waits for good")
		}
	}
}

// An owner deletes the signs of life of owners long before, some with each of its own. A
// former owner waking up deletes none of later ones.
func TestSignsOfLifeOfFormerOwnersGo(t *testing.T) {
	m := new(objectstest.Memory)
	beat := func(p *bucket.Pulse) {
		t.Helper()
		must(t, p.Beat(t.Context()))
	}
	beats := func() (names []string) {
		names, err := m.List(t.Context(), "beat/", "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	var all []string
	var former, l *bucket.Log
	for range 50 {
		var err error
		if l, err = bucket.Open(t.Context(), m, bucket.Options{Patience: time.Second}); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("beat/%020d", l.Claim()))
		m.Set(all[len(all)-1], []byte("1\n"))
		if former == nil {
			former = l
		}
	}
	p := &bucket.Pulse{Log: l}
	for range 10 {
		was := len(beats())
		beat(p)
		if n := len(beats()); n < was-16 {
			t.Errorf("%d objects were deleted with one sign of life", was-n)
		}
	}
	want := all[len(all)-5:]
	if got := beats(); !slices.Equal(got, want) {
		t.Errorf("got %q want %q", got, want)
	}
	for range 2 {
		woken := &bucket.Pulse{Log: former}
		beat(woken) // its claim was a sign
		beat(woken)
		beat(woken)
	}
	if got, want := beats(), append(all[:1:1], want...); !slices.Equal(got, want) {
		t.Errorf("after a former owner woke up: got %q want %q", got, want)
	}
}
