package bucket

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"cutie/queuefs/journal"
	"cutie/queuefs/objects"
)

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
