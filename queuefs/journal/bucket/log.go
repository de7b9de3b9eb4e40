// Package bucket keeps a journal in an object store: a sequence of batches, each an
// object journal/NUMBER, made by a conditional write. Of two writers exactly one gets a
// number.
//
// A process becomes the owner by a claim, a batch at the next number. The former owner
// loses its next write, reads the claim, and stops with a [*FencedError]: nothing of it
// was or will be acknowledged after that number. This needs no clock, no lease and no
// lock service. A write without an answer is read back before anything else happens.
//
// Every batch has a digest of its own, the digest of the batch before, and number and
// digest of the beginning of the journal. So whoever reads finds a missing, swapped or
// damaged batch; a [*DamageError] names it.
//
// Release first writes a batch with the new beginning, which proves ownership, and
// deletes after that, in order. Claims stay for good: an owner that sleeps for long must
// find its next number taken.
//
// A journal may move to a directory and back ([Log.MoveTo], [Expect]). Meanwhile its last
// batch says so, and nobody owns it: Open ends with a [*MovedError].
//
// Others follow: they read batch after batch, and can take over at any time, by the same
// claim. Signs of life of the owner only say when to try: its batches, and without any an
// object beat/CLAIM, replaced every few seconds. Those of the last owners stay.
//
//	number   batch                    after a crash
//	n        none                     the next owner begins at n
//	n        written, no answer yet   it is part of the journal
//	n        claim                    the owner is the one in it
//	n        gone                     the journal is in the directory named in it
//	n        coming                   the same, and the store has not all of it
//	< begins any                      of no use; the next Release deletes all but claims
package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/queuefs/objects"
)

// A Log is a [journal.Journal] in an object store.
type Log struct {
	chain  chain
	me     header // journal, owner and claim of all batches
	recent recent
	memo   memo
	sweep  sweep
	wg     sync.WaitGroup // goroutines that commit

	trouble atomic.Pointer[Trouble] // nil: the last write succeeded
	proving sync.Mutex              // one look for proofs at a time

	mu      sync.Mutex
	lsn     journal.LSN // of the next record; while the log follows, of the next to be applied
	queue   []*group    // not yet written, in order; the last one may gather
	running bool        // somebody commits
	drained chan struct{}
	err     error  // final
	tip     header // of the last durable batch
	begins  beginning
	done    done
	proof   *proof // not begun yet; nil: nobody waits for one
}

// A done is the batches committed.
type done struct {
	bytes   int64
	syncs   journal.Syncs
	callers int           // of the last one
	took    time.Duration // likewise
}

// A group is a batch on its way.
type group struct {
	kind    kind
	first   journal.LSN
	after   journal.LSN
	buf     []byte // with space for the header
	at      []uint32
	callers int
	verify  bool
	begins  *beginning // of a mark: from here on
	done    chan struct{}
	err     error
}

const (
	largeBatch = 256 << 10 // bytes of a batch that waits for nobody
	gatherPart = 4         // of the time of a write a batch gathers
	maxGather  = 2 * time.Millisecond
)

// maxQueue is how many batches may wait before Append asks the caller to wait.
const maxQueue = 8

// Append is [journal.Journal.Append]. It asks to reserve while many batches wait.
func (l *Log) Append(_ journal.Use, records []journal.Contents) (journal.Ticket, error) {
	size := 0
	for i := range records {
		size += records[i].Size()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return journal.Ticket{}, l.err
	case size > maxAppend:
		return journal.Ticket{}, fmt.Errorf("%w: %d bytes", journal.ErrTooLarge, size)
	case len(l.queue) >= maxQueue:
		return journal.Ticket{}, journal.ErrUnready
	}
	g := l.gathering(size)
	t := journal.Ticket{First: l.lsn, Batch: g}
	for i := range records {
		g.at = append(g.at, uint32(len(g.buf)+recHeader))
		g.buf = addRecord(g.buf, &records[i])
		g.verify = g.verify || records[i].Verify
	}
	l.lsn += journal.LSN(len(records))
	g.after = l.lsn
	g.callers++
	return t, nil
}

