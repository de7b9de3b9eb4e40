package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

// A memory is a journal in memory, with the errors of the next calls.
type memory struct {
	records [][]byte
	append  []error
	reserve []error
	wait    error
}

func next(errs *[]error) (err error) {
	if len(*errs) > 0 {
		err, *errs = (*errs)[0], (*errs)[1:]
	}
	return err
}

func (m *memory) Append(_ journal.Use, records []journal.Contents) (journal.Ticket, error) {
	if err := next(&m.append); err != nil {
		return journal.Ticket{}, err
	}
	first := journal.LSN(len(m.records) + 1)
	for _, r := range records {
		m.records = append(m.records, slices.Concat(r.Head, r.Body))
	}
	return journal.Ticket{First: first, Batch: m}, nil
}

func (m *memory) Wait() (journal.LSN, error) { return journal.LSN(len(m.records) + 1), m.wait }

func (m *memory) Reserve(journal.Use, int, int) error { return next(&m.reserve) }

func (m *memory) ReadAt(p []byte, at journal.LSN, off int) (int, error) {
	n := copy(p, m.records[at-1][off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) Read(journal.LSN) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for i, r := range m.records {
			if !yield(journal.Record{LSN: journal.LSN(i + 1), Data: r}, nil) {
				return
			}
		}
	}
}

func (m *memory) Release(journal.LSN) error { return nil }
func (m *memory) Trim() error               { return nil }
func (m *memory) Stats() journal.Stats      { return journal.Stats{} }
func (m *memory) Close() error              { return nil }

func open(t *testing.T) (*ledger.Ledger, *ledger.Shared, *memory) {
	t.Helper()
	log := &memory{}
	shared := &ledger.Shared{Gate: ledger.NewGate(), Now: time.Now, Journal: log}
	l := ledger.New("q", shared)
	l.Use(settings())
	t.Cleanup(l.Free)
	return l, shared, log
}

func settings() *home.Settings {
	info := home.NewQueue("q", time.Now())
	return home.NewSettings(home.Reading[home.QueueInfo]{Value: &info, Text: info.Text()}, time.Time{})
}

// submit adds n pending jobs with one commit.
func submit(l *ledger.Ledger, n int) error {
	return l.Commit(func(b *ledger.Batch) error {
		for range n {
			id, _ := b.Index().MintJob()
			seq, us := b.Next()
			j := job.Job{ID: id, Seq: seq, Status: job.Pending, Submitted: time.UnixMicro(us).UTC()}
			r := b.Job(&j, job.Submit, 0, us)
			r.Flags |= record.Inline
			r.Payload.Data = []byte{}
		}
		return nil
	})
}

func counts(l *ledger.Ledger) (n index.Counts, last job.Seq) {
	l.Look(func(x *index.Index) { n, last = x.Counts, x.Last().Seq })
	return n, last
}

func TestReplayEndsWhereNormalUseDid(t *testing.T) {
	l, _, log := open(t)
	must(t, submit(l, 3))
	again, _, _ := open(t)
	for rec := range log.Read(0) {
		var r record.Record
		must(t, r.Parse(rec.Data))
		again.Replay(&r, rec.LSN, func(job.ID) bool { return false })
	}
	for id := job.ID(1); id <= 3; id++ {
		got, ok := again.View(id)
		want, _ := l.View(id)
		got.Filed, want.Filed = 0, 0 // after a replay nothing is known of the files
		if !ok || got != want {
			t.Errorf("job %v: got %+v, want %+v", id, got, want)
		}
	}
	if again.Numbers() != l.Numbers() {
		t.Errorf("got numbers %v, want %v", again.Numbers(), l.Numbers())
	}
}

func TestNothingHappensWithoutStorage(t *testing.T) {
	l, shared, log := open(t)
	must(t, submit(l, 1))
	log.append, log.reserve = []error{journal.ErrUnready}, []error{syscall.ENOSPC}
	err := submit(l, 1)
	var reserve *ledger.ReserveError
	if !errors.As(err, &reserve) || !errors.Is(err, ledger.ErrNoSpace) {
		t.Fatalf("got %v, want a ReserveError for lack of space", err)
	}
	log.append = []error{journal.ErrUnready} // and then there is some
	must(t, submit(l, 1))
	if n, last := counts(l); n.Status[job.Pending] != 2 || last != 2 || shared.Behind.Load() != 2 {
		t.Errorf("got %v jobs up to event %d, %d behind; want two of each", n, last, shared.Behind.Load())
	}
}

