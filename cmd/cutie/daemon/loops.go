package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/listen"
	"cutie/cmd/cutie/traces"
	"cutie/queuefs"
	"cutie/queuefs/uws"
)

// Periods of the loops.
const (
	maintainEvery = 200 * time.Millisecond // files follow the journal at most a second late
	tickEvery     = time.Second            // documents on disk follow the queues
	lookEvery     = time.Second            // files changed by hand, figures, the access log
	ownerEvery    = 5 * time.Second        // another daemon may have taken a home in a store
	cullEvery     = time.Minute            // a look at all queues; changed ones have one at once
)

// A loop is a task done again and again.
type loop struct {
	name  string
	every time.Duration
	do    func(context.Context) error
}

// loops are all loops of the daemon.
func (d *daemon) loops(jobs *uws.Handler, tcp *listen.Limiter) []loop {
	quick := func(do func() error) func(context.Context) error {
		return func(context.Context) error { return do() }
	}
	disk := &fullness{log: d.Log}
	all := []loop{
		{"maintain", maintainEvery, d.maintain},
		{"home in its store", maintainEvery, d.svc.Bring},
		{"leases and holds", maintainEvery, d.node.owned(d.svc.Expire)},
		{"limits of jobs", maintainEvery, d.node.owned(jobs.Tick)},
		{"publish", tickEvery, d.pub.Tick},
		{"verify published files", tickEvery, d.pub.Scrub},
		{"callbacks", maintainEvery, d.send.Tick},
		{"cull", maintainEvery, d.node.owned(d.culler().cull)},
		{"settings", lookEvery, d.reload},
		{"memory", lookEvery, quick(newBudget().follow(d.svc))},
		{"access log", lookEvery, quick(d.record.Flush)},
		{"users", lookEvery, quick(d.gate.Reload)},
		{"free space", lookEvery, quick(func() error {
			disk.look(d.svc.Full() || !d.svc.HasSpace(0), time.Now())
			return nil
		})},
		{"clock", lookEvery, quick(newClock(d.svc, d.Log).now)},
		{"connections", lookEvery, quick(tcp.Told)},
	}
	if d.push != nil {
		all = append(all, loop{"push", maintainEvery, d.node.owned(d.push.hub.Tick)})
	}
	if d.Listen.Certificate != nil {
		all = append(all, loop{"certificate", lookEvery, quick(d.Listen.Certificate.Reload)})
	}
	return all
}

// lookout finds out whether another daemon has taken the home in its store, whether the store
// answers again after a failure, or whether the directory has to be made again, and then ends
// this one by lost.
func (d *daemon) lookout(lost chan<- error) []loop {
	tell := func(ask func() error) func(context.Context) error {
		return func(context.Context) error {
			err := ask()
			if errors.Is(err, queuefs.ErrFenced) || errors.Is(err, queuefs.ErrBack) || errors.Is(err, queuefs.ErrBehind) {
				select {
				case lost <- err:
				default: // it is told already
				}
				return nil
			}
			return err
		}
	}
	known := func() error {
		if err := d.svc.Err(); errors.Is(err, queuefs.ErrFenced) || errors.Is(err, queuefs.ErrBehind) {
			return err
		}
		return nil // other failures are told by the requests
	}
	return []loop{{"owner by the store", ownerEvery, tell(d.svc.Lookout)}, {"owner", maintainEvery, tell(known)}}
}

// every does a task until ctx ends, and logs when it begins to fail and when it
// works again.
func (d *daemon) every(ctx context.Context, l loop) {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	errs := changeLog{log: d.Log, task: l.name}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := l.do(ctx); ctx.Err() == nil {
				errs.note(err, time.Now())
			}
		}
	}
}

// maintain writes files and checkpoints.
func (d *daemon) maintain(ctx context.Context) error {
	err := d.svc.Maintain(ctx)
	if errors.Is(err, queuefs.ErrClosed) {
		return nil // it stops
	}
	if ctx.Err() == nil {
		d.unwritten.Store(err != nil)
	}
	return err
}

// reload reads settings again that were changed by hand.
func (d *daemon) reload(ctx context.Context) error {
	changed, err := d.svc.Reload(ctx)
	if len(changed) > 0 {
		d.Log.Info().Strs("queues", changed).Msg("settings read again")
	}
	return err
}

// hear opens the access log again on each SIGHUP, and takes settings that have changed.
func (d *daemon) hear(ctx context.Context, tracer *traces.Tracer) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.Hangup:
			d.supervisor.reloading(func() {
				err := d.record.Reopen()
				d.Log.Info().Err(err).Msg("access log reopened")
				d.take(tracer)
			})
		}
	}
}

// take puts settings in force that have changed. If one is wrong those of before hold.
func (d *daemon) take(tracer *traces.Tracer) {
	if d.Reread == nil {
		return
	}
	o, later, err := d.Reread()
	if err == nil {
		err = d.pub.Take(o.Source.Terms(), o.Source.Pace)
	}
	if err == nil {
		err = d.fetch.Allow(o.Allow)
	}
	if err != nil {
		d.Log.Error().Err(err).Msg("settings of before stay in force")
		return
	}
	zerolog.SetGlobalLevel(o.LogLevel)
	d.crowd.Limit(o.Limits.Waits)
	d.grace.Store(int64(o.Limits.Grace))
	d.record.Limit(o.AccessLog.Max, o.AccessLog.Keep)
	tracer.Sample(o.Traces.Ratio)
	if len(later) > 0 {
		d.Log.Warn().Strs("settings", later).Msg("changed settings need a restart")
	}
	d.Log.Info().Msg("settings read again")
}