// gathering returns the batch for size more bytes; l.mu is held. The first one is
// written at once: batches gather while the one before is on its way.
func (l *Log) gathering(size int) *group {
	if n := len(l.queue); n > 0 {
		if g := l.queue[n-1]; g.kind == records && len(g.buf)+size <= maxBatch {
			return g
		}
	}
	return l.begin(records)
}

// begin puts a batch at the end of the queue; l.mu is held.
func (l *Log) begin(of kind) *group {
	g := &group{kind: of, first: l.lsn, after: l.lsn, buf: make([]byte, headerSize, headerSize+8<<10), done: make(chan struct{})}
	l.queue = append(l.queue, g)
	if !l.running {
		l.running = true
		l.wg.Go(l.run)
	}
	return g
}

// Wait is [journal.Ticket.Wait].
func (g *group) Wait() (journal.LSN, error) {
	<-g.done
	return g.after, g.err
}

// run commits batch after batch until none waits.
func (l *Log) run() {
	for {
		g, err := l.take()
		if g == nil {
			return
		}
		var h header
		if err == nil {
			h, err = l.write(g)
		}
		l.committed(g, &h, err)
		close(g.done)
	}
}

// take returns the next batch, complete, or nil if there is none. The error is the one
// the log failed with before.
func (l *Log) take() (*group, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.gathers(); wait > 0 {
		l.mu.Unlock()
		time.Sleep(wait)
		l.mu.Lock()
	}
	if len(l.queue) == 0 {
		l.running = false
		return nil, nil
	}
	g := l.queue[0]
	l.queue = append(l.queue[:0], l.queue[1:]...)
	if l.drained != nil {
		close(l.drained)
		l.drained = nil
	}
	if ends(l.err) {
		return g, nil
	}
	return g, l.err
}

// ends reports whether batches on their way are still written, though no more are taken.
func ends(err error) bool {
	return errors.Is(err, journal.ErrClosed) || errors.Is(err, journal.ErrFollowing)
}

// gathers returns how long the next batch is left to gather; l.mu is held. The callers of
// the last one are about to append again: a part of the time of a write spares them one
// of their own. A lone caller waits for nobody.
func (l *Log) gathers() time.Duration {
	if len(l.queue) != 1 || l.done.callers < 2 || l.err != nil {
		return 0
	}
	if g := l.queue[0]; g.kind != records || g.callers >= l.done.callers || len(g.buf) > largeBatch {
		return 0
	}
	return min(l.done.took/gatherPart, maxGather)
}

// write puts a batch on stable storage. This is the commit point of every operation.
func (l *Log) write(g *group) (header, error) {
	h := l.me
	h.kind, h.first, h.count, h.size = g.kind, g.first, int(g.after-g.first), len(g.buf)-headerSize
	l.mu.Lock()
	h.number, h.prev, h.begins = l.tip.number+1, l.tip.own, l.begins
	l.mu.Unlock()
	if g.begins != nil {
		h.begins = *g.begins
	}
	if g.kind == gone {
		h.claim = h.number
	}
	h.seal(g.buf)
	began := time.Now()
	err := l.chain.put(context.Background(), h.number, g.buf, l.troubled)
	took := time.Since(began)
	if err == nil && g.verify {
		err = l.readBack(h.number, g.buf)
	}
	switch {
	case errors.Is(err, errTaken):
		return h, l.taken(h.number)
	case err != nil:
		return h, fmt.Errorf("%w: %w", journal.ErrFailed, err)
	}
	l.trouble.Store(nil)
	l.mu.Lock()
	l.done.syncs.Add(took)
	l.done.callers, l.done.took = g.callers, took
	l.mu.Unlock()
	return h, nil
}

