package bucket

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"cutie/queuefs/journal"
	"cutie/queuefs/objects"
)

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
