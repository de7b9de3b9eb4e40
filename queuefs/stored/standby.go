package stored

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"cutie/queuefs/image"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/record"
)

// A role is the relation of a process to its home: it owns it, or follows its owner.
type role struct {
	me       bucket.Owner
	owner    atomic.Pointer[bucket.Owner] // by the last batch applied; nil: this process
	upToDate atomic.Int64                 // µs: all batches of this time are applied
}

// Following reports whether this process follows an owner, present or past. A home in its
// directory has none.
func (h *Home) Following() bool { return h != nil && h.role.owner.Load() != nil }

// Owner returns the owner of the home, and whether it is another process than this one, or
// has left.
func (h *Home) Owner() (o bucket.Owner, following bool) {
	if o := h.role.owner.Load(); o != nil {
		return *o, true
	}
	return h.role.me, false
}

// Left reports whether this process was the last owner, and has left.
func (h *Home) Left() bool {
	o := h.role.owner.Load()
	return o != nil && o.Left && o.Home == h.role.me.Home
}

// UpToDate returns up to when this process has all changes of the owner.
func (h *Home) UpToDate() time.Time { return time.UnixMicro(h.role.upToDate.Load()) }

// follow opens the journal of its owner.
func (h *Home) follow(ctx context.Context, s objects.Store, o bucket.Options) (err error) {
	now := time.Now()
	if h.Log, err = bucket.Follow(ctx, s, o); err != nil {
		return err
	}
	h.role.upToDate.Store(now.UnixMicro())
	return h.findOwner(ctx)
}

// findOwner asks the journal for the owner. One whose claim is lost is unknown: with
// Options.TakeOver the home is taken all the same.
func (h *Home) findOwner(ctx context.Context) error {
	o, err := h.Log.Owner(ctx)
	if bad := new(bucket.DamageError); h.options.TakeOver && errors.As(err, &bad) {
		o.Name, err = "unknown, for "+bad.Error(), nil
	}
	if err == nil {
		h.role.owner.Store(&o)
	}
	return err
}

// Next returns the next batch of the owner, with its payloads and results in the
// directory; nil if there is none yet. To apply it is up to the caller.
func (h *Home) Next(ctx context.Context) (*bucket.Next, error) {
	now := time.Now()
	n, err := h.Log.Next(ctx)
	if n == nil || err != nil {
		if err == nil {
			h.role.upToDate.Store(now.UnixMicro())
		}
		return nil, err
	}
	var names []string
	for rec := range n.Records {
		if _, is, err := record.ParseHomeChange(rec.Data); is || err != nil {
			continue
		}
		var r record.Record
		if err := r.Parse(rec.Data); err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(r.Temp, "/")
		switch {
		case r.Result != nil:
			if err := h.temp.Renew(name, r.Result); err != nil {
				return nil, err
			}
		case r.Flags&(record.InTemp|record.Result) != 0:
			names = append(names, strings.Clone(name))
		}
	}
	return n, h.fetchSome(ctx, names)
}

// fetchSome is Fetch without an error for objects gone: their jobs are culled later in the
// journal.
func (h *Home) fetchSome(ctx context.Context, names []string) error {
	damage := new(image.DamageError)
	err := h.Fetch(ctx, names)
	if !errors.As(err, &damage) {
		return err
	}
	for _, name := range names {
		if err := h.Fetch(ctx, []string{name}); err != nil && !errors.As(err, &damage) {
			return err
		}
	}
	return nil
}

// Applied notes a batch as applied.
func (h *Home) Applied(ctx context.Context, n *bucket.Next) error {
	if !n.Control() {
		return nil
	}
	return h.findOwner(ctx)
}

// TakeOver makes this process the owner, if it has applied all there is; else the error
// is [bucket.ErrBehind]. Own must follow. After another error it may be tried again.
func (h *Home) TakeOver(ctx context.Context) error {
	if err := h.Log.TakeOver(ctx, h.role.me); err != nil {
		return err
	}
	h.marker.own(h.Log.Claim())
	err := h.Images.renew(ctx)
	if err != nil && h.Absent.Len() == 0 { // all files are here
		err = h.Images.without(err)
	}
	return err
}

// Claimed reports whether a takeover has claimed the journal and was cut off then:
// [Home.TakeOver] goes on with it. Until Own no other process is the owner, and this one makes no changes.
func (h *Home) Claimed() bool { return h.Following() && h.Log.Err() == nil }

// Own ends the following: from here on this process makes changes.
func (h *Home) Own() { h.role.owner.Store(nil) }

// Leave gives the home up: another process may own it, and this one follows. Changes on
// their way are finished before.
func (h *Home) Leave() error {
	me := h.role.me
	me.Left = true
	h.role.owner.Store(&me)
	if err := h.Log.Leave(); err != nil {
		if errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrFailed) {
			h.fail(err)
		}
		return err
	}
	return nil
}

// Pulse gives signs of life of the owner.
func (h *Home) Pulse() *bucket.Pulse { return &bucket.Pulse{Log: h.Log} }

// Vigil watches the owner.
func (h *Home) Vigil() *bucket.Vigil { return &bucket.Vigil{Log: h.Log, Now: time.Now} }