func (l *Log) readBack(number uint64, buf []byte) error {
	there, err := l.chain.read(context.Background(), number, int64(len(buf))+1)
	if err == nil && !bytes.Equal(there, buf) {
		err = damage(number, "reads back as other bytes than were written")
	}
	return err
}

// taken returns the error for a number that another process has written.
func (l *Log) taken(number uint64) error {
	h, err := l.chain.header(context.Background(), number)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", journal.ErrFailed, err)
	case h.owner == l.me.owner || h.journal != l.me.journal:
		return fmt.Errorf("%w: %w", journal.ErrFailed, damage(number, "is not the batch that was written there"))
	}
	by, err := l.chain.ownerOf(context.Background(), &h)
	if err != nil {
		return &FencedError{By: fmt.Sprintf("batch %d is another's, and who it is cannot be read: %v", number, err)}
	}
	return &FencedError{By: by.Name}
}

// committed notes the outcome of a batch.
func (l *Log) committed(g *group, h *header, failed error) {
	if g.err = failed; failed == nil {
		l.recent.add(h, g.at, g.buf)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case failed == nil:
		l.tip, l.begins = *h, h.begins
		l.done.bytes += int64(len(g.buf))
	case l.err == nil || ends(l.err):
		l.err = failed
	}
	g.buf = nil
}

// control commits a batch without records.
func (l *Log) control(of kind, begins *beginning, body ...byte) error {
	l.mu.Lock()
	if l.err != nil && of != left && of != gone {
		defer l.mu.Unlock()
		return l.err
	}
	g := l.begin(of)
	g.begins, g.buf = begins, append(g.buf, body...)
	l.mu.Unlock()
	_, err := g.Wait()
	return err
}

// Reserve is [journal.Journal.Reserve].
func (l *Log) Reserve(journal.Use, int, int) error {
	for {
		l.mu.Lock()
		if l.err != nil || len(l.queue) < maxQueue {
			defer l.mu.Unlock()
			return l.err
		}
		if l.drained == nil {
			l.drained = make(chan struct{})
		}
		drained := l.drained
		l.mu.Unlock()
		<-drained
	}
}

// Release is [journal.Journal.Release]. The batches are deleted later, by the time of
// Close at most.
func (l *Log) Release(before journal.LSN) error {
	l.mu.Lock()
	tip, begins, err := l.tip, l.begins, l.err
	l.mu.Unlock()
	if err != nil || before <= begins.lsn {
		return err
	}
	to := beginning{number: tip.number + 1, lsn: tip.after(), prev: tip.own}
	if before < tip.after() {
		if to.number, err = l.find(before, begins.number, tip.number+1); err != nil || to.number <= begins.number {
			return err
		}
		h, err := l.chain.header(context.Background(), to.number)
		if err != nil {
			return err
		}
		to.lsn, to.prev = h.first, h.prev
	}
	// From here on the journal begins there. Only an owner gets this far.
	if err := l.control(mark, &to); err != nil {
		return err
	}
	l.recent.release(to.number)
	l.sweep.upTo(l, to.number)
	return nil
}

// Prove writes a batch without records: after it the log was the owner when Prove was
// called.
func (l *Log) Prove() error { return l.control(mark, nil) }

// Trim is [journal.Journal.Trim]: nothing is kept for speed on a disk of the store.
func (l *Log) Trim() error { return nil }

// Lookout asks the store whether another process owns the journal. The error is then a
// [*FencedError], and nothing can be appended any more. Of a journal that failed with
// [objects.ErrAway] it is [ErrBack] once the store does all again: the journal can be
// opened again.
func (l *Log) Lookout() error {
	l.mu.Lock()
	next, busy, err := l.tip.number+1, l.running, l.err
	l.mu.Unlock()
	switch {
	case err != nil:
		return l.back(err)
	case busy:
		return nil
	}
	return l.look(context.Background(), next)
}

