package bucket

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/queuefs/journal"
	"cutie/queuefs/objects"
)

// A batch is one object of the journal. A number is that of a batch, from 1 on.
//
//	magic | journal | owner | claim u64 | number u64 | first LSN u64 | count u32 | size u32
//	kind u32 | zero u32 | begins: number u64, LSN u64, digest before | digest before | own digest
//	body: for each record its size u32 and its bytes; of a claim the owner; of a move the
//	directory
//
// The own digest is the SHA-256 of all other bytes.
type batch struct {
	header
	body []byte
}

type header struct {
	journal [16]byte // names the journal, the same in all batches
	owner   [16]byte // who wrote the batch
	claim   uint64   // number of the claim of the owner
	number  uint64
	first   journal.LSN // number of the first record, or of the next one
	count   int         // records
	size    int         // bytes of the body
	kind    kind
	begins  beginning
	prev    digest // of the batch before
	own     digest
}

// A beginning is where a journal begins: at the oldest batch not released.
type beginning struct {
	number uint64
	lsn    journal.LSN
	prev   digest // of the batch before, zero if there was none
}

type digest [sha256.Size]byte

type kind uint32

const (
	records kind = iota
	claim        // the owner is another one from here on
	mark         // says where the journal begins
	left         // the owner has closed the journal
	gone         // the journal goes on in a directory
	coming       // a journal of a directory is about to go on here
	kinds
)

const (
	magic      = "cutie-b1"
	headerSize = 192
	ownAt      = headerSize - sha256.Size
	recHeader  = 4
)

// prefix is that of the names of batches.
const prefix = "journal/"

// nameOf returns the name of the object of a batch.
func nameOf(number uint64) string { return fmt.Sprintf("%s%020d", prefix, number) }

// numberOf is the opposite of nameOf; 0 if name is not one of its names.
func numberOf(name string) (number uint64) {
	digits, ok := strings.CutPrefix(name, prefix)
	if _, err := fmt.Sscanf(digits, "%d", &number); !ok || err != nil || nameOf(number) != name {
		return 0
	}
	return number
}

// seal writes the header over the beginning of buf, the bytes of the batch, and computes
// its digest.
func (h *header) seal(buf []byte) {
	le := binary.LittleEndian
	b := append(buf[:0], magic...)
	b = append(b, h.journal[:]...)
	b = append(b, h.owner[:]...)
	b = le.AppendUint64(b, h.claim)
	b = le.AppendUint64(b, h.number)
	b = le.AppendUint64(b, uint64(h.first))
	b = le.AppendUint32(b, uint32(h.count))
	b = le.AppendUint32(b, uint32(h.size))
	b = le.AppendUint64(b, uint64(h.kind))
	b = le.AppendUint64(b, h.begins.number)
	b = le.AppendUint64(b, uint64(h.begins.lsn))
	b = append(b, h.begins.prev[:]...)
	b = append(b, h.prev[:]...)
	h.own = sum(buf)
	copy(buf[len(b):], h.own[:])
}

// sum returns the digest of the bytes of a batch.
func sum(buf []byte) (d digest) {
	s := sha256.New()
	s.Write(buf[:ownAt])
	s.Write(buf[headerSize:])
	s.Sum(d[:0])
	return d
}

var errForm = errors.New("is no batch of a journal")

// parseHeader reads the header that buf begins with; nothing is verified but its form.
func parseHeader(buf []byte) (h header, err error) {
	le := binary.LittleEndian
	if len(buf) < headerSize || string(buf[:8]) != magic {
		return h, errForm
	}
	copy(h.journal[:], buf[8:])
	copy(h.owner[:], buf[24:])
	h.claim, h.number, h.first = le.Uint64(buf[40:]), le.Uint64(buf[48:]), journal.LSN(le.Uint64(buf[56:]))
	h.count, h.size = int(le.Uint32(buf[64:])), int(le.Uint32(buf[68:]))
	of := le.Uint64(buf[72:])
	h.kind = kind(of)
	h.begins.number, h.begins.lsn = le.Uint64(buf[80:]), journal.LSN(le.Uint64(buf[88:]))
	copy(h.begins.prev[:], buf[96:])
	copy(h.prev[:], buf[128:])
	copy(h.own[:], buf[ownAt:])
	if of >= uint64(kinds) || h.number == 0 {
		return h, errForm
	}
	return h, nil
}

