package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/ledger"
	"cutie/queuefs/objects"
	"cutie/queuefs/watch"
	"cutie/queuefs/web"
)

// NodeOptions are the settings of a daemon among others with the same home in a store.
type NodeOptions struct {
	URL           string        // where clients and other daemons reach this one
	Changes       Changes       // what a standby does with changes
	TakeoverAfter time.Duration // silence of the owner before a standby takes over; 0: it never does
	Store         *objects.Counter
}

// A node is this daemon among the daemons of a home in a store: the owner, or a standby. A
// standby follows the owner and takes over. Changes wait while the owner is replaced.
type node struct {
	NodeOptions
	svc       *queuefs.Service
	log       zerolog.Logger
	lost      chan<- error // told when this daemon cannot go on
	step      sync.Mutex   // one step of following, or one change of the owner, at a time
	vigil     *bucket.Vigil
	pulse     *bucket.Pulse
	turned    watch.Signal // the owner may be another one
	silent    atomic.Bool  // the owner gives no signs of life
	changing  inWork       // changes in progress
	grace     func() time.Duration
	taken     atomic.Int64      // how often
	transport http.RoundTripper // to the owner
}

const (
	beatEvery   = 2500 * time.Millisecond // signs of life of the owner, at least four until a takeover
	followEvery = 100 * time.Millisecond
	quietTime   = 2 * beatEvery    // of the owner, until requests are not sent there any more
	holdTime    = 10 * time.Second // of a change for an owner about to come
	offerTime   = 5 * time.Second  // for a standby to take a home given up
)

// newNode returns nil for a home in its directory. grace is the time for changes in progress
// before the home is given up.
func newNode(svc *queuefs.Service, o NodeOptions, log zerolog.Logger, grace func() time.Duration, lost chan<- error) *node {
	st, stored := svc.Standing()
	if !stored {
		return nil
	}
	n := &node{NodeOptions: o, svc: svc, log: log, grace: grace, lost: lost, vigil: svc.Vigil(), pulse: svc.Pulse(), transport: newTransport()}
	if st.Standby {
		log.Info().Str("owner", st.Owner.Name).Str("url", st.Owner.URL).Msg("standby")
	}
	return n
}

// loops are those of the node.
func (n *node) loops() []loop {
	if n == nil {
		return nil
	}
	return []loop{{"sign of life", n.beat(), n.pulse.Beat}, {"follow", followEvery, n.follow}}
}

// beat is the pause between two signs of life.
func (o *NodeOptions) beat() time.Duration {
	if o.TakeoverAfter > 0 {
		return min(beatEvery, o.TakeoverAfter/4)
	}
	return beatEvery
}

// standby reports whether another daemon owns the home.
func (n *node) standby() bool { return n != nil && n.svc.Standby() }

// owned returns a task of a loop for the owner alone.
func (n *node) owned(do func(context.Context) error) func(context.Context) error {
	if n == nil {
		return do
	}
	return func(ctx context.Context) error {
		if n.standby() {
			return nil
		}
		err := do(ctx)
		if errors.Is(err, journal.ErrFollowing) {
			return nil // it has just left
		}
		return err
	}
}

// follow applies the batches of the owner. It takes over if the owner has left or is silent.
// It lets go of step after each batch: a standby of a busy owner may never have all of them,
// and whoever changes the owner must not wait for that.
func (n *node) follow(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = n.followOne(ctx); err != nil {
			return err
		}
	}
	return nil
}

// followOne is one step of follow, and reports whether there are more.
func (n *node) followOne(ctx context.Context) (more bool, err error) {
	if !n.step.TryLock() {
		return false, nil // the owner is being changed
	}
	defer n.step.Unlock()
	if !n.standby() {
		return false, nil
	}
	before, _ := n.svc.Standing()
	if more, err = n.svc.Advance(ctx); err != nil {
		return false, n.unable(err)
	}
	now, _ := n.svc.Standing()
	if now.Owner != before.Owner {
		n.log.Info().Str("owner", now.Owner.Name).Str("url", now.Owner.URL).Bool("left", now.Owner.Left).Msg("the home has another owner")
		n.turned.Raise()
	}
	if more {
		return true, ctx.Err()
	}
	return false, n.succeed(ctx, &now)
}

