package callback

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
)

// The cursor has a line for each queue, also for those without a callback, so
// that one that gets it knows where to begin; and a last line without which it
// does not count:
//
//	cutie callbacks 1
//	QUEUE DONE TIME SITE|- FAILING|- FAILURES sending|stopped
//	end N
const cursorTitle = "cutie callbacks 1\n"

// writeCursor puts the cursor on stable storage if it has changed; s.work is
// held.
func (s *Sender) writeCursor() error {
	marks := maps.Clone(s.marks)
	for id, f := range s.feeds {
		f.mu.Lock()
		marks[id] = f.mark
		f.mu.Unlock()
	}
	dst := []byte(cursorTitle)
	for _, id := range slices.Sorted(maps.Keys(marks)) {
		m := marks[id]
		dst = append(m.append(append(append(dst, id...), ' ')), '\n')
	}
	dst = fmt.Appendf(dst, "end %d\n", len(marks))
	if !bytes.Equal(dst, s.written) {
		if err := s.dir.Replace(cursorName, dst); err != nil {
			return fmt.Errorf("callbacks: %w", err)
		}
		s.written, s.wroteAt = dst, s.Now()
	}
	for id, f := range s.feeds {
		f.wrote = marks[id].done
	}
	return nil
}

func (m *mark) append(dst []byte) []byte {
	site, failing, state := cmp.Or(m.site, "-"), "-", "sending"
	if !m.failing.IsZero() {
		failing = queuefs.FormatTime(m.failing)
	}
	if m.stopped {
		state = "stopped"
	}
	return fmt.Appendf(dst, "%d %s %s %s %d %s", m.done, queuefs.FormatTime(m.doneAt), site, failing, m.failures, state)
}

func parseMark(text string) (m mark, err error) {
	w := strings.Split(text, " ")
	if len(w) != 6 {
		return m, errors.New("not seven words")
	}
	if m.done, m.doneAt, err = parseEvent(w[0], w[1]); err != nil {
		return m, err
	}
	if m.site = w[2]; m.site == "-" {
		m.site = ""
	}
	if w[3] != "-" {
		if m.failing, err = time.Parse(time.RFC3339Nano, w[3]); err != nil {
			return m, err
		}
	}
	if m.failures, err = strconv.Atoi(w[4]); err != nil {
		return m, err
	}
	m.stopped = w[5] == "stopped"
	if string(m.append(nil)) != text {
		return m, errors.New("not as it is written")
	}
	return m, nil
}

// readCursor reads the cursor, which may be absent. A damaged one is set
// aside.
func (s *Sender) readCursor() error {
	s.marks = map[string]mark{}
	data, err := s.dir.ReadFile(cursorName, nil, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	marks, err := parseCursor(string(data))
	if err != nil {
		return s.setAside(cursorName, err)
	}
	s.marks, s.written = marks, data
	return nil
}

func parseCursor(text string) (map[string]mark, error) {
	rest, ok := strings.CutPrefix(text, cursorTitle)
	if !ok {
		return nil, errors.New("not the cursor of callbacks")
	}
	marks := map[string]mark{}
	for line := range strings.Lines(rest) {
		if rest == line {
			if line != fmt.Sprintf("end %d\n", len(marks)) {
				break
			}
			return marks, nil
		}
		rest = rest[len(line):]
		id, words, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		m, err := parseMark(words)
		if err != nil {
			return nil, fmt.Errorf("line %.200q: %w", line, err)
		}
		marks[id] = m
	}
	return nil, errors.New("cut off")
}

// Flush brings every committed event into the outboxes, unsynced. The engine
// calls it before a checkpoint syncs the file system.
func (s *Sender) Flush() error {
	s.work.Lock()
	defer s.work.Unlock()
	if s.closed {
		return queuefs.ErrClosed
	}
	if err := s.meet(); err != nil {
		return err
	}
	for id, f := range s.feeds {
		f.mu.Lock()
		o := outbox{read: f.read, readAt: f.readAt}
		waits := f.waiting.len() > 0 && f.read > f.saved
		if waits {
			o.changes = f.waiting.all()
		}
		if f.url == "" || f.stopped {
			f.settle()
		}
		f.mu.Unlock()
		if err := f.unstage(); err != nil {
			return err
		}
		if !waits {
			continue
		}
		tmp, err := s.dir.Stage(id+outboxExt, o.file())
		if err != nil {
			return err
		}
		f.staged, f.stagedSeq = tmp, o.read
	}
	return nil
}

// unstage removes what a checkpoint left that did not come to its end.
func (f *feed) unstage() error {
	if f.staged == "" {
		return nil
	}
	err := f.s.dir.Remove(f.staged)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		f.staged, err = "", nil
	}
	return err
}

// Synced makes what the last Flush wrote that from which deliveries go on
// after a crash. The engine calls it after the sync; when it has returned nil
// the events before that Flush are no longer needed.
func (s *Sender) Synced() error {
	s.work.Lock()
	defer s.work.Unlock()
	if s.closed {
		return queuefs.ErrClosed
	}
	placed := false
	for id, f := range s.feeds {
		if f.staged != "" {
			if err := s.dir.Rename(f.staged, s.dir, id+outboxExt); err != nil {
				return err
			}
			f.staged, f.saved, placed = "", f.stagedSeq, true
		}
	}
	if placed {
		if err := s.dir.Sync(); err != nil {
			return err
		}
	}
	if err := s.writeCursor(); err != nil {
		return err
	}
	return s.prune()
}

// prune removes outboxes of which the cursor says that all is done.
func (s *Sender) prune() error {
	for id, f := range s.feeds {
		if f.saved == 0 || f.wrote < f.saved {
			continue
		}
		if err := s.dir.Remove(id + outboxExt); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.saved = 0
	}
	return nil
}

// Forget drops what is known of a queue that was removed. The lines about what
// was set aside stay, for people.
func (s *Sender) Forget(queue string) error {
	s.work.Lock()
	defer s.work.Unlock()
	if s.closed {
		return queuefs.ErrClosed
	}
	if f := s.feeds[queue]; f != nil {
		if err := f.unstage(); err != nil {
			return err
		}
		s.drop(f)
	}
	delete(s.marks, queue)
	if err := s.dir.Remove(queue + outboxExt); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.writeCursor()
}