// parse reads a whole batch and verifies its digest.
func parse(buf []byte) (b batch, err error) {
	if b.header, err = parseHeader(buf); err != nil {
		return b, err
	}
	b.body = buf[headerSize:]
	switch {
	case len(b.body) < b.size:
		return b, fmt.Errorf("is cut off: %d of %d bytes", len(b.body), b.size)
	case len(b.body) > b.size:
		return b, fmt.Errorf("has %d bytes, not %d", len(b.body), b.size)
	case sum(buf) != b.own:
		return b, errors.New("does not have its digest")
	}
	return b, nil
}

// after returns the number of the record after the batch.
func (h *header) after() journal.LSN { return h.first + journal.LSN(h.count) }

// offsets returns where in the bytes of the batch its records begin.
func (b *batch) offsets() ([]uint32, error) {
	at := make([]uint32, 0, b.count)
	p := 0
	for range b.count {
		if p+recHeader > len(b.body) {
			return nil, errForm
		}
		at = append(at, uint32(headerSize+p+recHeader))
		size := int(binary.LittleEndian.Uint32(b.body[p:]))
		if p += recHeader; size > len(b.body)-p {
			return nil, errForm
		}
		p += size
	}
	return at, nil
}

// recordAt returns the record of a batch at an offset.
func recordAt(buf []byte, at uint32) []byte {
	size := binary.LittleEndian.Uint32(buf[at-recHeader:])
	return buf[at : at+size : at+size]
}

// An Owner is a process that owns a journal, or the directory the journal has moved to.
type Owner struct {
	Home   string // identifies its home: a home may go on after itself
	Name   string // for people
	URL    string // where it answers clients; "": nobody knows
	Left   bool   // it has closed the journal
	Gone   bool   // it is a directory where the journal goes on; the store has all up to there
	Coming bool   // it is a directory whose journal is about to go on here
	Claim  uint64 // number of the batch by which it became the owner
}

// text is two or three lines: former versions know no URL.
func (o *Owner) text() []byte {
	text := o.Home + "\n" + o.Name + "\n"
	if o.URL != "" {
		text += o.URL + "\n"
	}
	return []byte(text)
}

func parseOwner(text []byte) (o Owner, err error) {
	lines := strings.Split(string(text), "\n")
	n := len(lines) - 1
	if n < 2 || n > 3 || lines[n] != "" {
		return o, errForm
	}
	o = Owner{Home: lines[0], Name: lines[1]}
	if n == 3 {
		o.URL = lines[2]
	}
	return o, nil
}

// A FencedError says who owns the journal now. It wraps [journal.ErrFenced].
type FencedError struct{ By string }

func (e *FencedError) Error() string { return fmt.Sprintf("%v: %s", journal.ErrFenced, e.By) }
func (e *FencedError) Unwrap() error { return journal.ErrFenced }

// A DamageError names a damaged or missing batch.
type DamageError struct {
	Name, Text string
	Number     uint64 // of the batch
}

func (e *DamageError) Error() string { return e.Name + " " + e.Text }

func damageOf(number uint64, format string, args ...any) error {
	return damage(number, fmt.Sprintf(format, args...))
}

// damage returns the error for a batch.
func damage(number uint64, text string) error { return &DamageError{nameOf(number), text, number} }

// An owner with nothing to write gives a sign of life in an object of its own, replaced
// again and again. So an idle home makes no journal, and a former owner waking up replaces
// nothing of the present one. It has the number of the last batch of the owner: a follower
// without this batch, and with none to read, has missed some.

const beatPrefix = "beat/"

// beatName returns the name of the object with the signs of life of an owner.
func beatName(claim uint64) string { return fmt.Sprintf("%s%020d", beatPrefix, claim) }

// beatTime is how long one sign of life may take, and one look for it.
const beatTime = 5 * time.Second

// A Pulse gives signs of life of an owner. It is for one caller at a time.
type Pulse struct {
	Log   *Log
	tip   uint64
	swept uint64 // the claim for which former signs of life were deleted
}

