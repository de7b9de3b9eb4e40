package publisher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"syscall"
	"time"

	"cutie/publisher/dump"
	"cutie/queuefs/durable"
)

// What is made of a list after it was closed: its compressed form, then its
// packages. The work is done in slices, so that it neither holds up a Tick nor
// takes the machine from the queue.

// workTime is how long a Tick works on closed lists, busyTime how long if the
// machine has more urgent things to do: as much again for each minute that the work
// is late, up to half of workTime, for culling waits for it.
const (
	workTime = 200 * time.Millisecond
	busyTime = 20 * time.Millisecond
)

// A task is work on one closed list, or on a Resource Dump, that goes on from
// Tick to Tick.
type task struct {
	*feed
	c    *changes // f.mu is held to look into it
	set  Set
	life int  // of the set, when the task began
	list span // zero if it makes a Resource Dump
	next func() (struct{}, bool)
	stop func()
	wait *wait // what becomes of it if it is not made; f.mu is held
	err  error // why it ended early
	// since is when the list was closed, or the making of the Resource Dump began.
	since time.Time
}

// finish works on what is to be made until its time is up or nothing is left; now
// also on what can be put off. What cannot be made is added to waits, which say
// why, and nothing that is there is tried.
func (p *Publisher) finish(ctx context.Context, now bool, waits *[]*wait) error {
	start := time.Now()
	over := func() bool {
		long := time.Since(start)
		return long > workTime || long > busyTime && !now && p.busy() && long > p.job.slice(p.Now())
	}
	for {
		if p.job == nil {
			if p.job = p.nextTask(now, *waits); p.job == nil {
				return nil
			}
		}
		t := p.job
		for {
			if _, more := t.next(); !more {
				break
			}
			if ctx.Err() != nil || over() {
				return ctx.Err()
			}
		}
		p.drop()
		if !t.done() {
			*waits = append(*waits, t.wait)
		}
		if ctx.Err() != nil || p.failure() != nil {
			return ctx.Err()
		}
	}
}

// slice returns how long a Tick works on the task while the machine is busy.
func (t *task) slice(now time.Time) time.Duration {
	late := now.Sub(t.since)
	return min(busyTime+time.Duration(max(0, late.Minutes())*float64(busyTime)), workTime/2)
}

// drop ends the present task where it is.
func (p *Publisher) drop() {
	if p.job != nil {
		p.job.stop()
		p.job = nil
	}
}

// nextTask returns work on the oldest closed list of some queue that has no
// packages yet, or on a Resource Dump that is due, but none that waits for room.
func (p *Publisher) nextTask(now bool, waits []*wait) *task {
	for _, f := range p.opened() {
		if t := f.nextTask(now, waits); t != nil {
			return t
		}
	}
	return nil
}

// putOff is how long after the last change of a closed list its package may be
// put off.
const putOff = 10 * time.Second

func (p *Publisher) putsOff(list span) bool {
	age := p.Now().Sub(list.until) // below 0 where the clock is behind that of the events
	return 0 <= age && age < putOff && p.busy()
}

func (p *Publisher) busy() bool { return p.Busy != nil && p.Busy() }

func (f *feed) nextTask(now bool, waits []*wait) *task {
	f.mu.Lock()
	defer f.mu.Unlock()
	tries := func(w *wait) bool {
		return !slices.Contains(waits, w) && (now || !w.pauses(f.p.Now()) && (w.octets == 0 || f.p.spares(w.octets)))
	}
	for s := range f.sets {
		c := &f.sets[s]
		list, ok := c.unpacked()
		// A Resource Dump that is due waits for no calmer time, nor does what goes
		// before it.
		due := f.due(c)
		switch {
		case ok && (now || due || !f.p.putsOff(list)) && tries(&c.forLists):
			t := &task{feed: f, c: c, set: c.set, life: c.life, list: list, wait: &c.forLists}
			return t.begin(t.run)
		case due && tries(&c.forDump):
			c.making = true
			t := &task{feed: f, c: c, set: c.set, life: c.life, wait: &c.forDump}
			return t.begin(t.makeDump)
		}
	}
	return nil
}

// begin prepares the task for next. f.mu is held.
func (t *task) begin(run func(pause func() bool) error) *task {
	if t.wait.failed < hopeless {
		t.wait.octets = 0
	}
	t.since = t.p.Now()
	if t.list.first != 0 {
		t.since = t.list.until
	}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.err = run(func() bool { return !t.stale() && yield(struct{}{}) })
	})
	return t
}

// stale reports whether the set began anew, and has no such list any more.
func (t *task) stale() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.c.life != t.life
}

