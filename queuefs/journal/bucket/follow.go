package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"cutie/queuefs/journal"
	"cutie/queuefs/objects"
)

// ErrBehind: the journal has a batch after the last one read.
var ErrBehind = errors.New("the journal has gone on")

// ErrPassed: the owner of the journal has released what this log has not read yet. It is a
// [journal.ErrReleased].
var ErrPassed = fmt.Errorf("%w by its owner", journal.ErrReleased)

// Follow opens the journal of another owner up to its last batch. The log reads, and
// everything else ends with [journal.ErrFollowing], until TakeOver. In a store without a
// journal the error is [objects.ErrNotExist].
func Follow(ctx context.Context, s objects.Store, o Options) (*Log, error) {
	c := chain{store: s, patience: cmp.Or(o.Patience, 30*time.Second)}
	for {
		end, err := c.end(ctx, o.Near)
		if err != nil {
			return nil, err
		}
		if end == 0 {
			return nil, objects.ErrNotExist
		}
		_, last, err := c.load(ctx, end)
		if errors.Is(err, objects.ErrNotExist) {
			o.Near = end // released meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if last.moves() {
			return nil, c.moved(ctx, &last.header)
		}
		l := &Log{chain: c, me: header{journal: last.journal}, tip: last.header, begins: last.begins, lsn: last.after(),
			err: journal.ErrFollowing, recent: recent{temp: o.Temp, most: cmp.Or(o.Most, 2<<30)}}
		return l, nil
	}
}

// A Next is the batch after the last one read.
type Next struct {
	log *Log
	batch
	buf []byte
	at  []uint32
}

// Next reads the batch after the last one; nil if there is none yet. If the journal has
// moved to a directory the error is a [*MovedError].
func (l *Log) Next(ctx context.Context) (*Next, error) {
	l.mu.Lock()
	tip, err := l.tip, l.err
	l.mu.Unlock()
	if !errors.Is(err, journal.ErrFollowing) {
		return nil, err
	}
	number := tip.number + 1
	buf, err := l.chain.read(ctx, number, maxObject)
	if errors.Is(err, objects.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := verifier{journal: l.me.journal}
	v.know(tip.after(), tip.own)
	n := &Next{log: l, buf: buf}
	if n.batch, err = v.next(number, buf); err == nil {
		if n.at, err = n.offsets(); err != nil {
			err = damage(number, err.Error())
		}
	}
	if err != nil {
		return nil, errors.Join(l.passed(ctx), err)
	}
	if n.moves() {
		return nil, l.chain.moved(ctx, &n.header)
	}
	return n, nil
}

// Records are the records of the batch, lent.
func (n *Next) Records(yield func(journal.Record) bool) {
	for i, at := range n.at {
		if !yield(journal.Record{LSN: n.first + journal.LSN(i), Data: recordAt(n.buf, at)}) {
			return
		}
	}
}

// Control reports whether the batch may change the owner of the journal.
func (n *Next) Control() bool { return n.kind == claim || n.kind == left }

// Apply makes the records of the batch readable, and calls apply with each. When it
// returns, Stats counts them. After an error the log must be opened again.
func (n *Next) Apply(apply func(journal.Record) error) error {
	l := n.log
	l.recent.add(&n.header, n.at, n.buf)
	l.mu.Lock()
	l.tip, l.begins = n.header, n.batch.begins
	l.mu.Unlock()
	for r := range n.Records {
		if err := apply(r); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.lsn = n.after()
	l.done.bytes += int64(len(n.buf))
	l.mu.Unlock()
	return nil
}

// passed returns [journal.ErrReleased] if the journal begins after the next batch: its
// owner has released batches not read yet.
func (l *Log) passed(ctx context.Context) error {
	l.mu.Lock()
	tip := l.tip
	l.mu.Unlock()
	now, err := l.beginning(ctx, tip.number)
	if err == nil && now > tip.number+1 {
		err = fmt.Errorf("batch %d: %w", tip.number+1, ErrPassed)
	}
	return err
}

// beginning returns the number of the batch that the journal begins with now, 0 without one
// after a number.
func (l *Log) beginning(ctx context.Context, after uint64) (uint64, error) {
	end, err := l.chain.end(ctx, after)
	if err != nil || end <= after {
		return 0, err
	}
	h, err := l.chain.header(ctx, end)
	return h.begins.number, err
}

// Owner returns the owner of the journal by the last batch read.
func (l *Log) Owner(ctx context.Context) (Owner, error) {
	l.mu.Lock()
	tip := l.tip
	l.mu.Unlock()
	return l.chain.ownerOf(ctx, &tip)
}

// mostIdle is how many batches Idle looks at.
const mostIdle = 256

// Idle reports whether all batches of the journal after those of an owner have no records, by
// the last batch read: others have claimed the journal since, and changed nothing.
func (l *Log) Idle(ctx context.Context, claim uint64) (bool, error) {
	tip, begins, err := l.bounds()
	h := tip
	for n := 0; err == nil && claim > 0 && n < mostIdle; n++ {
		switch {
		case h.claim == claim:
			return true, nil
		case h.claim < claim, h.count > 0, h.moves(), h.number <= begins.number:
			return false, nil
		}
		h, err = l.chain.header(ctx, h.number-1)
	}
	if errors.Is(err, objects.ErrNotExist) || errors.As(err, new(*DamageError)) {
		return false, nil
	}
	return false, err
}

// Err returns why nothing can be appended, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Position returns the number of the last batch.
func (l *Log) Position() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tip.number
}

// Beginning returns the number of the first batch.
func (l *Log) Beginning() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begins.number
}

// TakeOver makes a following log the owner. With batches not read yet the error is
// [ErrBehind]: the caller reads on, and tries again. If they were released it is
// [journal.ErrReleased].
func (l *Log) TakeOver(ctx context.Context, o Owner) error {
	l.mu.Lock()
	tip, err := l.tip, l.err
	l.mu.Unlock()
	if !errors.Is(err, journal.ErrFollowing) {
		return err
	}
	if err := l.passed(ctx); err != nil {
		return err
	}
	me := newOwner()
	h, err := l.chain.claim(ctx, me, tip.number, &Options{Owner: o}, new([16]byte))
	switch {
	case errors.Is(err, errTaken):
		return ErrBehind
	case err != nil:
		return err
	case h.prev != tip.own || h.journal != tip.journal:
		return damage(tip.number, "was replaced")
	}
	l.recent.add(&h, nil, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.me.owner, l.me.claim = h.owner, h.claim
	l.tip, l.begins, l.lsn, l.err = h, h.begins, h.after(), nil
	return nil
}

// Leave ends the ownership, after all batches on their way. The log
// follows from then on.
func (l *Log) Leave() error {
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return l.err
	}
	l.err = journal.ErrFollowing
	l.mu.Unlock()
	l.sweep.close() // the next owner deletes
	return l.control(left, nil)
}
