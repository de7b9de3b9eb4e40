package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"syscall"
	"time"

	"cutie/publisher/compose"
	"cutie/publisher/dump"
	"cutie/publisher/gather"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
)

// sliceTime bounds the work of one Tick on packages: a twentieth of the time, if
// there is a Tick a second.
const sliceTime = 50 * time.Millisecond

// work is the making of packages. Its lock is held by one Tick at a time.
type work struct {
	sync.Mutex
	task  *task // nil if there is none
	more  bool  // the last Tick had no time for all
	again wait  // of writing files again after a failed sync
}

// drop ends the task where it is.
func (w *work) drop() {
	if w.task != nil {
		w.task.stop()
		w.task = nil
	}
}

// A task makes the compressed form and the packages of a closed list, or a
// Resource Dump. It goes on from Tick to Tick.
type task struct {
	*set
	list store.Span // zero for a Resource Dump
	life int        // of the set when the task began
	wait *wait      // after a failure; mu is held

	next func() (struct{}, bool)
	stop func()
	err  error // why it ended early
}

// progress is the work done on a set, and still to be done.
type progress struct {
	packed  queuefs.Seq // packages were made, or cannot be, up to this event
	lists   wait        // of the packages of a list
	dump    wait        // of a Resource Dump
	passed  []error     // why lists were passed over since Publish began, maxWaiting at most
	tried   time.Time   // when the making of a Resource Dump ended last; zero since the start
	wanted  queuefs.Seq // a Resource Dump of this event or a later one is wanted now; 0: none
	dumping bool        // a Resource Dump is being made
	unswept bool        // there may be files to remove
	life    int         // how often the set began anew
}

// failure returns why the last package or dump was not made.
func (m *progress) failure() error {
	return cmp.Or(m.lists.err, m.dump.err, m.lists.passed, m.dump.passed)
}

// makeSome makes packages until its time is up or none is left; now ignores
// pauses after failures. A failure is added to waits, and nothing in waits is
// tried.
func (p *Publisher) makeSome(ctx context.Context, now bool, waits *[]*wait) error {
	start := p.Now()
	p.work.more = true
	for {
		if p.work.task == nil {
			if err := p.heal(ctx); err != nil {
				return err
			}
			if p.work.task = p.nextTask(now, *waits); p.work.task == nil {
				p.work.more = false
				return nil
			}
		}
		t := p.work.task
		for {
			if _, more := t.next(); !more {
				break
			}
			if ctx.Err() != nil || p.Now().Sub(start) > sliceTime {
				return ctx.Err()
			}
		}
		p.work.drop()
		if !t.done() {
			*waits = append(*waits, t.wait)
		}
		if ctx.Err() != nil || p.failure() != nil || p.damage.Load() && p.Now().Sub(start) > sliceTime {
			return ctx.Err()
		}
	}
}

// nextTask returns the next task, nil if there is none now.
func (p *Publisher) nextTask(now bool, waits []*wait) *task {
	for _, s := range p.sets() {
		if t := s.nextTask(now, waits); t != nil {
			return t
		}
	}
	return nil
}

func (s *set) nextTask(now bool, waits []*wait) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	may := func(w *wait) bool {
		return !slices.Contains(waits, w) && (now || !w.pauses(s.p.Now()) && (w.octets == 0 || s.p.hasSpace(w.octets)))
	}
	lists := s.unpacked()
	isList := len(lists) > 0 && may(&s.made.lists)
	if !isList && !(s.due() && may(&s.made.dump)) {
		return nil
	}
	t := &task{set: s, life: s.made.life, wait: &s.made.dump}
	run := t.makeDump
	if s.made.dumping = !isList; isList {
		t.list, t.wait, run = lists[0], &s.made.lists, t.packList
	}
	if t.wait.failed < hopeless {
		t.wait.octets = 0
	}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.err = run(func() bool { return !t.stale() && yield(struct{}{}) })
	})
	return t
}

// unpacked returns the closed lists without packages, or not all of theirs. Lost lists
// are passed over. mu is held.
func (s *set) unpacked() []store.Span {
	i := len(s.Lists.All)
	for i > 0 && s.Lists.All[i-1].Last > s.made.packed {
		i--
	}
	for ; i < len(s.Lists.All) && s.Lists.All[i].Lost(); i++ {
		s.made.packed = s.Lists.All[i].Last
	}
	return s.Lists.All[i:]
}