// look looks in the store for a batch of another process from a number on. Without one this
// process was the owner when look was called.
func (l *Log) look(ctx context.Context, next uint64) error {
	h, err := l.chain.header(ctx, next)
	for ; err == nil && h.owner == l.me.owner; h, err = l.chain.header(ctx, next) {
		next++ // written meanwhile
	}
	switch {
	case errors.Is(err, objects.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	err = l.taken(next)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	return err
}

// A proof is a look at the store for all who wait for one.
type proof struct {
	done chan struct{}
	err  error
}

// Owns returns nil if this process owned the journal at some time during the call, by a look
// at the store. Calls at the same time share a look that begins after them.
func (l *Log) Owns(ctx context.Context) error {
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return l.err
	}
	p := l.proof
	if p == nil {
		p = &proof{done: make(chan struct{})}
		l.proof = p
		l.wg.Go(func() { l.prove(p) })
	}
	l.mu.Unlock()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// proofTime is how long a look for a proof is repeated.
const proofTime = 5 * time.Second

// prove makes a proof, after the one before.
func (l *Log) prove(p *proof) {
	l.proving.Lock()
	defer l.proving.Unlock()
	l.mu.Lock()
	next, err := l.tip.number+1, l.err
	l.proof = nil // later calls need a later look
	l.mu.Unlock()
	if p.err = err; err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), min(l.chain.patience, proofTime))
		p.err = l.look(ctx, next)
		cancel()
	}
	close(p.done)
}

// Stats is [journal.Journal.Stats].
func (l *Log) Stats() journal.Stats {
	held := l.recent.heldBytes()
	l.mu.Lock()
	defer l.mu.Unlock()
	return journal.Stats{First: l.begins.lsn, Next: min(l.lsn, l.tip.after()), Held: held, Written: l.done.bytes, MaxAppend: maxAppend, Syncs: l.done.syncs}
}

// Close is [journal.Journal.Close]. A last batch says that the owner has left.
func (l *Log) Close() error { return l.close(left) }

// MoveTo is Close for a journal that goes on in a directory: the last batch says so, and
// nobody owns the journal after it. After an error it may be there or not.
func (l *Log) MoveTo(directory Owner) error { return l.close(gone, directory.text()...) }

// close ends the journal with a last batch.
func (l *Log) close(last kind, body ...byte) error {
	l.mu.Lock()
	closed := errors.Is(l.err, journal.ErrClosed)
	failed := l.err
	if failed == nil || ends(failed) {
		l.err = journal.ErrClosed
	}
	l.mu.Unlock()
	if closed {
		return nil
	}
	l.sweep.close()
	var err error
	switch {
	case failed == nil:
		err = l.control(last, nil, body...)
	case last == gone:
		err = failed
	}
	l.wg.Wait()
	return errors.Join(err, l.recent.close())
}

var _ journal.Journal = (*Log)(nil)

// Options are the settings of a [Log].
type Options struct {
	Owner Owner

	// Take is asked before the journal is taken from the owner before, or from the directory
	// it has gone to. An error ends Open. nil: it is taken from an owner. Of an owner with a
	// lost claim only the name is set: it says so.
	Take func(from Owner) error

	// Near is the number of a batch that is or was there, to look for the end from; 0: not
	// known.
	Near uint64

	// Patience is how long a request is repeated before the journal fails; 0 means 30 s.
	Patience time.Duration

	// Temp is for files that spare requests; they have no names. nil: there are none.
	Temp *durable.Dir
	Most int64 // bytes of these files; 0 means 2 GiB
}

// attempts is how often Open tries to get a number before a busy owner does.
const attempts = 1000

// Open becomes the owner of the journal in a store, or begins one. The former owner is
// fenced when Open returns.
func Open(ctx context.Context, s objects.Store, o Options) (*Log, error) {
	c := chain{store: s, patience: cmp.Or(o.Patience, 30*time.Second)}
	if err := c.probe(ctx); err != nil {
		return nil, err
	}
	me := newOwner()
	var asked [16]byte // the owner that Take was asked about
	for range attempts {
		end, err := c.end(ctx, o.Near)
		if err != nil {
			return nil, err
		}
		h, err := c.claim(ctx, me, end, &o, &asked)
		switch {
		case errors.Is(err, errTaken):
			o.Near = end + 1
			continue
		case err != nil:
			return nil, err
		}
		return begin(ctx, c, h, &o)
	}
	return nil, fmt.Errorf("the journal did not stand still in %d attempts to take it from its owner", attempts)
}

