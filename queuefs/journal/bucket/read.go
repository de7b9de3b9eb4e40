package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"cutie/queuefs/journal"
	"cutie/queuefs/objects"
)

// A memo is the last batch read from the store, for the next of its records.
type memo struct {
	mu    sync.Mutex
	buf   []byte
	at    []uint32
	first journal.LSN
}

// bounds returns the end of the journal and its beginning, or why it is not read.
func (l *Log) bounds() (tip header, begins beginning, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.err, journal.ErrClosed) {
		err = l.err
	}
	return l.tip, l.begins, err
}

// find returns the number of the batch with a record.
func (l *Log) find(at journal.LSN, low, high uint64) (uint64, error) {
	e, ok, low, high := l.recent.find(at, low, high)
	if ok {
		return e.number, nil
	}
	n, err := l.chain.find(context.Background(), at, low, high)
	return n, l.gone(n, err)
}

// gone gives the error for a batch that is not there its meaning.
func (l *Log) gone(number uint64, err error) error {
	if !errors.Is(err, objects.ErrNotExist) {
		return err
	}
	tip, begins, _ := l.bounds()
	if number < begins.number {
		return journal.ErrReleased
	}
	if errors.Is(l.Err(), journal.ErrFollowing) {
		switch now, err := l.beginning(context.Background(), tip.number); {
		case err != nil:
			return err
		case number < now:
			return fmt.Errorf("batch %d: %w", number, ErrPassed)
		}
	}
	return damage(number, "is missing")
}

// ReadAt is [journal.Journal.ReadAt].
func (l *Log) ReadAt(p []byte, at journal.LSN, off int) (int, error) {
	tip, begins, err := l.bounds()
	switch {
	case err != nil:
		return 0, err
	case at >= tip.after():
		return 0, journal.ErrNoRecord
	}
	e, ok, low, high := l.recent.find(at, begins.number, tip.number+1)
	if ok {
		n, err := e.readAt(p, int(at-e.first), off)
		if err == nil {
			return n, ended(n, len(p))
		}
		low, high = e.number, e.number+1
	}
	// A follower may read here after its owner has released the batch: its files are
	// behind those of the owner.
	if at < begins.lsn {
		return 0, journal.ErrReleased
	}
	l.memo.mu.Lock()
	defer l.memo.mu.Unlock()
	m := &l.memo
	if m.buf == nil || at < m.first || at >= m.first+journal.LSN(len(m.at)) {
		number, err := l.chain.find(context.Background(), at, low, high)
		if err == nil {
			err = m.load(&l.chain, number)
		}
		if err != nil {
			return 0, l.gone(number, err)
		}
		if at < m.first || at >= m.first+journal.LSN(len(m.at)) {
			return 0, damage(number, "does not have its records")
		}
	}
	record := recordAt(m.buf, m.at[at-m.first])
	if off >= len(record) {
		return 0, io.EOF
	}
	n := copy(p, record[off:])
	return n, ended(n, len(p))
}

func (m *memo) load(c *chain, number uint64) error {
	buf, b, err := c.load(context.Background(), number)
	if err != nil {
		return err
	}
	at, err := b.offsets()
	if err != nil {
		return damage(number, err.Error())
	}
	m.buf, m.at, m.first = buf, at, b.first
	return nil
}

// ended returns io.EOF if the n bytes read are fewer than were wanted.
func ended(n, want int) error {
	if n < want {
		return io.EOF
	}
	return nil
}

// A reader fetches batches before they are asked for: as many as have aheadBytes, if they are
// like the last one.
const (
	leastAhead = 8
	mostAhead  = 64
	aheadBytes = 8 << 20
)

func aheadOf(last int) uint64 {
	return uint64(min(max(leastAhead, aheadBytes/max(last, 1)), mostAhead))
}

// A fetched is a batch on its way from the store.
type fetched struct {
	buf  []byte
	err  error
	done chan struct{}
}

// Read is [journal.Journal.Read]. Every batch from the store must follow the one before.
func (l *Log) Read(from journal.LSN) iter.Seq2[journal.Record, error] {
	tip, begins, err := l.bounds()
	return func(yield func(journal.Record, error) bool) {
		fail := func(err error) { yield(journal.Record{}, err) }
		number := begins.number
		switch {
		case err != nil:
			fail(err)
			return
		case from == 0:
		case from < begins.lsn:
			fail(journal.ErrReleased)
			return
		case from >= tip.after():
			return
		default:
			if number, err = l.find(from, begins.number, tip.number+1); err != nil {
				fail(err)
				return
			}
		}
		v := verifier{journal: l.me.journal}
		if number == begins.number {
			v.know(begins.lsn, begins.prev)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		var coming []*fetched
		ahead := uint64(leastAhead)
		for next := number; number <= tip.number; number++ {
			for ; next <= tip.number && next < number+ahead; next++ {
				var f *fetched // nil: it is here
				if _, here := l.recent.entry(next); !here {
					f = l.fetch(ctx, &wg, next)
				}
				coming = append(coming, f)
			}
			f := coming[0]
			coming = coming[1:]
			if f == nil {
				if e, here := l.recent.entry(number); here {
					read, more := e.records(from, yield)
					if !more {
						return
					}
					if from = read; read >= e.after() {
						v.know(e.after(), e.own)
						continue
					}
				}
				f = l.fetch(ctx, &wg, number) // its bytes have just been let go
			}
			<-f.done
			if f.err != nil {
				fail(l.gone(number, f.err))
				return
			}
			ahead = aheadOf(len(f.buf))
			b, err := v.next(number, f.buf)
			if err == nil {
				var at []uint32
				if at, err = b.offsets(); err == nil {
					l.recent.add(&b.header, at, f.buf)
				}
				for i, p := range at {
					lsn := b.first + journal.LSN(i)
					if lsn >= from && !yield(journal.Record{LSN: lsn, Data: recordAt(f.buf, p)}, nil) {
						return
					}
				}
			}
			if err != nil {
				fail(err)
				return
			}
		}
	}
}

// fetch begins to get the bytes of a batch.
func (l *Log) fetch(ctx context.Context, wg *sync.WaitGroup, number uint64) *fetched {
	f := &fetched{done: make(chan struct{})}
	wg.Go(func() {
		defer close(f.done)
		f.buf, f.err = l.chain.read(ctx, number, maxObject)
	})
	return f
}

// A verifier checks that batches follow each other.
type verifier struct {
	journal [16]byte
	known   bool
	lsn     journal.LSN
	prev    digest
}

func (v *verifier) know(lsn journal.LSN, prev digest) { v.known, v.lsn, v.prev = true, lsn, prev }

// next parses and checks the next batch.
func (v *verifier) next(number uint64, buf []byte) (b batch, err error) {
	switch b, err = parse(buf); {
	case err != nil:
		return b, damage(number, err.Error())
	case b.number != number:
		err = damageOf(number, "is batch %d", b.number)
	case b.journal != v.journal:
		err = damage(number, "is of another journal")
	case v.known && b.prev != v.prev:
		err = damage(number, "does not follow the batch before it: one of the two was replaced")
	case v.known && b.first != v.lsn:
		err = damageOf(number, "begins with record %d, not %d", b.first, v.lsn)
	}
	v.know(b.after(), b.own)
	return b, err
}
