package set

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// A Cursor is the file with the open list of each set at the last checkpoint. It
// is safe for concurrent use.
type Cursor struct {
	store *Store
	there atomic.Bool // the file has lines, or had some

	mu    sync.Mutex
	taken []byte // by the last Take, until it is written
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
	SHA256  string  // of the entries of Open; Unknown without entries
	List    job.Seq // of the last closed list
	Package job.Seq // of the last package
	Dump    job.Seq // of the last Resource Dump
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

// Lines are the lines of both sets of a queue as they stand in the cursor. A home may have
// many queues at rest, and so little of each in memory.
type Lines string

// LinesOf prints lines.
func LinesOf(of *[names.Sets]Line) Lines {
	var dst []byte
	for i := range of {
		dst = of[i].append(dst)
	}
	return Lines(dst)
}

// Parse reads lines. Those of the cursor, and of LinesOf, have no error.
func (l Lines) Parse() (of [names.Sets]Line, err error) {
	rest := string(l)
	for i := range of {
		line, after, whole := strings.Cut(rest, "\n")
		w := words{left: line}
		of[i].Queue, of[i].Set = strings.Clone(w.word()), names.Set(i)
		if set := w.word(); !whole || set != of[i].Set.String() || of[i].Queue != of[0].Queue {
			return of, fmt.Errorf("line %.200q out of turn", line)
		}
		if err := of[i].parse(w); err != nil {
			return of, fmt.Errorf("line %.200q: %w", line, err)
		}
		rest = after
	}
	if rest != "" {
		return of, fmt.Errorf("%.60q is too much", rest)
	}
	return of, nil
}

// Take remembers how far all sets are now.
func (c *Cursor) Take(queues iter.Seq[Lines]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = printCursor(c.taken[:0], c.store.Stamp, queues)
}

// printCursor prints a header, the lines of each queue, and a last line, or the file does
// not count.
func printCursor(dst []byte, stamp string, queues iter.Seq[Lines]) []byte {
	dst = append(dst, header(cursorTitle, stamp)...)
	n := 0
	for l := range queues {
		dst = append(dst, l...)
		n++
	}
	return fmt.Appendf(dst, "end %d\n", n)
}

// Write puts the lines of the last Take on stable storage. Anything else in the
// place of the file is set aside.
func (c *Cursor) Write() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken == nil {
		return nil
	}
	err := sealed(c.store.Root(), CursorFile, cursorTitle).Write(c.taken)
	if err != nil && Unusable(err) {
		if err = c.store.clearCursor(err); err == nil {
			err = sealed(c.store.Root(), CursorFile, cursorTitle).Write(c.taken)
		}
	}
	if err != nil {
		return err
	}
	c.taken = nil
	c.there.Store(true)
	return nil
}

// None reports whether the file has no line of a queue yet. It waits for no lock.
func (c *Cursor) None() bool { return !c.there.Load() }

// clearCursor sets aside anything in the place of the cursor.
func (s *Store) clearCursor(cause error) error {
	if err := s.Revive(); err != nil {
		return errors.Join(cause, err)
	}
	aside, err := SetAside(s.Root(), CursorFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(cause, err)
	}
	s.Report(CursorFile, "%v; what was there is in %s", cause, cmp.Or(aside, "no place"))
	return nil
}

// Cursor reads the cursor, and returns the lines by queue. A damaged file, or one of another
// stamp, is set aside. If there is none one without lines is written: a home that was killed
// before its first checkpoint is not one that lost its cursor.
func (s *Store) Cursor() (*Cursor, map[string]Lines, error) {
	root := s.Root()
	c := &Cursor{store: s}
	data, err := sealed(root, CursorFile, cursorTitle).Read()
	if errors.Is(err, fs.ErrNotExist) {
		none := printCursor(nil, s.Stamp, func(func(Lines) bool) {})
		return c, nil, sealed(root, CursorFile, cursorTitle).Write(none)
	}
	if err != nil && !Unusable(err) {
		return nil, nil, err
	}
	var open map[string]Lines
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
	c.there.Store(len(open) > 0)
	return c, open, nil
}

