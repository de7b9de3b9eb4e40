package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
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
	written contents     // of the file; it has no more of a home with many queues in memory
	in      *durable.Dir // has the file; nil without one
}

// contents are known by their digest.
type contents struct {
	length int
	sum    [sha256.Size]byte
}

func contentsOf(text []byte) contents { return contents{len(text), sha256.Sum256(text)} }

// CursorFile stands beside the directories of queues. No queue has its name.
const CursorFile = "cutie-cursor"

const cursorTitle = "cursor"

// A Line of the cursor is how far a set is. The last three are last events, 0 for
// none: files that lost their end are known by them.
type Line struct {
	Queue   string
	Set     names.Set
	Open    OpenList
	SHA256  string      // of the entries of Open; Unknown without entries
	List    queuefs.Seq // of the last closed list
	Package queuefs.Seq // of the last package
	Dump    queuefs.Seq // of the last Resource Dump
	Files   Files
}

// Files are the figures of a set, so that its state is known before it is opened.
type Files struct {
	Lists, Packages, Dumps, Left int
	Octets                       int64
}

func (l *Line) append(dst []byte) []byte {
	dst = append(append(append(append(dst, l.Queue...), ' '), l.Set.String()...), ' ')
	dst = append(append(l.Open.append(dst), ' '), cmp.Or(l.SHA256, Unknown)...)
	f := &l.Files
	dst = fmt.Appendf(dst, " %d %d %d %d %d %d %d %d", l.List, l.Package, l.Dump, f.Lists, f.Packages, f.Dumps, f.Left, f.Octets)
	return append(dst, '\n')
}

// parse reads a line after its first two words.
func (l *Line) parse(w words) (err error) {
	if l.Open, err = parseOpenList(&w); err != nil {
		return err
	}
	l.SHA256, l.List, l.Package, l.Dump = strings.Clone(w.word()), w.seq(), w.seq(), w.seq()
	l.Files = Files{Lists: int(w.int()), Packages: int(w.int()), Dumps: int(w.int()), Left: int(w.int()), Octets: w.int()}
	if _, known := parseSum(l.SHA256); w.err == nil && !known && (l.Open.Entries > 0 || l.SHA256 != Unknown) {
		return errors.New("entries without their digest")
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
	c.flushed = c.print(lines)
}

func (c *Cursor) print(lines iter.Seq[Line]) []byte {
	return printCursor(make([]byte, 0, c.written.length+c.written.length/16+1024), c.store.Stamp, lines)
}

// Write puts the lines of the last Take on stable storage. Anything else in the
// place of the file is set aside.
func (c *Cursor) Write() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flushed == nil {
		return nil
	}
	err := c.write(c.flushed)
	if err == nil {
		c.flushed = nil
	}
	return err
}

// write makes text the contents of the file, unless they are.
func (c *Cursor) write(text []byte) error {
	root, now := c.store.Root(), contentsOf(text)
	if now == c.written && c.in == root {
		return nil
	}
	err := sealed(root, CursorFile, cursorTitle).Write(text)
	if err != nil && Unusable(err) {
		if root, err = c.store.clearCursor(err); err == nil {
			err = sealed(root, CursorFile, cursorTitle).Write(text)
		}
	}
	if err != nil {
		return err
	}
	c.written, c.in = now, root
	c.there.Store(true)
	return nil
}

// None reports whether there was no file to read, and none was written yet. It waits
// for no lock.
func (c *Cursor) None() bool { return !c.there.Load() }

// Verify writes the file anew if it is not as it was written. lines are how far all sets
// are now; what they speak of is on stable storage before the file is.
func (c *Cursor) Verify(lines iter.Seq[Line]) (bytesRead int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	root := c.store.Root()
	if c.in == nil || c.in != root {
		return 0, nil
	}
	now, err := sealed(root, CursorFile, cursorTitle).Read()
	if err == nil && contentsOf(now) == c.written || err != nil && !Unusable(err) {
		return int64(len(now)), err
	}
	c.store.Report(CursorFile, "%v; written again", cmp.Or(err, durable.ErrDamaged))
	text := c.print(lines)
	if err := root.SyncFS(); err != nil {
		return 0, err
	}
	c.written = contents{}
	return int64(len(text)), c.write(text)
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
func (s *Store) Cursor() (*Cursor, map[string]Lines, error) {
	root := s.Root()
	c := &Cursor{store: s}
	data, err := sealed(root, CursorFile, cursorTitle).Read()
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil, nil
	}
	if err != nil && !Unusable(err) {
		return nil, nil, err
	}
	var open map[string]Lines
	if err == nil {
		open, err = parseCursor(data, s.Stamp)
	}
	if err != nil {
		aside, e := SetAside(root, CursorFile)
		if e != nil {
			return nil, nil, errors.Join(err, e)
		}
		s.Report(CursorFile, "%v; moved to %s, open Change Lists begin anew where the journal does not reach back", err, aside)
		return c, nil, nil
	}
	c.written, c.in = contentsOf(data), root
	c.there.Store(true)
	return c, open, nil
}

// parseCursor reads the output of printCursor. A queue with one line has none.
func parseCursor(text []byte, stamp string) (map[string]Lines, error) {
	rest, ok := bytes.CutPrefix(text, []byte(header(cursorTitle, stamp)))
	if !ok {
		return nil, fmt.Errorf("not the cursor of %s", stamp)
	}
	open, first := make(map[string]Lines), map[string]Line{}
	for line := range bytes.Lines(rest) {
		rest = rest[len(line):]
		w := words{left: string(bytes.TrimSuffix(line, []byte("\n")))}
		id := strings.Clone(w.word())
		set := w.word()
		if id == "end" && w.left == "" && set == strconv.Itoa(len(open)+len(first)) && len(rest) == 0 && line[len(line)-1] == '\n' {
			return open, nil
		}
		was, second := first[id]
		l := Line{Queue: id}
		if second {
			l.Set = was.Set + 1
		}
		err := l.parse(w)
		if _, full := open[id]; err == nil && (full || l.Set.String() != set) {
			err = fmt.Errorf("set %.20q out of turn", set)
		}
		if err != nil {
			return nil, fmt.Errorf("line %.200q: %w", line, err)
		}
		if !second {
			first[id] = l
			continue
		}
		delete(first, id)
		open[id] = Pack(&[names.Sets]Line{was, l})
	}
	return nil, errors.New("cut off")
}
