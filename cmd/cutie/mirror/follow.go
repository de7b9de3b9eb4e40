package mirror

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cutie/publisher/destination/source"
	"cutie/queuefs"
	"cutie/sitemap"
)

// How an original is followed.
const (
	longPoll     = 55 * time.Second       // wait of one request
	leastBetween = 20 * time.Millisecond  // two requests
	quickPoll    = 1 * time.Second        // where the Source does not wait
	transitPause = 100 * time.Millisecond // until files in transit are looked at again
	manyEvents   = 10_000                 // replayed before more are read
	maxBacklog   = 500_000                // events waiting for files in transit
)

// replay follows the original until there is an error.
func (f *follower) replay(ctx context.Context) error {
	if f.backlog == nil {
		f.backlog = newBacklog(f)
	}
	b := f.backlog
	b.since = time.Time{}
	since, first := f.position(), true
	for {
		switch m := f.q.Mirror(); {
		case !m.Live():
			return errOver
		case m.List != f.list:
			return fmt.Errorf("%s follows %s now", f.id, m.Source)
		}
		began := time.Now()
		wait := longPoll
		if first || len(b.events) > 0 {
			wait = 0
		}
		came, done := 0, false
		err := f.changes(ctx, &since, wait, func(events []*event) error {
			events, err := f.fresh(events)
			if err == nil {
				events, err = b.fresh(events)
			}
			if err == nil {
				err = f.seamless(b, events)
			}
			if err != nil {
				return err
			}
			came += len(events)
			if b.add(events); len(b.events) < manyEvents {
				return nil
			}
			some, err := b.work(ctx)
			f.progress(b, false)
			if done = done || some; err == nil && len(b.events) > maxBacklog {
				err = fmt.Errorf("%d events wait for files of the original: %w", len(b.events), b.missing)
			}
			return err
		})
		if err != nil {
			return err
		}
		first = false
		f.state.Contact = time.Now().UTC().Truncate(time.Microsecond)
		some, err := b.work(ctx)
		f.progress(b, true)
		if done = done || some; err != nil {
			return err
		}
		f.trouble(b.trouble())
		pause := leastBetween - time.Since(began)
		switch {
		case len(b.events) > 0 && !done && came == 0:
			pause = transitPause
		case came == 0 && wait > 0 && time.Since(began) < time.Second:
			pause = quickPoll // the Source does not wait
		}
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// changes gives the events after a cursor to take, in parts, and moves it behind them.
func (f *follower) changes(ctx context.Context, since *source.Cursor, wait time.Duration, take func([]*event) error) error {
	var last []sitemap.Entry // of the last event, which may go on in the next part
	give := func(entries []sitemap.Entry) error {
		events, err := f.events(entries)
		if err != nil || len(events) == 0 {
			return err
		}
		return take(events)
	}
	err := f.set.Changes(ctx, *since, wait, func(part source.Batch) error {
		*since = part.Next
		f.newest = max(f.newest, queuefs.Seq(part.Newest))
		entries := append(last, part.Entries...)
		n := len(entries)
		for n > 0 && entries[n-1].Seq == entries[len(entries)-1].Seq {
			n--
		}
		last = slices.Clone(entries[n:])
		return give(entries[:n])
	})
	if err != nil {
		return err
	}
	return give(last)
}

// progress says how far the mirror is; with all, all lists were read.
func (f *follower) progress(b *backlog, all bool) {
	last, _ := f.q.LastEvent()
	f.state.Known = max(last, f.newest)
	if all && len(b.events) == 0 {
		f.state.Synced = f.state.Contact
	}
	f.q.Original().SetProgress(f.state)
}

// position returns the cursor to begin with: behind the last event in the journal, but
// so the list gives this event again, for a comparison.
func (f *follower) position() source.Cursor {
	_, at := f.q.LastEvent()
	if m := f.q.Mirror(); !at.After(m.At) { // nothing was replayed; the copy may know no number
		return source.Cursor{Time: m.At, Seq: uint64(m.Event)}
	}
	return source.Cursor{Time: at.Add(-time.Microsecond)}
}

// fresh leaves out events the mirror has, and compares the last one of them.
func (f *follower) fresh(events []*event) ([]*event, error) {
	seq, at := f.q.LastEvent()
	m := f.q.Mirror()
	for len(events) > 0 && events[0].Seq <= seq && at.After(m.At) {
		if e := events[0]; e.Seq == seq && !e.Time.Equal(at) || e.Seq < seq && e.Time.After(at) {
			return nil, fmt.Errorf("%w: event %d is of %s here, and of %s there", queuefs.ErrDiverged, e.Seq, queuefs.FormatTime(at), queuefs.FormatTime(e.Time))
		}
		events = events[1:]
	}
	return events, nil
}

// seamless refuses events with numbers missing before them, the first time: an original
// passes over a number for an event of no file, rarely; a list passed over would be a
// loss. Read again they are taken.
func (f *follower) seamless(b *backlog, events []*event) error {
	last, at := f.q.LastEvent()
	if n := len(b.events); n > 0 {
		last = b.events[n-1].Seq
	} else if !at.After(f.q.Mirror().At) {
		return nil // the copy may not know its number
	}
	for _, e := range events {
		if e.Seq > last+1 && e.Seq > f.gap {
			f.gap = e.Seq
			return fmt.Errorf("events %d to %d are in no list; they are looked for once more", last+1, e.Seq-1)
		}
		last = e.Seq
	}
	return nil
}