// succeed takes over if the owner, as this daemon has all its batches, has left or is silent;
// step is held.
func (n *node) succeed(ctx context.Context, now *queuefs.Standing) error {
	if n.svc.Claimed() { // its own signs of life keep all daemons from trying again
		return n.unable(n.takeOver(ctx, true))
	}
	silent, err := n.vigil.Silent(ctx)
	if n.silent.Swap(silent > quietTime) != (silent > quietTime) {
		n.turned.Raise()
	}
	if errors.Is(err, journal.ErrReleased) {
		err = fmt.Errorf("%w: %w", queuefs.ErrBehind, err)
	}
	if err != nil {
		return n.unable(err)
	}
	switch {
	case n.TakeoverAfter == 0:
		return nil
	case now.Owner.Left && !now.Left: // else others first
	case silent < n.TakeoverAfter:
		return nil
	}
	n.log.Info().Str("owner", now.Owner.Name).Bool("left", now.Owner.Left).Dur("silent", silent).Msg("taking over")
	if err = n.takeOver(ctx, true); errors.Is(err, queuefs.ErrAlive) {
		return nil
	}
	return n.unable(err)
}

// advance applies all batches of the owner; step is held.
func (n *node) advance(ctx context.Context) error {
	for ctx.Err() == nil {
		if more, err := n.svc.Advance(ctx); !more || err != nil {
			return err
		}
	}
	return ctx.Err()
}

// unable returns an error of a step, and tells if this daemon cannot go on.
func (n *node) unable(err error) error {
	if errors.Is(err, queuefs.ErrBehind) || errors.Is(err, ledger.ErrFailed) {
		select {
		case n.lost <- err:
		default: // it is told already
		}
	}
	return err
}

// takeOver makes this daemon the owner; step is held.
func (n *node) takeOver(ctx context.Context, atOnce bool) error {
	began := time.Now()
	if err := n.svc.TakeOver(ctx, atOnce); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	n.silent.Store(false)
	n.taken.Add(1)
	n.turned.Raise()
	st, _ := n.svc.Standing()
	n.log.Info().Uint64("batch", st.Batch).Dur("ms", time.Since(began)).Msg("owner")
	return nil
}

// handOver gives the home up to a standby. If none takes it, this daemon goes on.
func (n *node) handOver(ctx context.Context) error {
	n.step.Lock()
	defer n.step.Unlock()
	if n.standby() {
		return fmt.Errorf("%w: this daemon does not own the home", job.ErrConflict)
	}
	defer n.turned.Raise()
	defer n.changing.enter(owning)
	if err := n.finish(ctx); err != nil {
		return err
	}
	if err := n.svc.Leave(); err != nil {
		return err
	}
	n.log.Info().Msg("gives the home up")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), offerTime)
	defer cancel()
	tick := time.NewTicker(followEvery / 10)
	defer tick.Stop()
	for {
		if err := n.advance(ctx); err != nil && ctx.Err() == nil {
			return n.unable(err)
		}
		if st, _ := n.svc.Standing(); !st.Owner.Left {
			n.log.Info().Str("owner", st.Owner.Name).Str("url", st.Owner.URL).Msg("standby")
			return nil
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		switch err := n.takeOver(context.WithoutCancel(ctx), true); {
		case errors.Is(err, queuefs.ErrAlive):
			return nil // in the last moment
		case err != nil:
			return n.unable(err)
		}
		return fmt.Errorf("%w: no standby took the home within %v", job.ErrConflict, offerTime)
	}
}

// finish waits for changes in progress, up to the grace. Those that begin meanwhile are short,
// and then held back. The error is that of ctx.
func (n *node) finish(ctx context.Context) error {
	begun := time.Now()
	for _, step := range []struct {
		phase phase
		most  time.Duration
	}{{finishing, n.grace()}, {handing, holdTime / 2}} {
		n.changing.enter(step.phase)
		n.turned.Raise()
		if err := n.changing.wait(ctx, step.phase, step.most); err != nil {
			return err
		}
	}
	if left := n.changing.count(); left > 0 {
		n.log.Warn().Int64("changes", left).Dur("ms", time.Since(begun)).Msg("changes are still in progress, and will be refused")
	}
	return nil
}

// errNoOwner is the answer to a change without an owner.
var errNoOwner = &web.Error{Status: http.StatusServiceUnavailable, Message: "the owner of the home is silent or changing, send the request again in a moment"}

// owner returns the URL of the owner, "" if there will be one soon.
func (n *node) owner() (url string, err error) {
	st, _ := n.svc.Standing()
	switch {
	case !st.Standby || st.Owner.Left:
		return "", nil
	case st.Owner.URL == "" || n.silent.Load():
		return "", errNoOwner
	}
	return st.Owner.URL, nil
}