// A former owner of the journal stops for good: nothing of it is acknowledged.
func TestAFencedOwnerStops(t *testing.T) {
	for _, late := range []bool{false, true} {
		l, shared, log := open(t)
		if late {
			log.wait = journal.ErrFenced
		} else {
			log.append = []error{journal.ErrFenced}
		}
		if err := submit(l, 1); !errors.Is(err, ledger.ErrFailed) || !errors.Is(err, journal.ErrFenced) {
			t.Errorf("late %v: got %v, want ErrFailed for ErrFenced", late, err)
		}
		log.wait = nil
		if err := submit(l, 1); !errors.Is(err, ledger.ErrFailed) || shared.Gate.Err() == nil {
			t.Errorf("late %v: got %v afterwards, want ErrFailed", late, err)
		}
		if n, _ := counts(l); n.Total() != 0 {
			t.Errorf("late %v: got %d jobs, want none", late, n.Total())
		}
	}
}

func TestSettingsTakeForceWithTheirEvent(t *testing.T) {
	l, _, log := open(t)
	set := settings()
	change := func() error {
		return l.Commit(func(b *ledger.Batch) error {
			r := &record.Record{Kind: job.Update, Payload: record.Payload{SHA256: set.SHA256}}
			r.Seq, r.Time = b.Next()
			b.Add(r)
			b.Use(set)
			return nil
		})
	}
	log.append = []error{journal.ErrTooLarge}
	if err := change(); err == nil || l.Settings() == set {
		t.Errorf("got %v; the settings must not hold after a failure", err)
	}
	if err := change(); err != nil || l.Settings() != set {
		t.Errorf("got %v; the settings must hold", err)
	}
	var info [32]byte
	l.Look(func(x *index.Index) { info = x.Info })
	if info != set.SHA256 {
		t.Error("the index does not know the file of the event")
	}
}

func TestConsumersAreServedInTheirOrder(t *testing.T) {
	l, _, _ := open(t)
	type answer struct {
		ids []job.ID
		err error
	}
	wait := func(ctx context.Context) chan answer {
		c := make(chan answer, 1)
		before := l.Waiting()
		go func() {
			ids, err := l.Await(ctx, 1)
			c <- answer{ids, err}
		}()
		for l.Waiting() == before {
			time.Sleep(time.Millisecond)
		}
		return c
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, gone, third := wait(t.Context()), wait(ctx), wait(t.Context())
	cancel()
	if a := <-gone; !errors.Is(a.err, ledger.ErrEmpty) {
		t.Errorf("got %v for the one that left, want ErrEmpty", a)
	}
	must(t, submit(l, 2))
	if a := <-first; len(a.ids) != 1 || a.ids[0] != 1 {
		t.Errorf("got %v for the first, want job 1", a)
	}
	if a := <-third; len(a.ids) != 1 || a.ids[0] != 2 {
		t.Errorf("got %v for the third, want job 2", a)
	}
	fourth := wait(t.Context())
	l.Release(1)
	if a := <-fourth; len(a.ids) != 1 || a.ids[0] != 1 {
		t.Errorf("got %v, want the job given back", a)
	}
	if n, _ := counts(l); n.Available != 0 {
		t.Errorf("%d jobs are available, want none: all are claimed", n.Available)
	}
	fifth := wait(t.Context())
	l.Dismiss()
	if a := <-fifth; !errors.Is(a.err, ledger.ErrEmpty) {
		t.Errorf("got %v for one sent away, want ErrEmpty", a)
	}
	if ids, err := l.Await(t.Context(), 1); !errors.Is(err, ledger.ErrEmpty) {
		t.Errorf("got %v, %v for one that comes too late, want ErrEmpty", ids, err)
	}
	l.Welcome()
	sixth := wait(t.Context())
	l.Release(2)
	if a := <-sixth; len(a.ids) != 1 || a.ids[0] != 2 {
		t.Errorf("got %v, want the job given back", a)
	}
}

func TestASealedQueueHasNoMoreEvents(t *testing.T) {
	l, _, _ := open(t)
	must(t, submit(l, 1))
	if err := l.Seal(t.Context()); !errors.Is(err, ledger.ErrNotEmpty) {
		t.Fatalf("got %v, want ErrNotEmpty", err)
	}
	err := l.Commit(func(b *ledger.Batch) error {
		r := &record.Record{Kind: job.Cull, From: job.Pending, Job: 1}
		r.Seq, r.Time = b.Next()
		r.SetText(nil)
		b.Add(r)
		return nil
	})
	must(t, err)
	must(t, l.Seal(t.Context()))
	if err := submit(l, 1); !errors.Is(err, ledger.ErrNoQueue) {
		t.Errorf("got %v, want ErrNoQueue", err)
	}
	l.Unseal()
	if err := submit(l, 1); err != nil {
		t.Errorf("got %v after Unseal", err)
	}
}

func TestTheGateWaitsForCallsAndWakesSleepers(t *testing.T) {
	g := ledger.NewGate()
	must(t, g.Enter())
	slept, closed := make(chan error), make(chan bool)
	go func() { slept <- g.Sleep(context.Background(), nil) }()
	go func() { closed <- g.Close() }()
	if err := <-slept; !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("a sleeper got %v, want ErrClosed", err)
	}
	if err := g.Enter(); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("a late call got %v, want ErrClosed", err)
	}
	select {
	case <-closed:
		t.Error("closed before the call was over")
	default:
	}
	g.Leave()
	if !<-closed || g.Close() {
		t.Error("want Close true once, then false")
	}
}

