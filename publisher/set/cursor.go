package set

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
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
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/sitemap"
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

// An OpenList is the open Change List of a set: how far the set has read the
// events of its queue, and how far the list had grown by then.
type OpenList struct {
	First   job.Seq   // first event of the list, after the last list or gap; Read+1 at most
	Read    job.Seq   // last event read
	From    time.Time // of the event before First, or of the creation of the queue
	Until   time.Time // of the last event that is no phase, or of the creation
	Since   time.Time // of the first event with an entry; zero without one
	Changed time.Time // of the last event with an entry; zero without one
	Entries int
	Length  int64 // bytes of the entries
	Files   int64 // bytes of the files its package is to have
}

// NewOpenList returns the list that begins after the event seq.
func NewOpenList(seq job.Seq, at time.Time) OpenList {
	return OpenList{First: seq + 1, Read: seq, From: at, Until: at}
}

// Span returns the list as it would be closed.
func (l *OpenList) Span() Span {
	return Span{First: l.First, Last: l.Read, From: l.From, Until: l.Until, Entries: l.Entries, Length: l.Length}
}

// Unknown stands in the place of a digest of a list without entries.
const Unknown = "-"

// Add adds an event with n entries of size bytes. Until does not move with a
// phase: documents show no phases.
func (l *OpenList) Add(ev *job.Event, n, size int) {
	if l.Read = ev.Seq; ev.Kind == job.Phase {
		return
	}
	l.Until = ev.Time
	if n == 0 {
		return
	}
	if l.Entries == 0 {
		l.Since = ev.Time
	}
	l.Changed = ev.Time
	l.Entries += n
	l.Length += int64(size)
}

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

// Lines are the lines of both sets of a queue in little memory: a home may have many
// queues at rest. The zero Lines are none.
type Lines string

// Pack returns lines without their queue. Times count in microseconds, as in the file.
func Pack(of *[names.Sets]Line) Lines {
	var buf [256]byte
	dst := buf[:0]
	for i := range of {
		dst = of[i].pack(dst)
	}
	return Lines(dst)
}

// Of returns the lines, as those of a queue.
func (l Lines) Of(queue string) (of [names.Sets]Line) {
	p := packed(l)
	for i := range of {
		of[i].unpack(&p)
		of[i].Queue, of[i].Set = queue, names.Set(i)
	}
	return of
}

// Open returns the open lists alone: the rest takes longer.
func (l Lines) Open() (of [names.Sets]OpenList) {
	p := packed(l)
	for i := range of {
		of[i].unpack(&p)
		for range 8 {
			p.number()
		}
		if p.octets(1) == "\x01" {
			p.octets(sha256.Size)
		}
	}
	return of
}

func (l *Line) pack(dst []byte) []byte {
	o, f := &l.Open, &l.Files
	for _, n := range [...]uint64{uint64(o.First), uint64(o.Read), uint64(o.Entries), uint64(o.Length),
		uint64(o.Files)} {
		dst = binary.AppendUvarint(dst, n)
	}
	before := int64(0) // times are near each other
	for _, t := range [...]time.Time{o.From, o.Until, o.Since, o.Changed} {
		dst = binary.AppendVarint(dst, t.UnixMicro()-before)
		before = t.UnixMicro()
	}
	for _, n := range [...]uint64{uint64(l.List), uint64(l.Package), uint64(l.Dump), uint64(f.Lists), uint64(f.Packages), uint64(f.Dumps), uint64(f.Left), uint64(f.Octets)} {
		dst = binary.AppendUvarint(dst, n)
	}
	sum, known := parseSum(l.SHA256)
	if !known {
		return append(dst, 0)
	}
	return append(append(dst, 1), sum[:]...)
}

func (l *Line) unpack(p *packed) {
	f := &l.Files
	l.Open.unpack(p)
	l.List, l.Package, l.Dump = job.Seq(p.number()), job.Seq(p.number()), job.Seq(p.number())
	f.Lists, f.Packages, f.Dumps, f.Left, f.Octets = int(p.number()), int(p.number()), int(p.number()), int(p.number()), int64(p.number())
	if l.SHA256 = Unknown; p.octets(1) == "\x01" {
		l.SHA256 = hex.EncodeToString([]byte(p.octets(sha256.Size)))
	}
}

func (o *OpenList) unpack(p *packed) {
	o.First, o.Read, o.Entries, o.Length = job.Seq(p.number()), job.Seq(p.number()), int(p.number()), int64(p.number())
	o.Files = int64(p.number())
	at := int64(0)
	for _, t := range [...]*time.Time{&o.From, &o.Until, &o.Since, &o.Changed} {
		n := p.number()
		at += int64(n>>1) ^ -int64(n&1)
		*t = time.UnixMicro(at).UTC()
	}
}

// packed is the rest of Lines.
type packed string

func (p *packed) octets(n int) string {
	s := (*p)[:n]
	*p = (*p)[n:]
	return string(s)
}

func (p *packed) number() (n uint64) {
	for shift := 0; ; shift += 7 {
		b := p.octets(1)[0]
		if n |= uint64(b&0x7f) << shift; b < 0x80 {
			return n
		}
	}
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
