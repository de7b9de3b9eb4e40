package daemon

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/listen"
	"cutie/cmd/cutie/traces"
	"cutie/queuefs"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/ledger"
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
		{"push", maintainEvery, d.push.deliver},
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
			if errors.Is(err, journal.ErrFenced) || errors.Is(err, bucket.ErrBack) || errors.Is(err, queuefs.ErrBehind) {
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
		if err := d.svc.Err(); errors.Is(err, journal.ErrFenced) || errors.Is(err, queuefs.ErrBehind) {
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
	if errors.Is(err, ledger.ErrClosed) {
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

// A lineLog passes the messages of net/http about connections on to the log.
type lineLog struct{ log zerolog.Logger }

func (l lineLog) Write(p []byte) (int, error) {
	l.log.Warn().Str("text", strings.TrimSpace(string(p))).Msg("http server")
	return len(p), nil
}

// A changeLog logs a failure on every tick only when it begins, once a minute
// while it lasts, and when there was none for a while, with the number of failures.
type changeLog struct {
	log    zerolog.Logger
	task   string
	last   string    // what was told
	told   time.Time // when
	fault  time.Time // of the last failure
	failed int
}

// settled is the time without a failure after which a task works again: on a nearly full disk
// it fails and succeeds in turn.
const settled = 10 * time.Second

// note takes the outcome of one tick.
func (c *changeLog) note(err error, now time.Time) {
	if err == nil {
		if c.failed > 0 && now.Sub(c.fault) < settled {
			return
		}
		if c.failed > 0 {
			c.log.Info().Str("task", c.task).Int("failures", c.failed).Msg("works again")
		}
		c.last, c.failed = "", 0
		return
	}
	c.failed++
	c.fault = now
	if text := err.Error(); text != c.last || now.Sub(c.told) >= time.Minute {
		c.log.Error().Err(err).Str("task", c.task).Int("failures", c.failed).Msg("failed")
		c.last, c.told = text, now
	}
}

// A fullness logs the beginning and the end of a full disk, once each. The end comes after
// some time with free space.
type fullness struct {
	log   zerolog.Logger
	since time.Time // full since then; zero: it is not
	last  time.Time // it was full
}

// look notes whether the disk is full at a time.
func (f *fullness) look(full bool, now time.Time) {
	switch {
	case full && f.since.IsZero():
		f.since = now
		f.log.Error().Str("cure", "make space, such as with cutie cull: cutie help operating").Msg("the disk is full: submissions and results are refused")
	case !full && !f.since.IsZero() && now.Sub(f.last) >= settled:
		f.log.Info().Dur("ms", f.last.Sub(f.since)).Msg("the disk has free space again")
		f.since = time.Time{}
	}
	if full {
		f.last = now
	}
}

// A clock watches the clock of the machine. Events are dated by it, and later than
// the event before: after a clock set ahead they are dated in the future until it
// has caught up.
type clock struct {
	log    zerolog.Logger
	latest time.Time     // the latest time seen, by the clock or in an event
	begun  time.Time     // of the process, with its monotonic reading
	offset time.Duration // of the clock from what has passed, at the last look
	looked bool
	behind bool // logged
}

// oddTime is the least difference worth a line in the log.
const oddTime = time.Minute

// newClock begins with the last events of all queues.
func newClock(svc *queuefs.Service, log zerolog.Logger) *clock {
	c := &clock{log: log, begun: time.Now()}
	for _, q := range svc.Queues() {
		if at := q.State().LastEvent; at.After(c.latest) {
			c.latest = at
		}
	}
	return c
}

// now looks now.
func (c *clock) now() error {
	c.look(time.Now(), time.Since(c.begun))
	return nil
}

// look logs oddities of a time, when so much has passed since begun.
func (c *clock) look(now time.Time, passed time.Duration) {
	now = now.Round(0) // without its monotonic reading
	offset := now.Sub(c.begun.Round(0)) - passed
	if ahead := offset - c.offset; c.looked && ahead > oddTime {
		c.log.Warn().Dur("ms", ahead).Time("now", now).Msg("the clock was set ahead; events are dated by it")
	}
	c.offset, c.looked = offset, true
	switch lag := c.latest.Sub(now); {
	case lag > oddTime && !c.behind:
		c.behind = true
		c.log.Warn().Dur("ms", lag).Time("now", now).Time("latest", c.latest).
			Msg("the clock is behind; events are dated after the latest time until it has caught up")
	case lag <= 0 && c.behind:
		c.behind = false
		c.log.Info().Time("now", now).Msg("the clock has caught up")
	}
	if now.After(c.latest) {
		c.latest = now
	}
}

// A culler removes the due processed jobs: of changed queues a few times a
// second, so that a load that lasts keeps to the threshold of its queue, and of all
// queues once a minute, for jobs that have become old.
type culler struct {
	svc  *queuefs.Service
	seen uint64               // changes up to this count were seen
	due  map[string]time.Time // changed queues, and when they may be looked at
	all  time.Time            // when all queues were looked at
	done func(jobs int, octets int64)

	jobs   int // since the last call of done
	octets int64
}

// A look at a queue is followed by a pause of cullPause times as long, without cullWorth
// for each culled job: most jobs of the queue may be retained, and be looked at in vain.
const (
	cullPause = 8
	cullWorth = time.Millisecond
)

func (d *daemon) culler() *culler {
	return &culler{svc: d.svc, seen: 1, due: map[string]time.Time{}, all: time.Now(), done: func(jobs int, octets int64) {
		d.Log.Info().Int("jobs", jobs).Int64("octets", octets).Msg("culled")
	}}
}

// cull is called a few times a second.
func (c *culler) cull(ctx context.Context) error {
	now := time.Now()
	if now.Sub(c.all) >= cullEvery {
		c.all = now
		_, err := c.some(ctx, queuefs.CullOptions{})
		if c.jobs > 0 {
			c.done(c.jobs, c.octets)
		}
		c.jobs, c.octets = 0, 0
		return err
	}
	changed, seen := c.svc.Changed(c.seen)
	c.seen = seen
	for _, q := range changed {
		if _, ok := c.due[q.ID()]; !ok && q.Info().CullingSize >= 0 {
			c.due[q.ID()] = now
		}
	}
	for id, at := range c.due {
		if now.Before(at) {
			continue
		}
		delete(c.due, id)
		if q, err := c.svc.Queue(id); err != nil || q.Shut() != nil {
			continue
		}
		n, err := c.some(ctx, queuefs.CullOptions{Queue: id})
		if err != nil && !errors.Is(err, ledger.ErrNoQueue) {
			return err
		}
		took := time.Since(now)
		now = now.Add(took)
		if pause := cullPause*took - time.Duration(n)*cullWorth; pause > maintainEvery {
			c.due[id] = now.Add(pause)
		}
	}
	return nil
}

// some culls, and counts what was culled.
func (c *culler) some(ctx context.Context, o queuefs.CullOptions) (n int, err error) {
	for one, err := range c.svc.Cull(ctx, o) {
		if err != nil {
			return n, err
		}
		n++
		c.jobs, c.octets = c.jobs+1, c.octets+one.Size
	}
	return n, nil
}