// run is the task. It calls pause often, and ends when that returns false.
func (t *task) run(pause func() bool) error {
	if err := t.room(pieces*t.list.length, 0); err != nil {
		return err
	}
	if err := t.compress(pause); err != nil {
		return err
	}
	return t.pack(pause)
}

// done settles a task that has ended, and reports whether there may be another
// one for the same at once. A list of which no package can be made is passed over,
// so that it is not tried again before the next start; one that is itself unusable
// begins the set anew.
func (t *task) done() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c.life != t.life {
		return true // the set began anew meanwhile
	}
	passed, err := t.settle()
	switch {
	case errors.Is(err, dump.ErrStopped):
		return true // on the way; the next attempt leaves a job out
	case t.p.failure() != nil:
		return false // which is told by itself
	case err == nil:
		t.wait.made(passed)
		return true
	}
	t.wait.fails(err, t.p.Now())
	if t.list.first == 0 {
		t.c.unswept = true // no dump names the packages that it has made
	}
	return false
}

// settle is done without what becomes of an error; passed is why nothing is to be
// made. f.mu is held.
func (t *task) settle() (passed, err error) {
	if t.list.first == 0 {
		return t.ended()
	}
	var e *dump.FileError
	switch {
	case t.err == nil:
	case errors.As(t.err, &e) && t.culled(e.Loc):
		return nil, dump.ErrStopped
	case errors.As(t.err, &e) && !scarce(t.err):
		passed = fmt.Errorf("no package for events %d to %d: %w", t.list.first, t.list.last, t.err)
		t.p.report(t.q.ID()+"/"+t.set.String(), "%v", passed)
	default:
		if err := t.mend(t.c, t.err); err != nil {
			return nil, fmt.Errorf("queue %s: %s: closed list %d: %w", t.q.ID(), t.set, t.list.first, err)
		}
		return nil, nil
	}
	t.c.dumped = max(t.c.dumped, t.list.last)
	return passed, nil
}

// scarce tells of an error that says nothing of the file that could not be read:
// for the moment the system had no more of what that takes.
func scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// compress makes the file with the entries in gzip, unless it is there. Its
// blocks are those that were served while the list was open.
func (t *task) compress(pause func() bool) error {
	if _, _, err := t.compressed(t.set, t.list); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := t.dir(t.set, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := dir.Open(entriesFile(t.list.first))
	if err != nil {
		return err
	}
	defer entries.Close()
	out, err := t.p.draft()
	if err != nil {
		return err
	}
	defer out.discard()
	if _, err := io.WriteString(out, gzipHead); err != nil {
		return err
	}
	var all check
	for k := (memberKey{queue: t.q.ID(), set: t.set, list: uint64(t.list.first)}); k.from < t.list.length; {
		m := t.p.cache.get(k)
		if m == nil {
			m, _, err = press(k.from, t.list.length, entries)
			if err == io.EOF {
				err = damage{fmt.Errorf("%s is shorter than %d octets", entries.Name(), t.list.length)}
			}
			if err != nil {
				return err
			}
		}
		blocks, c := split(m.gz)
		if _, err := out.Write(blocks); err != nil {
			return err
		}
		all.join(c, m.behind())
		t.p.cache.drop(k) // the file will be served
		k.from += m.raw
		if !pause() {
			return dump.ErrStopped
		}
	}
	if _, err := out.Write(all.append(nil)); err != nil {
		return err
	}
	return out.place(dir, gzipFile(t.list.first))
}

// A draft is a file in the making. It stands under a temporary name until it
// is complete and on stable storage.
type draft struct {
	p    *Publisher
	root *durable.Dir
	name string // "" once it is in place
	io.WriteCloser
	sync func() error
}

func (p *Publisher) draft() (*draft, error) {
	root := p.root()
	f, name, err := root.Temp()
	if err != nil {
		return nil, err
	}
	return &draft{p: p, root: root, name: name, WriteCloser: f, sync: func() error { return root.SyncFile(f) }}, nil
}

// place gives the file its name in a directory, over what is there.
func (d *draft) place(to *durable.Dir, name string) error {
	if err := d.sync(); err != nil {
		return err
	}
	if err := d.root.Rename(d.name, to, name); err != nil {
		return err
	}
	d.name = ""
	return to.Sync()
}

// discard closes the file, and removes it unless it is in place.
func (d *draft) discard() {
	d.Close()
	if d.name != "" {
		if err := d.root.Remove(d.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.p.report(d.name, "%v", err)
		}
	}
}