// newOwner is the header of the claim of a new owner.
func newOwner() header {
	h := header{kind: claim}
	rand.Read(h.owner[:])
	return h
}

// probeTime is how long a probe is repeated.
const probeTime = 2 * time.Second

// probe is [objects.Probe]; a store may ask to try again. A refusal is told at once.
func (c *chain) probe(ctx context.Context) error {
	short := chain{store: c.store, patience: min(c.patience, probeTime)}
	return short.again(ctx, func(ctx context.Context) (bool, error) {
		err := objects.Probe(ctx, c.store)
		return objects.Refused(err), err
	})
}

// claim makes me the owner after the batch end. The error is errTaken if another batch
// is there, or if the batch is of no use.
func (c *chain) claim(ctx context.Context, me header, end uint64, o *Options, asked *[16]byte) (header, error) {
	me.number, me.claim, me.first = end+1, end+1, 1
	me.begins = beginning{number: 1, lsn: 1}
	if end == 0 {
		rand.Read(me.journal[:])
	} else {
		last, err := c.header(ctx, end)
		if errors.Is(err, objects.ErrNotExist) {
			return me, errTaken // released meanwhile
		}
		if err != nil {
			return me, err
		}
		if last.kind == coming || last.kind == gone && o.Take == nil {
			return me, c.moved(ctx, &last)
		}
		if last.owner != *asked && o.Take != nil {
			from, err := c.ownerOf(ctx, &last)
			if bad := new(DamageError); errors.As(err, &bad) {
				from.Name, err = "unknown, for "+bad.Error(), nil
			}
			if err == nil {
				err = o.Take(from)
			}
			if err != nil {
				return me, err
			}
		}
		*asked = last.owner
		me.journal, me.first, me.begins, me.prev = last.journal, last.after(), last.begins, last.own
	}
	return c.place(ctx, me, o.Owner.text())
}

// place writes a batch without records after the last one. The error is errTaken if
// another batch is there, or if the batch is of no use.
func (c *chain) place(ctx context.Context, h header, body []byte) (header, error) {
	buf := append(make([]byte, headerSize), body...)
	h.size = len(body)
	h.seal(buf)
	if err := c.put(ctx, h.number, buf, func(error) {}); err != nil {
		return h, err
	}
	return h, c.live(ctx, h.number-1)
}

// live returns errTaken if the batch after end was made where another one had been
// released: this process slept in between. Then there are later batches, and end may be
// gone.
func (c *chain) live(ctx context.Context, end uint64) error {
	if end > 0 {
		if _, err := c.header(ctx, end); errors.Is(err, objects.ErrNotExist) {
			return errTaken
		} else if err != nil {
			return err
		}
	}
	if _, err := c.header(ctx, end+2); err == nil {
		return errTaken
	} else if !errors.Is(err, objects.ErrNotExist) {
		return err
	}
	later, err := c.list(ctx, end+1, 1)
	if err == nil && len(later) > 0 {
		return errTaken
	}
	return err
}

// begin opens the log of an owner with its claim.
func begin(ctx context.Context, c chain, h header, o *Options) (*Log, error) {
	l := &Log{chain: c, me: header{journal: h.journal, owner: h.owner, claim: h.claim}, tip: h, begins: h.begins, lsn: h.after(),
		recent: recent{temp: o.Temp, most: cmp.Or(o.Most, 2<<30)}}
	l.recent.add(&h, nil, nil)
	if err := l.verifyEnd(ctx, h); err != nil {
		return nil, err
	}
	return l, nil
}