// A counted journal counts reads of single records, and those of many.
type counted struct {
	memory
	single, many int
}

func (c *counted) ReadAt(p []byte, at journal.LSN, off int) (int, error) {
	c.single++
	return c.memory.ReadAt(p, at, off)
}

func (c *counted) Read(from journal.LSN) iter.Seq2[journal.Record, error] {
	c.many++
	return func(yield func(journal.Record, error) bool) {
		var lent []byte // as the contract of Read has it
		for r := range c.memory.Read(0) {
			lent = append(lent[:0], r.Data...)
			if r.LSN >= from && !yield(journal.Record{LSN: r.LSN, Data: lent}, nil) {
				return
			}
			clear(lent)
		}
	}
}

func (c *counted) Stats() journal.Stats { return journal.Stats{Next: journal.LSN(len(c.records) + 1)} }

func openCounted(t *testing.T) (*ledger.Ledger, *counted) {
	l, shared, _ := open(t)
	c := &counted{}
	shared.Journal = c
	return l, c
}

// payloadOf is a payload of the size that no other job has.
func payloadOf(id job.ID, size int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%08d", id), size/8)
}

// submitMany submits n jobs with payloads of the size.
func submitMany(t *testing.T, l *ledger.Ledger, n, size int) {
	t.Helper()
	for range n {
		err := l.Commit(func(b *ledger.Batch) error {
			id, _ := b.Index().MintJob()
			seq, us := b.Next()
			r := &record.Record{Kind: job.Submit, To: job.Pending, Flags: record.Inline, Seq: seq, Time: us, Job: id,
				Payload: record.Payload{Size: int64(size), Submitted: us, Data: payloadOf(id, size)}}
			r.SetText([]byte("identifier: " + id.String() + "\n"))
			b.Add(r)
			return nil
		})
		must(t, err)
	}
}

// Jobs read in order have what they had, whether few or many readers are on their way,
// and take few reads of the journal if they are small.
func TestRecordsAreReadAhead(t *testing.T) {
	for _, tt := range []struct {
		name         string
		jobs, size   int
		step         int // from job to job
		single, many int // reads of the journal, at most
	}{
		{"small", 1000, 1024, 1, 20, 10},
		{"every third", 1000, 1024, 3, 20, 20},
		{"large", 200, 64 << 10, 1, 200, 10},
		{"few", 10, 1024, 1, 10, 0},
		{"far apart", 1000, 1024, 100, 10, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, c := openCounted(t)
			submitMany(t, l, tt.jobs, tt.size)
			c.single, c.many = 0, 0
			for id := job.ID(1); int(id) <= tt.jobs; id += job.ID(tt.step) {
				v, ok := l.View(id)
				if !ok {
					t.Fatalf("no %v", id)
				}
				text, payload, err := l.Parts(&v, true)
				if err != nil || string(text) != "identifier: "+id.String()+"\n" || !bytes.Equal(payload, payloadOf(id, tt.size)) {
					t.Fatalf("%v: got %q, %d bytes, %v", id, text, len(payload), err)
				}
			}
			if c.single > tt.single || c.many > tt.many {
				t.Errorf("%d and %d reads, want %d and %d at most", c.single, c.many, tt.single, tt.many)
			}
		})
	}
}

// Readers at several places of the journal do not take each other's records.
func TestReadersAtOtherPlaces(t *testing.T) {
	l, _ := openCounted(t)
	const jobs = 3000
	submitMany(t, l, jobs, 512)
	for i := range jobs / 6 {
		for reader := range 6 { // more than there are streams
			id := job.ID(1 + reader*jobs/6 + i)
			v, _ := l.View(id)
			if _, payload, err := l.Parts(&v, true); err != nil || !bytes.Equal(payload, payloadOf(id, 512)) {
				t.Fatalf("%v: got %.20q, %v", id, payload, err)
			}
		}
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