// parseCursor reads the output of printCursor.
func parseCursor(text, stamp string) (map[string]Lines, error) {
	rest, ok := strings.CutPrefix(text, header(cursorTitle, stamp))
	if !ok {
		return nil, fmt.Errorf("not the cursor of %s", stamp)
	}
	open := make(map[string]Lines)
	for {
		if rest == fmt.Sprintf("end %d\n", len(open)) {
			return open, nil
		}
		n := 0
		for range names.Sets {
			n += strings.IndexByte(rest[n:], '\n') + 1
		}
		lines := Lines(strings.Clone(rest[:n]))
		of, err := lines.Parse()
		if err != nil {
			return nil, err
		}
		open[of[0].Queue] = lines
		rest = rest[n:]
	}
}

// Unknown stands in the place of a digest of a list without entries.
const Unknown = "-"

// append prints the list as it stands in the cursor, parseOpenList reads it.
func (l *OpenList) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%d ", l.Read)
	dst = appendOptionalTime(dst, l.Until)
	dst = fmt.Appendf(dst, "%d ", l.First)
	dst = appendOptionalTime(dst, l.From)
	dst = appendOptionalTime(dst, l.Since)
	dst = appendOptionalTime(dst, l.Changed)
	return fmt.Appendf(dst, "%d %d %d", l.Entries, l.Length, l.Files)
}

func parseOpenList(w *words) (OpenList, error) {
	l := OpenList{Read: w.seq(), Until: w.time(), First: w.seq(), From: w.time(),
		Since: w.optionalTime(), Changed: w.optionalTime(), Entries: int(w.int()), Length: w.int(), Files: w.int()}
	if w.err != nil {
		return l, w.err
	}
	empty := l.Entries == 0
	if l.First == 0 || l.First > l.Read+1 || l.Entries < 0 || l.Length < 0 || l.Files < 0 ||
		empty != (l.Length == 0) || empty != l.Since.IsZero() || empty != l.Changed.IsZero() {
		return l, errors.New("out of range")
	}
	return l, nil
}

// header is the first line of a file of ours.
func header(title, stamp string) string { return "cutie " + title + " 1 " + stamp + "\n" }

// parseSum reads a SHA-256 in hexadecimal; ok is false for any other word.
func parseSum(word string) (sum [sha256.Size]byte, ok bool) {
	b, err := hex.DecodeString(word)
	if err != nil || len(b) != len(sum) {
		return sum, false
	}
	return [sha256.Size]byte(b), true
}

// words reads a line of words with one blank between them.
type words struct {
	left string
	err  error
}

func (w *words) word() string {
	word, rest, more := strings.Cut(w.left, " ")
	if word == "" && w.err == nil {
		w.err = errors.New("word missing")
	}
	if w.left = rest; more && rest == "" && w.err == nil {
		w.err = errors.New("blank at the end")
	}
	return word
}

func (w *words) int() int64 {
	n, err := strconv.ParseInt(w.word(), 10, 64)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n
}

func (w *words) seq() job.Seq {
	n, err := strconv.ParseUint(w.word(), 10, 64)
	if err != nil && w.err == nil {
		w.err = err
	}
	return job.Seq(n)
}

func (w *words) time() time.Time {
	t, err := sitemap.ParseTime(w.word())
	if err != nil && w.err == nil {
		w.err = err
	}
	return t
}

// optionalTime reads a time, or "-" for none.
func (w *words) optionalTime() time.Time {
	if rest, ok := strings.CutPrefix(w.left, "- "); ok {
		w.left = rest
		return time.Time{}
	}
	return w.time()
}

func (w *words) end() error {
	if w.err == nil && w.left != "" {
		return fmt.Errorf("%.60q is too much", w.left)
	}
	return w.err
}

// appendOptionalTime prints a time, or "-" for none, and a blank.
func appendOptionalTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "- "...)
	}
	return append(sitemap.AppendTime(dst, t), ' ')
}