// verifyEnd verifies the batch before the claim.
func (l *Log) verifyEnd(ctx context.Context, h header) error {
	if h.number == h.begins.number {
		return nil
	}
	_, b, err := l.chain.load(ctx, h.number-1)
	if err != nil {
		return l.gone(h.number-1, err)
	}
	if b.own != h.prev || b.journal != h.journal {
		return damage(b.number, "was replaced")
	}
	return nil
}

// ownerOf returns the owner that wrote a batch.
func (c *chain) ownerOf(ctx context.Context, h *header) (o Owner, err error) {
	_, b, err := c.load(ctx, h.claim)
	if errors.Is(err, objects.ErrNotExist) {
		err = damage(h.claim, "is missing")
	}
	if err == nil {
		if o, err = parseOwner(b.body); err != nil {
			err = damage(h.claim, err.Error())
		}
	}
	o.Left, o.Gone, o.Coming, o.Claim = h.kind == left, h.kind == gone, h.kind == coming, h.claim
	return o, err
}

// ID identifies the journal.
func (l *Log) ID() string { return hex.EncodeToString(l.me.journal[:]) }

// Claim returns the number of the last claim: while the log owns the journal, its own.
func (l *Log) Claim() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tip.claim
}

const (
	maxBatch  = 4 << 20  // bytes where a batch stops gathering; one Append may be larger
	maxAppend = 16 << 20 // bytes of one Append
	// maxObject is the most bytes of a batch: one Append on top of a batch that
	// gathers, and its records are not empty.
	maxObject = headerSize + maxBatch + (1+recHeader)*maxAppend
)

// A chain is the objects of a journal.
type chain struct {
	store    objects.Store
	patience time.Duration // how long a request is repeated
}

// again is [objects.Again].
func (c *chain) again(ctx context.Context, try func(ctx context.Context) (done bool, err error)) error {
	return objects.Again(ctx, c.patience, try)
}

// read returns the first most bytes of a batch. Without such an object the error is
// [objects.ErrNotExist].
func (c *chain) read(ctx context.Context, number uint64, most int64) (buf []byte, err error) {
	err = c.again(ctx, func(ctx context.Context) (bool, error) {
		if buf, err = readSome(ctx, c.store, nameOf(number), most); errors.Is(err, objects.ErrNotExist) {
			return true, err
		}
		return false, err
	})
	return buf, err
}

// readSome returns the first most bytes of an object.
func readSome(ctx context.Context, s objects.Store, name string, most int64) ([]byte, error) {
	r, err := s.Get(ctx, name, most)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	buf := bytes.NewBuffer(make([]byte, 0, headerSize+bytes.MinRead))
	_, err = buf.ReadFrom(io.LimitReader(r, headerSize))
	if h, e := parseHeader(buf.Bytes()); err == nil && e == nil { // room for the whole batch at once
		buf.Grow(int(min(int64(h.size), most-headerSize)) + bytes.MinRead)
	}
	if err == nil {
		_, err = buf.ReadFrom(r)
	}
	return buf.Bytes(), err
}

// header returns the header of a batch, unverified but for its number.
func (c *chain) header(ctx context.Context, number uint64) (header, error) {
	buf, err := c.read(ctx, number, headerSize)
	if err != nil {
		return header{}, err
	}
	h, err := parseHeader(buf)
	if err == nil && h.number != number {
		err = fmt.Errorf("is batch %d", h.number)
	}
	if err != nil {
		return h, damage(number, err.Error())
	}
	return h, nil
}

// load returns the bytes of a batch, verified by itself.
func (c *chain) load(ctx context.Context, number uint64) ([]byte, batch, error) {
	buf, err := c.read(ctx, number, maxObject)
	if err != nil {
		return nil, batch{}, err
	}
	b, err := parse(buf)
	if err == nil && b.number != number {
		err = fmt.Errorf("is batch %d", b.number)
	}
	if err != nil {
		return nil, b, damage(number, err.Error())
	}
	return buf, b, nil
}

