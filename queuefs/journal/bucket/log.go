package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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
