package bucket

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"cutie/queuefs/durable"
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

const (
	chunks     = 32       // files at most
	leastKnown = 16       // batches known without asking the store, at least
	perBatch   = 32 << 10 // bytes of files for each of more such batches
)

// recent are batches to be read soon: those of records whose files are still to be
// written. Their bytes are in temporary files without names, and only spare requests.
type recent struct {
	temp *durable.Dir // nil: there are no such files
	most int64        // bytes of all files

	mu      sync.RWMutex
	entries []entry // by number, with gaps
	chunks  []*chunk
	held    int64 // bytes of the batches
}

// An entry is a batch with the offsets of its records.
type entry struct {
	number uint64
	first  journal.LSN
	size   int
	own    digest
	at     []uint32
	chunk  *chunk // nil: the bytes are in the store alone
	start  int64  // in the chunk
}

func (e *entry) after() journal.LSN { return e.first + journal.LSN(len(e.at)) }

type chunk struct {
	f    *os.File
	size int64
}

// add adds a batch, unless it is there.
func (r *recent) add(h *header, at []uint32, buf []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, there := r.place(h.number)
	if there {
		return
	}
	e := entry{number: h.number, first: h.first, size: len(buf), own: h.own, at: at}
	if h.count > 0 {
		e.chunk, e.start = r.write(buf)
	}
	r.entries = slices.Insert(r.entries, i, e)
	r.held += int64(len(buf))
	if most := max(leastKnown, int(r.most/perBatch)); len(r.entries) > most {
		r.drop(most / 8)
	}
}

// place returns where the batch is, or would be; mu is held.
func (r *recent) place(number uint64) (int, bool) {
	return slices.BinarySearchFunc(r.entries, number, func(e entry, n uint64) int {
		switch {
		case e.number < n:
			return -1
		case e.number > n:
			return 1
		}
		return 0
	})
}

// write puts the bytes of a batch into a file. Without space there they stay in the store
// alone.
func (r *recent) write(buf []byte) (*chunk, int64) {
	if r.temp == nil {
		return nil, 0
	}
	if n := len(r.chunks); n == 0 || r.chunks[n-1].size >= r.most/chunks {
		f, name, err := r.temp.Temp()
		if err != nil {
			return nil, 0
		}
		if err := r.temp.Remove(name); err != nil {
			f.Close()
			return nil, 0
		}
		r.chunks = append(r.chunks, &chunk{f: f})
		if n == chunks {
			r.dropChunk()
		}
	}
	c := r.chunks[len(r.chunks)-1]
	start := c.size
	if _, err := c.f.WriteAt(buf, start); err != nil {
		return nil, 0
	}
	c.size += int64(len(buf))
	return c, start
}

// dropChunk lets go of the oldest file.
func (r *recent) dropChunk() {
	old := r.chunks[0]
	r.chunks = slices.Delete(r.chunks, 0, 1)
	for i := range r.entries {
		if r.entries[i].chunk == old {
			r.entries[i].chunk = nil
		}
	}
	old.f.Close()
}

// drop lets go of the n oldest batches.
func (r *recent) drop(n int) {
	for i := range r.entries[:n] {
		r.held -= int64(r.entries[i].size)
	}
	r.entries = slices.Delete(r.entries, 0, n)
	for len(r.chunks) > 1 && !slices.ContainsFunc(r.entries, func(e entry) bool { return e.chunk == r.chunks[0] }) {
		r.dropChunk()
	}
}

// release lets go of batches before a number.
func (r *recent) release(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := r.place(number)
	r.drop(i)
}

// find returns the batch with a record. Without it low and high bound the numbers of
// batches to look at in the store, from those given.
func (r *recent) find(at journal.LSN, low, high uint64) (e entry, ok bool, _, _ uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, _ := slices.BinarySearchFunc(r.entries, at, func(e entry, at journal.LSN) int {
		if e.after() > at {
			return 1
		}
		return -1
	})
	if i < len(r.entries) {
		if e := r.entries[i]; e.first <= at {
			return e, true, low, high
		}
		high = min(high, r.entries[i].number)
	}
	if i > 0 {
		low = max(low, r.entries[i-1].number+1)
	}
	return e, false, low, high
}

// errNotHere: the bytes are in the store alone.
var errNotHere = errors.New("batch is not here")

// entry returns a batch, if all of it is here.
func (r *recent) entry(number uint64) (e entry, here bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, there := r.place(number)
	if !there {
		return e, false
	}
	e = r.entries[i]
	return e, e.chunk != nil || len(e.at) == 0
}

// pieceSize is how many bytes of records are read at a time, if they are not larger.
const pieceSize = 256 << 10