// put writes a batch at its number. An attempt without an answer may have been done, or
// be done later: the object is read back, and only where there is none is it tried
// again, with the same bytes, after a call of failing. The error is errTaken if other bytes
// are there.
func (c *chain) put(ctx context.Context, number uint64, buf []byte, failing func(error)) error {
	return c.again(ctx, func(ctx context.Context) (bool, error) {
		failed := c.store.Create(ctx, nameOf(number), buf)
		if failed == nil {
			return true, nil
		}
		there, err := readSome(ctx, c.store, nameOf(number), int64(len(buf))+1)
		switch {
		case err == nil && bytes.Equal(there, buf):
			return true, nil
		case err == nil:
			return true, errTaken
		case errors.Is(failed, objects.ErrExist):
			failed = fmt.Errorf("%w, but it cannot be read: %w", failed, err) // by a store that contradicts itself, for as long as it does
		}
		failing(failed)
		return false, failed
	})
}

// errTaken: a batch of another process is at the number.
var errTaken = errors.New("batch number is taken")

// list returns up to most numbers of batches after a number, in order.
func (c *chain) list(ctx context.Context, after uint64, most int) (numbers []uint64, err error) {
	var names []string
	err = c.again(ctx, func(ctx context.Context) (bool, error) {
		names, err = c.store.List(ctx, prefix, nameOf(after), most)
		return false, err
	})
	for _, name := range names {
		if n := numberOf(name); n > 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers, err
}

// end returns the number of the last batch, 0 if there is none. hint is a number near
// the end, or 0. Lists find the end even if a batch before it is missing; they may lack
// the last ones, which are asked for by number.
func (c *chain) end(ctx context.Context, hint uint64) (uint64, error) {
	last, step := hint, uint64(1)
	none := uint64(math.MaxUint64) // there is no batch after it, by a list
	for last < none {
		at := last + (none-last)/2
		if none == math.MaxUint64 {
			at = last + step - 1
			step *= 2
		}
		found, err := c.list(ctx, at, 1)
		switch {
		case err != nil:
			return 0, err
		case len(found) > 0:
			last = found[0]
		default:
			none = at
		}
	}
	for n := last; ; n++ {
		switch _, err := c.header(ctx, n+1); {
		case errors.Is(err, objects.ErrNotExist):
			return n, nil
		case err != nil:
			return 0, err
		}
	}
}

// find returns the number of the batch with a record, of those from low up to but
// without high. With an error it is the number of the unread batch.
func (c *chain) find(ctx context.Context, at journal.LSN, low, high uint64) (uint64, error) {
	var failed error
	unread := uint64(0)
	n := sort.Search(int(high-low), func(i int) bool {
		if failed != nil {
			return true
		}
		h, err := c.header(ctx, low+uint64(i))
		if err != nil {
			failed, unread = err, low+uint64(i)
		}
		return err == nil && h.after() > at
	})
	if failed != nil {
		return unread, failed
	}
	return low + uint64(n), nil
}

// A Trouble is about writes of the owner refused by the store.
type Trouble struct {
	Since time.Time // of the first one
	Err   error     // of the last one
}

// Trouble returns the present trouble; nil if the last write succeeded.
func (l *Log) Trouble() *Trouble { return l.trouble.Load() }

// troubled notes a failed write.
func (l *Log) troubled(err error) {
	t := Trouble{time.Now(), err}
	if was := l.trouble.Load(); was != nil {
		t.Since = was.Since
	}
	l.trouble.Store(&t)
}

// ErrBack: the journal failed because the store could not be used, and now it can be.
var ErrBack = errors.New("the store answers again")

// back returns [ErrBack] for the failure of a log, if the store was the reason and does all
// again.
func (l *Log) back(failure error) error {
	if errors.Is(failure, objects.ErrAway) && objects.Probe(context.Background(), l.chain.store) == nil {
		return ErrBack
	}
	return failure
}
