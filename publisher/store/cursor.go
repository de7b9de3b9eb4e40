package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"cutie/publisher/names"
	"cutie/queuefs/durable"
)

// A Cursor is the file with the open list of each set at the last checkpoint. It
// is safe for concurrent use.
type Cursor struct {
	store *Store

	mu      sync.Mutex
	flushed []byte       // as of the last Take
	written []byte       // contents of the file
	in      *durable.Dir // has the file
}

// The file stands beside the directories of queues. No queue has its name.
const (
	cursorFile  = "cutie-cursor"
	cursorTitle = "cursor"
)

// A Line of the cursor is how far a set is.
type Line struct {
	Queue string
	Set   names.Set
	Open  OpenList
}

// printCursor prints a header, a line for each set, and a last line, or the file
// does not count. all has both sets of each queue, sorted by queue.
func printCursor(stamp string, all []Line) []byte {
	dst := []byte(header(cursorTitle, stamp))
	for i := range all {
		at := &all[i]
		dst = append(append(append(append(dst, at.Queue...), ' '), at.Set.String()...), ' ')
		dst = at.Open.append(dst)
	}
	return fmt.Appendf(dst, "end %d\n", len(all)/names.Sets)
}

// Take remembers how far all sets are now.
func (c *Cursor) Take(lines func() []Line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushed = printCursor(c.store.Stamp, lines())
}

// Write puts the lines of the last Take on stable storage. Anything else in the
// place of the file is set aside.
func (c *Cursor) Write() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	root := c.store.Root()
	if c.flushed == nil || bytes.Equal(c.flushed, c.written) && c.in == root {
		return nil
	}
	err := sealed(root, cursorFile, cursorTitle).Write(c.flushed)
	if err != nil && Unusable(err) {
		if root, err = c.store.clearCursor(err); err == nil {
			err = sealed(root, cursorFile, cursorTitle).Write(c.flushed)
		}
	}
	if err != nil {
		return err
	}
	c.written, c.in = c.flushed, root
	return nil
}

// clearCursor sets aside anything in the place of the cursor.
func (s *Store) clearCursor(cause error) (*durable.Dir, error) {
	if err := s.Revive(); err != nil {
		return nil, errors.Join(cause, err)
	}
	root := s.Root()
	aside, err := SetAside(root, cursorFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(cause, err)
	}
	s.Report(cursorFile, "%v; what was there is in %s", cause, cmp.Or(aside, "no place"))
	return root, nil
}

// Cursor reads the cursor, if there is one, and returns the open lists of both sets
// by queue. A damaged file, or one of another stamp, is set aside.
func (s *Store) Cursor() (*Cursor, map[string][]OpenList, error) {
	root := s.Root()
	c := &Cursor{store: s}
	data, err := sealed(root, cursorFile, cursorTitle).Read()
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil, nil
	}
	if err != nil && !Unusable(err) {
		return nil, nil, err
	}
	var open map[string][]OpenList
	if err == nil {
		open, err = parseCursor(string(data), s.Stamp)
	}
	if err != nil {
		aside, e := SetAside(root, cursorFile)
		if e != nil {
			return nil, nil, errors.Join(err, e)
		}
		s.Report(cursorFile, "%v; moved to %s, open Change Lists begin anew where the journal does not reach back", err, aside)
		return c, nil, nil
	}
	c.written, c.in = data, root
	return c, open, nil
}

func parseCursor(text, stamp string) (map[string][]OpenList, error) {
	rest, ok := strings.CutPrefix(text, header(cursorTitle, stamp))
	if !ok {
		return nil, fmt.Errorf("not the cursor of %s", stamp)
	}
	open := make(map[string][]OpenList)
	for line := range strings.Lines(rest) {
		w := words{left: strings.TrimSuffix(line, "\n")}
		id := w.word()
		set := w.word()
		if id == "end" && w.left == "" && set+"\n" == strconv.Itoa(len(open))+"\n" && strings.HasSuffix(rest, line) {
			return open, nil
		}
		l, err := parseOpenList(w)
		if n := len(open[id]); err == nil && (n >= names.Sets || names.Set(n).String() != set) {
			err = fmt.Errorf("set %.20q out of turn", set)
		}
		if err != nil {
			return nil, fmt.Errorf("line %.200q: %w", line, err)
		}
		open[id] = append(open[id], l)
	}
	return nil, errors.New("cut off")
}