// Keep calls Beat every so often until ctx ends, and failed with its errors.
func (p *Pulse) Keep(ctx context.Context, every time.Duration, failed func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := p.Beat(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}

// Beat gives a sign of life, unless a batch since the last call was one. While the log
// follows it does nothing.
func (p *Pulse) Beat(ctx context.Context) error {
	p.Log.mu.Lock()
	tip, err := p.Log.tip, p.Log.err
	p.Log.mu.Unlock()
	if err != nil || tip.number != p.tip {
		p.tip = tip.number
		return nil
	}
	one, cancel := context.WithTimeout(ctx, beatTime)
	defer cancel()
	text := fmt.Sprintln(tip.number, rand.Text()) // another one than before, by whichever Pulse
	if err = p.Log.chain.store.Put(one, beatName(tip.claim), strings.NewReader(text), int64(len(text))); err == nil {
		p.Log.trouble.Store(nil)
		p.sweep(ctx, tip.claim)
	} else if ctx.Err() == nil {
		p.Log.troubled(err)
	}
	return err
}

// The signs of life of the last formerBeats owners stay, and one call of sweep takes no
// longer than sweepTime: the next sign of life must not be late.
const (
	formerBeats = 4
	sweepBeats  = 16
	sweepTime   = time.Second
)

// sweep deletes the signs of life of owners long before a claim, some at a time. Nobody needs
// them: a follower without news asks for the beginning of the journal, and a former owner
// waking up makes its object again at most.
func (p *Pulse) sweep(ctx context.Context, claim uint64) {
	if p.swept == claim {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	names, err := p.Log.chain.store.List(ctx, beatPrefix, "", sweepBeats+formerBeats)
	if err != nil {
		return // the next sign of life goes on
	}
	own, _ := slices.BinarySearch(names, beatName(claim))
	if own <= formerBeats {
		p.swept = claim
		return
	}
	for _, name := range names[:own-formerBeats] {
		if p.Log.chain.store.Delete(ctx, name) != nil {
			return
		}
	}
}

// A Vigil watches the owner of a following log. It is for one caller at a time.
type Vigil struct {
	Log *Log
	Now func() time.Time

	tip    uint64
	beat   string
	seen   time.Time // of the last sign of life, or of a failed request
	looked time.Time
}

// lookEvery is the pause between two looks for a sign of life. The log may have missed
// released batches if the owner has more than it found, or after longSilent.
const (
	lookEvery  = 400 * time.Millisecond
	longSilent = 5 * time.Second
)

// Silent returns for how long the owner has given no sign of life. Failures of the store
// are no silence of the owner. The error is [journal.ErrReleased] if the owner has
// released batches not read yet.
func (v *Vigil) Silent(ctx context.Context) (time.Duration, error) {
	v.Log.mu.Lock()
	tip := v.Log.tip
	v.Log.mu.Unlock()
	now := v.Now()
	if tip.number != v.tip {
		v.tip, v.seen, v.looked = tip.number, now, now
	}
	if now.Sub(v.looked) < lookEvery {
		return now.Sub(v.seen), nil
	}
	one, cancel := context.WithTimeout(ctx, beatTime)
	beat, err := objects.Read(one, v.Log.chain.store, beatName(tip.claim), 64)
	cancel()
	if errors.Is(err, objects.ErrNotExist) {
		err = nil
	}
	var last uint64 // batch of the owner; not in the signs of former programs
	_, _ = fmt.Sscan(string(beat), &last)
	if err == nil && (last > tip.number || now.Sub(v.seen) >= longSilent) {
		err = v.Log.passed(ctx)
	}
	v.looked = v.Now()
	switch {
	case err != nil:
		v.seen = v.looked
	case string(beat) != v.beat:
		v.beat, v.seen = string(beat), v.looked
	}
	return v.looked.Sub(v.seen), err
}

// A sweep deletes released batches, oldest first, one after the other: a batch that is
// gone says that all before it are.
type sweep struct {
	wg sync.WaitGroup

	mu      sync.Mutex
	to      uint64 // number of the batch to stop at
	running bool
	stop    func()
}

// perList is how many names are asked for at a time.
const perList = 1000

// upTo deletes the batches before a number, in the background. After an error the next
// call goes on.
func (s *sweep) upTo(l *Log, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = number
	if s.running {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.running, s.stop = true, cancel
	s.wg.Go(func() {
		defer cancel()
		for done := uint64(0); ; {
			s.mu.Lock()
			to := s.to
			if to == done {
				s.running = false
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			if done = to; l.deleteBefore(ctx, to) != nil {
				continue // the next release finds what is left
			}
		}
	})
}

// close ends the deleting: what is left is for the next owner.
func (s *sweep) close() {
	s.mu.Lock()
	if s.stop != nil {
		s.stop()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// deleteBefore deletes the batches before number to, except those that stay for good.
func (l *Log) deleteBefore(ctx context.Context, to uint64) error {
	for after := uint64(0); after < to; {
		numbers, err := l.chain.list(ctx, after, perList)
		if err != nil {
			return err
		}
		i, _ := slices.BinarySearch(numbers, to)
		if numbers = numbers[:i]; len(numbers) == 0 {
			return nil
		}
		after = numbers[len(numbers)-1]
		if numbers, err = l.deletable(ctx, numbers); err != nil {
			return err
		}
		for _, n := range numbers {
			err := l.chain.again(ctx, func(ctx context.Context) (bool, error) {
				return false, l.chain.store.Delete(ctx, nameOf(n))
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// deletable leaves claims out of ascending numbers. The last batch of each owner tells
// the number of its claim.
func (l *Log) deletable(ctx context.Context, numbers []uint64) (rest []uint64, err error) {
	claimed := l.me.claim
	for _, n := range slices.Backward(numbers) {
		if n < claimed {
			h, err := l.chain.header(ctx, n)
			switch {
			case errors.Is(err, objects.ErrNotExist):
				continue // deleted by a former owner
			case err != nil:
				return nil, err
			}
			claimed = h.claim
		}
		if n != claimed {
			rest = append(rest, n)
		}
	}
	slices.Reverse(rest)
	return rest, nil
}

// A MovedError: the journal is in a directory.
type MovedError struct {
	To     Owner // the directory
	Coming bool  // it is about to come into the store
}

func (e *MovedError) Error() string {
	if e.Coming {
		return "a home is on its way into the object store, and not all of it is there; it is still in " + e.To.Name
	}
	return "the home has moved from the object store to " + e.To.Name
}

// moves reports whether the journal is in a directory after the batch.
func (h *header) moves() bool { return h.kind == gone || h.kind == coming }

// moved returns the error for a journal in a directory.
func (c *chain) moved(ctx context.Context, h *header) error {
	o, err := c.ownerOf(ctx, h)
	if err != nil {
		return err
	}
	return &MovedError{To: o, Coming: h.kind == coming}
}

// An Arrival is a journal of a directory about to go on in a store. Until Begin nobody
// else begins one there.
type Arrival struct {
	chain chain
	owner Owner
	last  header // says that it comes
}

// ErrThere: the store has a journal already.
var ErrThere = errors.New("the object store has a home already")

// Expect takes the place of a journal in a store for one of a directory. A former attempt
// of the same directory goes on. If the store has a journal of its own the error is
// [ErrThere], or a [*MovedError] if that has gone to another directory.
func Expect(ctx context.Context, s objects.Store, from Owner, patience time.Duration) (*Arrival, error) {
	a := &Arrival{chain: chain{store: s, patience: cmp.Or(patience, 30*time.Second)}, owner: from}
	if err := a.chain.probe(ctx); err != nil {
		return nil, err
	}
	end, err := a.chain.end(ctx, 0)
	if err != nil {
		return nil, err
	}
	h := header{kind: coming, number: end + 1, claim: end + 1, first: 1}
	rand.Read(h.owner[:])
	if end == 0 {
		rand.Read(h.journal[:])
	} else {
		last, err := a.chain.header(ctx, end)
		if err != nil {
			return nil, err
		}
		if !last.moves() {
			return nil, ErrThere
		}
		to, err := a.chain.ownerOf(ctx, &last)
		if err != nil {
			return nil, err
		}
		if to.Home != from.Home {
			return nil, &MovedError{To: to, Coming: last.kind == coming}
		}
		if last.kind == coming {
			a.last = last
			return a, nil
		}
		h.journal, h.first, h.prev = last.journal, last.after(), last.own
	}
	h.begins = beginning{number: h.number, lsn: h.first, prev: h.prev}
	if a.last, err = a.chain.place(ctx, h, from.text()); errors.Is(err, errTaken) {
		err = ErrThere
	}
	return a, err
}

// ID identifies the journal.
func (a *Arrival) ID() string { return hex.EncodeToString(a.last.journal[:]) }

// Claim returns the number of the batch of Begin.
func (a *Arrival) Claim() uint64 { return a.last.number + 1 }

// Begin lets the journal go on with the record next. From here on it is in the store, left
// by the directory it came from. After an error it may be so or not.
func (a *Arrival) Begin(ctx context.Context, next journal.LSN) error {
	h := a.last
	h.kind, h.number, h.claim, h.first, h.prev = left, a.Claim(), a.Claim(), next, a.last.own
	h.begins = beginning{number: h.number, lsn: next, prev: a.last.own}
	_, err := a.chain.place(ctx, h, a.owner.text())
	if errors.Is(err, errTaken) {
		err = fmt.Errorf("another process has come first: %w", ErrThere)
	}
	return err
}