// records yields the records of the batch from a number on. It returns the number after
// the last one that could be read, and whether more are wanted.
func (e *entry) records(from journal.LSN, yield func(journal.Record, error) bool) (read journal.LSN, more bool) {
	i := 0
	if from > e.first {
		i = int(min(from, e.after()) - e.first)
	}
	var piece []byte
	for i < len(e.at) {
		start, last := int(e.at[i])-recHeader, i+1
		for last < len(e.at) && e.end(last)-start <= pieceSize {
			last++
		}
		if n := e.end(last-1) - start; n > cap(piece) {
			piece = make([]byte, n)
		} else {
			piece = piece[:n]
		}
		if _, err := e.chunk.f.ReadAt(piece, e.start+int64(start)); err != nil {
			return e.first + journal.LSN(i), true
		}
		for ; i < last; i++ {
			if !yield(journal.Record{LSN: e.first + journal.LSN(i), Data: recordAt(piece, e.at[i]-uint32(start))}, nil) {
				return 0, false
			}
		}
	}
	return max(from, e.after()), true
}

// end returns where record i ends.
func (e *entry) end(i int) int {
	if i+1 < len(e.at) {
		return int(e.at[i+1]) - recHeader
	}
	return e.size
}

// readAt reads record i of the batch from the offset off into p.
func (e *entry) readAt(p []byte, i, off int) (int, error) {
	if e.chunk == nil {
		return 0, errNotHere
	}
	end := e.end(i)
	start := min(int(e.at[i])+off, end)
	n, err := e.chunk.f.ReadAt(p[:min(len(p), end-start)], e.start+int64(start))
	if err != nil {
		return 0, errNotHere
	}
	return n, nil
}

// heldBytes returns the bytes of the batches known.
func (r *recent) heldBytes() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.held
}

func (r *recent) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, c := range r.chunks {
		errs = append(errs, c.f.Close())
	}
	r.chunks, r.entries = nil, nil
	return errors.Join(errs...)
}

// add adds a record to the bytes of a batch.
func addRecord(buf []byte, c *journal.Contents) []byte {
	buf = binary.LittleEndian.AppendUint32(buf, uint32(c.Size()))
	return append(append(buf, c.Head...), c.Body...)
}

// A State is a journal as it stands, seen from outside.
type State struct {
	ID          string
	Owner       Owner
	Begin, End  uint64      // numbers of the first and the last batch
	First, Next journal.LSN // of the oldest record; after the last one

	// Damage has a [*DamageError] for each batch after End, and for the claim of the
	// owner, that cannot be read.
	Damage []error
}

// Look looks at the journal in a store, and changes nothing. It ends with the last batch
// with a header. Without a journal the error is [objects.ErrNotExist].
func Look(ctx context.Context, s objects.Store, patience time.Duration) (st State, err error) {
	c := chain{store: s, patience: patience}
	end, err := c.end(ctx, 0)
	if err != nil {
		return st, err
	}
	if end == 0 {
		return st, objects.ErrNotExist
	}
	bad := new(DamageError)
	var damaged []error
	h, err := c.header(ctx, end)
	for ; errors.As(err, &bad) && end > 1; h, err = c.header(ctx, end) {
		damaged = append(damaged, err)
		end--
	}
	if errors.Is(err, objects.ErrNotExist) {
		err = damaged[0] // nothing before it is there
	}
	if err != nil {
		return st, err
	}
	st = State{ID: hex.EncodeToString(h.journal[:]), Begin: h.begins.number, End: end, First: h.begins.lsn, Next: h.after(), Damage: damaged}
	if st.Owner, err = c.ownerOf(ctx, &h); errors.As(err, &bad) {
		st.Owner.Name = "unknown"
		st.Damage, err = append(st.Damage, err), nil
	}
	return st, err
}

// Verify reads all batches of a journal and calls visit with their records. bad is called
// with a [*DamageError] for each missing or damaged batch, or one out of the
// sequence. It returns the bytes of the journal. Errors of the store end it.
func Verify(ctx context.Context, s objects.Store, patience time.Duration, st *State, bad func(error), visit func(journal.Record)) (bytes int64, err error) {
	l := &Log{chain: chain{store: s, patience: patience}}
	h, err := l.chain.header(ctx, st.End)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	v := verifier{journal: h.journal}
	v.know(st.First, h.begins.prev)
	var coming []*fetched
	next := st.Begin
	for number := st.Begin; number <= st.End; number++ {
		for ; next <= st.End && next < number+leastAhead; next++ {
			coming = append(coming, l.fetch(ctx, &wg, next))
		}
		f := coming[0]
		coming = coming[1:]
		<-f.done
		if errors.Is(f.err, objects.ErrNotExist) {
			bad(damage(number, "is missing"))
			v.known = false
			continue
		}
		if f.err != nil {
			return bytes, f.err
		}
		bytes += int64(len(f.buf))
		b, err := v.next(number, f.buf)
		var at []uint32
		if err == nil {
			if at, err = b.offsets(); err != nil {
				err = damage(number, err.Error())
			}
		}
		if err != nil {
			bad(err)
			v.known = v.known && b.number == number // of one that cannot be read nothing is known
			continue
		}
		for i, p := range at {
			visit(journal.Record{LSN: b.first + journal.LSN(i), Data: recordAt(f.buf, p)})
		}
	}
	return bytes, nil
}
