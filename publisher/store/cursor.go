package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// A Cursor is the file with the open list of each set at the last checkpoint. It
// is safe for concurrent use.
type Cursor struct {
	store *Store
	there atomic.Bool // the file is, or was

	mu      sync.Mutex
	flushed []byte       // as of the last Take
	written []byte       // contents of the file
	in      *durable.Dir // has the file
}

// CursorFile stands beside the directories of queues. No queue has its name.
const CursorFile = "cutie-cursor"

const cursorTitle = "cursor"

// A Line of the cursor is how far a set is. The last three are last events, 0 for
// none: files that lost their end are known by them.
type Line struct {
	Queue   string
	Set     names.Set
	Open    OpenList
	SHA256  string      // of the entries of Open; Unknown in files of former versions
	List    queuefs.Seq // of the last closed list
	Package queuefs.Seq // of the last package
	Dump    queuefs.Seq // of the last Resource Dump
	Files   Files
}

// Files are the figures of a set, so that its state is known before it is opened; zero in
// files of former versions.
type Files struct {
	Lists, Packages, Dumps, Lost int
	Octets                       int64
}

func (l *Line) append(dst []byte) []byte {
	dst = append(append(append(append(dst, l.Queue...), ' '), l.Set.String()...), ' ')
	dst = append(append(l.Open.append(dst), ' '), cmp.Or(l.SHA256, Unknown)...)
	f := &l.Files
	return fmt.Appendf(dst, " %d %d %d %d %d %d %d %d\n", l.List, l.Package, l.Dump, f.Lists, f.Packages, f.Dumps, f.Lost, f.Octets)
}

// parse reads a line after its first two words. Files of former versions have the
// open list alone.
func (l *Line) parse(w words) (err error) {
	if l.Open, err = parseOpenList(&w); err != nil {
		return err
	}
	l.SHA256 = Unknown
	if w.left != "" {
		l.SHA256, l.List, l.Package, l.Dump = strings.Clone(w.word()), w.seq(), w.seq(), w.seq()
	}
	if f := &l.Files; w.left != "" {
		*f = Files{Lists: int(w.int()), Packages: int(w.int()), Dumps: int(w.int()), Lost: int(w.int()), Octets: w.int()}
	}
	return w.end()
}

// printCursor prints a header, a line for each set, and a last line, or the file
// does not count. all has both sets of each queue in turn.
func printCursor(dst []byte, stamp string, all iter.Seq[Line]) []byte {
	dst = append(dst, header(cursorTitle, stamp)...)
	n := 0
	for l := range all {
		dst = l.append(dst)
		n++
	}
	return fmt.Appendf(dst, "end %d\n", n/names.Sets)
}

// Take remembers how far all sets are now.
func (c *Cursor) Take(lines iter.Seq[Line]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushed = printCursor(make([]byte, 0, len(c.written)+len(c.written)/16+1024), c.store.Stamp, lines)
}

// Write puts the lines of the last Take on stable storage. Anything else in the
// place of the file is set aside.
func (c *Cursor) Write() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	root := c.store.Root()
	if c.flushed == nil || bytes.Equal(c.flushed, c.written) && c.in == root {
		c.flushed = nil
		return nil
	}
	err := sealed(root, CursorFile, cursorTitle).Write(c.flushed)
	if err != nil && Unusable(err) {
		if root, err = c.store.clearCursor(err); err == nil {
			err = sealed(root, CursorFile, cursorTitle).Write(c.flushed)
		}
	}
	if err != nil {
		return err
	}
	c.written, c.in, c.flushed = c.flushed, root, nil
	c.there.Store(true)
	return nil
}

// None reports whether there was no file to read, and none was written yet. It waits
// for no lock.
func (c *Cursor) None() bool { return !c.there.Load() }

// Verify writes the file anew if it is not as it was written.
func (c *Cursor) Verify() (bytesRead int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	root := c.store.Root()
	if c.written == nil || c.in != root {
		return 0, nil
	}
	file := sealed(root, CursorFile, cursorTitle)
	now, err := file.Read()
	if err == nil && bytes.Equal(now, c.written) || err != nil && !Unusable(err) {
		return int64(len(now)), err
	}
	c.store.Report(CursorFile, "%v; written again", cmp.Or(err, durable.ErrDamaged))
	err = file.Write(c.written)
	if err != nil && Unusable(err) {
		if root, err = c.store.clearCursor(err); err == nil {
			err = sealed(root, CursorFile, cursorTitle).Write(c.written)
		}
	}
	return int64(len(c.written)), err
}

// clearCursor sets aside anything in the place of the cursor.
func (s *Store) clearCursor(cause error) (*durable.Dir, error) {
	if err := s.Revive(); err != nil {
		return nil, errors.Join(cause, err)
	}
	root := s.Root()
	aside, err := SetAside(root, CursorFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(cause, err)
	}
	s.Report(CursorFile, "%v; what was there is in %s", cause, cmp.Or(aside, "no place"))
	return root, nil
}

// Cursor reads the cursor, if there is one, and returns the lines of both sets by
// queue. A damaged file, or one of another stamp, is set aside.
func (s *Store) Cursor() (*Cursor, map[string][]Line, error) {
	root := s.Root()
	c := &Cursor{store: s}
	data, err := sealed(root, CursorFile, cursorTitle).Read()
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil, nil
	}
	if err != nil && !Unusable(err) {
		return nil, nil, err
	}
	var open map[string][]Line
	if err == nil {
		open, err = parseCursor(string(data), s.Stamp)
	}
	if err != nil {
		aside, e := SetAside(root, CursorFile)
		if e != nil {
			return nil, nil, errors.Join(err, e)
		}
		s.Report(CursorFile, "%v; moved to %s, open Change Lists begin anew where the journal does not reach back", err, aside)
		return c, nil, nil
	}
	c.written, c.in = data, root
	c.there.Store(true)
	return c, open, nil
}

func parseCursor(text, stamp string) (map[string][]Line, error) {
	rest, ok := strings.CutPrefix(text, header(cursorTitle, stamp))
	if !ok {
		return nil, fmt.Errorf("not the cursor of %s", stamp)
	}
	open := make(map[string][]Line)
	for line := range strings.Lines(rest) {
		w := words{left: strings.TrimSuffix(line, "\n")}
		id := w.word()
		set := w.word()
		if id == "end" && w.left == "" && set+"\n" == strconv.Itoa(len(open))+"\n" && strings.HasSuffix(rest, line) {
			return open, nil
		}
		n := len(open[id])
		l := Line{Queue: id, Set: names.Set(n)}
		err := l.parse(w)
		if err == nil && (n >= names.Sets || names.Set(n).String() != set) {
			err = fmt.Errorf("set %.20q out of turn", set)
		}
		if err != nil {
			return nil, fmt.Errorf("line %.200q: %w", line, err)
		}
		open[id] = append(open[id], l)
	}
	return nil, errors.New("cut off")
}
