package set

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"cutie/publisher/compose"
	"cutie/publisher/dump"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// Heal makes damaged files again, with the octets they had: a closed list from its
// compressed form, from the journal, or from the packages of its changes; a package of
// changes from the list. Others have no octets to keep: a compressed form is made from
// the list, and a Resource Dump under a new name. Files beyond that are set aside, their
// lines say so, and the index and the dump begin after them.
func (s *Set) Heal(ctx context.Context) error {
	s.mu.Lock()
	files := maps.Clone(s.damaged)
	s.mu.Unlock()
	if len(files) == 0 {
		return nil
	}
	if err := s.healAll(ctx, files); err != nil {
		s.damage.Store(true) // the next Tick tries again
		return fmt.Errorf("queue %s: %s: %w", s.Queue.ID(), s.Kind, err)
	}
	return nil
}

// healAll heals files: lists first, packages are made of them.
func (s *Set) healAll(ctx context.Context, files map[string]error) error {
	d, err := s.dir()
	if err != nil {
		if store.Unusable(err) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.restart(err)
		}
		return err
	}
	defer d.Close()
	s.mu.Lock()
	life := s.made.life
	s.mu.Unlock()
	h := &healing{Task: &Task{Set: s, life: life}, d: d, pause: func() bool { return ctx.Err() == nil }}
	rank := func(name string) int {
		first, list := names.ListFile(name)
		switch {
		case list && name == names.EntriesFile(first):
			return 0
		case list:
			return 1
		}
		return 2
	}
	order := slices.SortedFunc(maps.Keys(files), func(a, b string) int {
		if n := rank(a) - rank(b); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	for _, name := range order {
		err := h.heal(name, files[name])
		if broken := (*brokenFile)(nil); errors.As(err, &broken) {
			continue // found just now; the next Tick heals it first
		}
		if err != nil {
			return errors.Join(ctx.Err(), s.final(err))
		}
		s.mu.Lock()
		if s.made.life != life {
			s.mu.Unlock()
			return nil
		}
		delete(s.damaged, name)
		s.mu.Unlock()
	}
	return nil
}

// A healing makes damaged files of a set again.
type healing struct {
	*Task
	d     *durable.Dir
	pause func() bool
}

func (h *healing) heal(name string, cause error) error {
	if first, ok := names.ListFile(name); ok {
		h.mu.Lock()
		sp, ok := h.files.Lists.Find(first)
		h.mu.Unlock()
		switch {
		case !ok:
			return nil // removed meanwhile
		case name != sp.List().Name:
			return h.healSecond(sp, name, cause)
		}
		return h.healList(sp, cause)
	}
	if doc, ok := names.ParseDoc(name); ok && doc.Kind == names.ChangePackage {
		h.mu.Lock()
		sp, ok := h.files.Packages.Find(queuefs.Seq(doc.N))
		h.mu.Unlock()
		if !ok {
			return nil
		}
		return h.healPackage(sp, cause)
	}
	return h.dropDumps(name, cause)
}

// healSecond sets the file in gzip of a list aside that is not folded yet: a task makes it.
func (h *healing) healSecond(sp store.Span, name string, cause error) error {
	if name != names.GzipFile(sp.First) {
		return nil // folded meanwhile
	}
	aside, err := h.setAside(h.d, name)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.made.unfolded = true
	h.mu.Unlock()
	h.report(name, "%v; moved to %s, made again", cause, aside)
	h.healed.Add(1)
	return nil
}

// healList makes the entries of a closed list again. They are folded by a task.
func (h *healing) healList(sp store.Span, cause error) error {
	name := sp.List().Name
	for _, source := range []struct {
		name string
		copy func(store.Span, io.Writer) error
	}{
		{"its compressed form", h.fromGzip},
		{"the journal", h.fromJournal},
	} {
		done, err := h.remake(name, sp, source.copy)
		if err != nil {
			return err
		}
		if done {
			h.report(name, "%v; made again from %s", cause, source.name)
			h.healed.Add(1)
			return nil
		}
	}
	aside, err := h.setAside(h.d, name)
	if err != nil {
		return err
	}
	if second := names.GzipFile(sp.First); second != name {
		if _, err := h.setAside(h.d, second); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.files.Lists.Lose(h.Store, h.d, sp.First); err != nil {
		return err
	}
	h.made.lists = Wait{}
	h.want()
	h.given.Add(1)
	h.report(name, "%v; moved to %s, the changes of events %d to %d are lost and the index begins after them", cause, aside, sp.First, sp.Last)
	return nil
}

// remake writes entries to a file and puts it in place if it has the octets of the list, for
// the damaged file with the name.
func (h *healing) remake(name string, sp store.Span, copy func(store.Span, io.Writer) error) (done bool, err error) {
	out, err := h.Store.Temp()
	if err != nil {
		return false, err
	}
	defer out.Discard()
	// Without ReadFrom, by which a file takes errors of the source for its own.
	w := bufio.NewWriterSize(struct{ io.Writer }{out}, 256<<10)
	err = copy(sp, w)
	if e := w.Flush(); e != nil {
		return false, e // of the disk, not of the source
	}
	if err != nil && !scarce(err) && h.pause() {
		return false, nil // the next source may be better
	}
	if err != nil {
		return false, err
	}
	if err := h.Store.Verified.Check(out.File, sp.Length, sp.Sum()); err != nil {
		if store.Unusable(err) {
			err = nil // another list
		}
		return false, err
	}
	if _, err := h.setAside(h.d, name); err != nil {
		return false, err
	}
	if err := out.Commit(h.d, names.EntriesFile(sp.First)); err != nil {
		return false, err
	}
	h.Store.Verified.Trust(out.File, sp.Sum())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files.Lists.SetPacked(sp.First, 0)
	h.made.unfolded = true
	return true, nil
}

func (h *healing) fromGzip(sp store.Span, w io.Writer) error {
	file, err := h.d.Open(names.GzipFile(sp.First))
	if err != nil {
		return err
	}
	defer file.Close()
	return compose.Expand(w, file, sp.Length)
}

func (h *healing) fromJournal(sp store.Span, w io.Writer) error {
	render := h.Renderer()
	first := h.Queue.State().Before + 1
	var buf []byte
	for at := sp.First - 1; at < sp.Last; {
		events, err := h.Queue.Events(at, EventBatch)
		if err != nil {
			return err
		}
		if len(events) == 0 || !h.pause() {
			return dump.ErrStopped
		}
		buf = buf[:0]
		for i := range events {
			if events[i].Seq <= sp.Last {
				buf, _ = h.entries(&render, buf, &events[i], events[i].Seq == first)
			}
		}
		at = events[len(events)-1].Seq
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// healPackage gives up a package of changes.
func (h *healing) healPackage(sp store.Span, cause error) error {
	name := names.PackageFile(sp.First)
	aside, err := h.setAside(h.d, name)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.files.Packages.Lose(h.Store, h.d, sp.First); err != nil {
		return err
	}
	h.want()
	h.given.Add(1)
	h.report(name, "%v; moved to %s, the Change Dump begins after it", cause, aside)
	return nil
}

// dropDumps sets aside the Resource Dumps with a damaged package; another one is made.
func (h *healing) dropDumps(name string, cause error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.files.DropDumps(h.d, name)
	if err != nil {
		return err
	}
	h.healed.Add(1)
	h.made.wanted, h.made.unswept = h.Queue.Seq(), true
	h.report(name, "%v; set aside with %d Resource Dumps that have it, another one is made", cause, n)
	return nil
}
