package bucket

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/objects"
)

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
