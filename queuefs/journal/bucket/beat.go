package bucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cutie/queuefs/objects"
)

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