// needs returns since when changes are in closed lists without packages, zero
// if there are none; all while a Resource Dump is made.
func (s *set) needs() (since time.Time, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lists := s.unpacked(); len(lists) > 0 && s.made.lists.octets == 0 {
		since = lists[0].From
	}
	return since, s.made.dumping
}

// stale reports whether the set began anew after the task did.
func (t *task) stale() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.made.life != t.life
}

// packList makes everything of a closed list. It calls pause often, and ends
// when that returns false.
func (t *task) packList(pause func() bool) error {
	if err := t.needSpace(pieces*t.list.Length, 0); err != nil {
		return err
	}
	if err := t.compress(pause); err != nil {
		return err
	}
	return t.packChanges(pause)
}

// compress makes the file with the entries in gzip, unless it is there. Its
// members are the ones of the open list.
func (t *task) compress(pause func() bool) error {
	if _, _, err := t.compressed(t.list); err == nil || !store.Unusable(err) {
		return err
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	defer dir.Close()
	file, err := t.entriesOf(t.list.First, t.list.Length)
	if err != nil {
		return err
	}
	defer file.Close()
	out, err := t.p.store.Temp()
	if err != nil {
		return err
	}
	defer out.Discard()
	w, err := compose.NewFileWriter(out)
	if err != nil {
		return err
	}
	for k := t.key(t.list); k.From < t.list.Length; {
		m, ok := t.p.cache.Get(k)
		if !ok {
			m, _, err = compose.Block(k.From, t.list.Length, file)
			if err == io.EOF {
				err = store.Damaged("%s is shorter than %d octets", file.Name(), t.list.Length)
			}
			if err != nil {
				return err
			}
		}
		if err := w.Add(m); err != nil {
			return err
		}
		t.p.cache.Drop(k) // the file will be served
		k.From += m.Len
		if !pause() {
			return dump.ErrStopped
		}
	}
	if err := w.End(); err != nil {
		return err
	}
	return out.Commit(dir, names.GzipFile(t.list.First))
}

// done records the end of a task, and reports whether the next one of its kind may
// begin at once. If no package of a list can be made, the list is passed over until
// the next start; if the list itself is unusable, the set begins anew.
func (t *task) done() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made.life != t.life {
		return true // the set began anew meanwhile
	}
	passed, err := t.outcome()
	switch {
	case errors.Is(err, dump.ErrStopped):
		return true // on the way; the next attempt leaves a job out
	case t.p.failure() != nil:
		return false // it is reported by itself
	case err == nil:
		if passed != nil && t.wait == &t.made.lists && len(t.made.passed) < maxWaiting {
			t.made.passed = append(t.made.passed, passed)
		}
		t.wait.made(passed)
		return true
	}
	t.wait.fails(err, t.p.Now())
	return false
}

// outcome returns why the task is passed over for good, or failed for now. mu is
// held.
func (t *task) outcome() (passed, err error) {
	isDump := t.list.First == 0
	if isDump {
		t.made.dumping, t.made.unswept = false, t.made.unswept || t.err != nil
	}
	var e *dump.FileError
	var broken *brokenFile
	switch {
	case t.err == nil:
	case errors.As(t.err, &broken):
		return nil, dump.ErrStopped // it is healed first
	case errors.As(t.err, &e) && gather.Culled(t.q, t.refs, e.Loc), isDump && errors.Is(t.err, dump.ErrStopped):
		return nil, dump.ErrStopped
	case errors.As(t.err, &e) && !scarce(t.err):
		passed = fmt.Errorf("no package for events %d to %d: %w", t.list.First, t.list.Last, t.err)
		if isDump {
			passed = fmt.Errorf("no Resource Dump after event %d: %w", t.q.Seq(), t.err)
		}
		t.p.Reportf(t.path, "%v", passed)
	default:
		err := t.mend(t.err)
		switch {
		case err != nil && isDump:
			return nil, fmt.Errorf("queue %s: %s: Resource Dump: %w", t.q.ID(), t.kind, err)
		case err != nil:
			return nil, fmt.Errorf("queue %s: %s: closed list %d: %w", t.q.ID(), t.kind, t.list.First, err)
		case !isDump:
			return nil, nil
		}
	}
	if !isDump {
		t.made.packed = max(t.made.packed, t.list.Last)
		return passed, nil
	}
	if t.made.tried = t.p.Now(); t.err != nil {
		t.made.wanted = 0
	}
	return passed, nil
}

// scarce reports whether the error says nothing of the file: the system had no
// more descriptors or memory.
func scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
