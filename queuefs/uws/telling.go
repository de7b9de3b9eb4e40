package uws

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"cutie/queuefs"
)

// A phase that is not said by the queue changes in this order: a note that it
// will, the change itself, the event ([queuefs.Queue.TellPhase]), and the note
// goes. So an event tells only of what is on stable storage, and what is there
// untold has a note. The note is an empty file beside what is staged, which
// comes to stable storage with the change; it goes unsynced, before a
// checkpoint lets go of the journal that has the event.
//
//	note   phase of the job  event after the note  after a crash
//	-----  ----------------  --------------------  --------------------------
//	there  another one       any                   the note goes
//	there  that of the note  none                  it is told; the note goes
//	there  that of the note  there                 the note goes
//
// If the event cannot be told, as on a full disk, the change stands, and who
// asked for it gets the error; only a job that was being made is unmade. It is
// told by a Tick, or before anything else is done to the job. To destroy a job
// does not wait for that where there is no room, since that makes some.

// gone is the phase of a job that was destroyed, in a note.
const gone phase = ""

// goneWord stands for gone in the name of a file.
const goneWord = "GONE"

// A note says that an event of a phase is to follow an event of the queue.
type note struct {
	phase phase
	after queuefs.Seq
}

const noteMark = ".untold-"

// name returns the name of the file of the note.
func (n note) name(id string) string {
	word := string(n.phase)
	if n.phase == gone {
		word = goneWord
	}
	return id + noteMark + word + "-" + strconv.FormatUint(uint64(n.after), 10)
}

// parseNote accepts only what name returns.
func parseNote(name string) (id string, n note, ok bool) {
	id, rest, _ := strings.Cut(name, noteMark)
	word, number, _ := strings.Cut(rest, "-")
	switch phase(word) {
	case pending, aborted, archived:
		n.phase = phase(word)
	case goneWord:
	default:
		return "", note{}, false
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	n.after = queuefs.Seq(seq)
	return id, n, err == nil && checkID(id) && n.name(id) == name
}

// telling changes the phase of a job, whose lock is held, and tells of it,
// unless change says that the queue has told.
func (s *shelf) telling(ctx context.Context, id string, to phase, change func() (told bool, err error)) error {
	d, err := s.open(true)
	if err != nil {
		return err
	}
	n := note{to, s.q.Seq()}
	err = d.staged.Put(n.name(id), nil)
	if to == gone && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
		err = nil // what makes room wants none; only a crash before the event leaves it untold
	}
	told := false
	if err == nil {
		told, err = change()
	}
	if err == nil && !told {
		// A client that has gone leaves the change whole.
		err = s.q.TellPhase(context.WithoutCancel(ctx), id, string(to))
		if to != pending && errors.Is(err, queuefs.ErrNoQueue) {
			// The job kept its queue no longer from being removed, and nobody
			// is left to be told. One that is made is not to be lost so.
			err = nil
		}
	}
	if err != nil {
		s.owe(id, n) // it may have happened all the same
		return err
	}
	_ = s.paid(id, n) // or later: it was told
	return nil
}

// owe remembers that an event may have to be told.
func (s *shelf) owe(id string, n note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owed == nil {
		s.owed = map[string][]note{}
	}
	if !slices.Contains(s.owed[id], n) {
		s.owed[id] = append(s.owed[id], n)
	}
}

// owes returns the notes of a job whose events may have to be told.
func (s *shelf) owes(id string) []note {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.owed[id])
}

// paid removes a note.
func (s *shelf) paid(id string, n note) error {
	s.mu.Lock()
	staged := s.dirs.staged
	s.mu.Unlock()
	if staged != nil {
		if err := staged.Remove(n.name(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.owe(id, n)
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := slices.DeleteFunc(s.owed[id], func(o note) bool { return o == n }); len(left) > 0 {
		s.owed[id] = left
	} else {
		delete(s.owed, id)
	}
	return nil
}

// told tells whether the event of a note is in the journal. What the journal no
// longer has counts as not told: the note goes before its event does, so that
// is rare, and who follows is told at least once.
func (s *shelf) told(id string, n note) (bool, error) {
	const atOnce = 100 // it comes soon, if it is there
	for after := n.after; ; {
		events, err := s.q.Events(after, atOnce)
		if errors.Is(err, queuefs.ErrGone) || err == nil && len(events) == 0 {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for _, e := range events {
			if e.Kind == queuefs.Phase && e.Subject == id && e.Phase == string(n.phase) {
				return true, nil
			}
			after = e.Seq
		}
	}
}

// makeUp tells what has happened to a job, whose lock is held, and was not
// told, if anything was not. A job has several notes if its last change found
// the one before untold; then only the last may speak of what holds now.
func (h *Handler) makeUp(ctx context.Context, s *shelf, id string) error {
	owed := s.owes(id)
	if len(owed) == 0 {
		return nil
	}
	if err := h.certain(); err != nil {
		return err
	}
	now, err := h.standing(s, id)
	if err != nil {
		return err
	}
	for _, n := range owed {
		if now == n.phase {
			if err := s.tellOnce(ctx, id, n); err != nil {
				return err
			}
		}
		if err := s.paid(id, n); err != nil {
			return err
		}
	}
	return nil
}

// tellOnce tells of the phase of a note, unless that was told.
func (s *shelf) tellOnce(ctx context.Context, id string, n note) error {
	told, err := s.told(id, n)
	if err != nil || told {
		return err
	}
	// That it happened may not be on stable storage yet.
	d := s.there()
	if err := errors.Join(d.staged.Sync(), d.jobs.Sync()); err != nil {
		return err
	}
	return s.q.TellPhase(context.WithoutCancel(ctx), id, string(n.phase))
}

// standing returns the phase of a job by what is on disk. Of a record that
// cannot be understood nothing is known, which is the phase of no note.
func (h *Handler) standing(s *shelf, id string) (phase, error) {
	rec, err := s.record(id)
	if err == nil && rec != nil && rec.job == 0 && rec.from != 0 {
		err = h.settle(s, id)
	}
	var j *job
	if err == nil {
		j, err = s.find(settings{}, id)
	}
	strange := (*strangeError)(nil)
	switch {
	case errors.Is(err, errNoJob):
		return gone, nil
	case errors.As(err, &strange):
		return "UNKNOWN", nil
	case err != nil:
		return "", err
	}
	return j.phase(), nil
}

// makeUpAll is makeUp for all jobs of a queue.
func (h *Handler) makeUpAll(ctx context.Context, s *shelf) error {
	s.mu.Lock()
	ids := slices.Sorted(maps.Keys(s.owed))
	s.mu.Unlock()
	for _, id := range ids {
		unlock := s.lock(id)
		err := h.makeUp(ctx, s, id)
		unlock()
		if err != nil {
			return fmt.Errorf("job %s: its phase could not be told: %w", id, err)
		}
	}
	return nil
}
