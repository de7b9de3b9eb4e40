package publisher

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// A mark is how far a set has read the events of its queue, and how far its
// open Change List had grown by then.
type mark struct {
	seq     queuefs.Seq // last event read
	at      time.Time   // of the last event that is no phase, or of the creation of the queue
	first   queuefs.Seq // first event of the open list, after the last list or gap; seq+1 at most
	from    time.Time   // of the event before first, or of the creation
	since   time.Time   // of the first event with an entry; zero without one
	last    time.Time   // of the last event with an entry; zero without one
	entries int
	length  int64 // bytes of the entries
}

// beginning returns the mark of a list that begins after the event seq.
func beginning(seq queuefs.Seq, at time.Time) mark {
	return mark{seq: seq, at: at, first: seq + 1, from: at}
}

// span returns the open list as it would be closed.
func (m *mark) span() span {
	return span{first: m.first, last: m.seq, from: m.from, until: m.at, entries: m.entries, length: m.length, sha256: "-"}
}

// add moves the mark over an event with n entries. The time stays over a phase,
// since no document shows phases in any form.
func (m *mark) add(ev *queuefs.Event, n, size int) {
	if m.seq = ev.Seq; ev.Kind == queuefs.Phase {
		return
	}
	m.at = ev.Time
	if n == 0 {
		return
	}
	if m.entries == 0 {
		m.since = ev.Time
	}
	m.last = ev.Time
	m.entries += n
	m.length += int64(size)
}

// append prints the mark as it stands in the cursor, parseMark reads it.
func (m *mark) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%d ", m.seq)
	dst = appendOptionalTime(dst, m.at)
	dst = fmt.Appendf(dst, "%d ", m.first)
	dst = appendOptionalTime(dst, m.from)
	dst = appendOptionalTime(dst, m.since)
	dst = appendOptionalTime(dst, m.last)
	return fmt.Appendf(dst, "%d %d\n", m.entries, m.length)
}

func parseMark(w words) (mark, error) {
	m := mark{seq: w.seq(), at: w.time(), first: w.seq(), from: w.time(),
		since: w.optionalTime(), last: w.optionalTime(), entries: int(w.int()), length: w.int()}
	if err := w.end(); err != nil {
		return m, err
	}
	empty := m.entries == 0
	if m.first == 0 || m.first > m.seq+1 || m.entries < 0 || m.length < 0 ||
		empty != (m.length == 0) || empty != m.since.IsZero() || empty != m.last.IsZero() {
		return m, errors.New("out of range")
	}
	return m, nil
}

// A cursor is the file that says where each set stood at the last checkpoint.
type cursor struct {
	mu      sync.Mutex
	flushed []byte       // as of the last Flush
	written []byte       // contents of the file
	in      *durable.Dir // has the file
}

// cursorFile stands beside the directories of queues. No queue has its name.
const (
	cursorFile  = "cutie-cursor"
	cursorTitle = "cursor"
)

// printCursor prints a header, two lines for each queue, and a last line
// without which the file does not count.
func printCursor(base site, queues int, line func(queue int, s Set) (id string, m mark)) []byte {
	dst := []byte(header(cursorTitle, base))
	for i := range queues {
		for s := range Set(numSets) {
			id, m := line(i, s)
			dst = m.append(append(append(append(append(dst, id...), ' '), s.String()...), ' '))
		}
	}
	return fmt.Appendf(dst, "end %d\n", queues)
}

// takeCursor remembers where all sets stand.
func (p *Publisher) takeCursor() {
	p.cursor.mu.Lock()
	defer p.cursor.mu.Unlock()
	all := p.sets()
	p.cursor.flushed = printCursor(p.stamp(), len(all)/numSets, func(i int, kind Set) (string, mark) {
		s := all[i*numSets+int(kind)]
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.q.ID(), s.mark
	})
}

// writeCursor writes what takeCursor took.
func (p *Publisher) writeCursor() error {
	c := &p.cursor
	c.mu.Lock()
	defer c.mu.Unlock()
	root := p.store.root()
	if c.flushed == nil || bytes.Equal(c.flushed, c.written) && c.in == root {
		return nil
	}
	err := sealed(root, cursorFile, cursorTitle).Write(c.flushed)
	if err != nil && unusable(err) {
		if root, err = p.clearCursor(err); err == nil {
			err = sealed(root, cursorFile, cursorTitle).Write(c.flushed)
		}
	}
	if err != nil {
		return err
	}
	c.written, c.in = c.flushed, root
	return nil
}

// clearCursor moves away what is in the way of the cursor.
func (p *Publisher) clearCursor(cause error) (*durable.Dir, error) {
	if err := p.revive(); err != nil {
		return nil, errors.Join(cause, err)
	}
	root := p.store.root()
	aside, err := setAside(root, cursorFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(cause, err)
	}
	p.report(cursorFile, "%v; what was there is in %s", cause, cmp.Or(aside, "no place"))
	return root, nil
}

// readCursor reads the cursor, which may be absent. A damaged one, or that of
// another base URI, is set aside.
func (p *Publisher) readCursor() error {
	root := p.store.root()
	data, err := sealed(root, cursorFile, cursorTitle).Read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil && !unusable(err) {
		return err
	}
	var marks map[string][]mark
	if err == nil {
		marks, err = parseCursor(string(data), p.stamp())
	}
	if err != nil {
		aside, e := setAside(root, cursorFile)
		if e != nil {
			return errors.Join(err, e)
		}
		p.report(cursorFile, "%v; moved to %s, open Change Lists begin anew where the journal does not reach back", err, aside)
		return nil
	}
	p.marks = marks
	p.cursor.written, p.cursor.in = data, root
	return nil
}

func parseCursor(text string, base site) (map[string][]mark, error) {
	rest, ok := strings.CutPrefix(text, header(cursorTitle, base))
	if !ok {
		return nil, fmt.Errorf("not the cursor of %s", base)
	}
	marks := make(map[string][]mark)
	for line := range strings.Lines(rest) {
		w := words{left: strings.TrimSuffix(line, "\n")}
		id := w.word()
		set := w.word()
		if id == "end" && w.left == "" && set+"\n" == strconv.Itoa(len(marks))+"\n" && strings.HasSuffix(rest, line) {
			return marks, nil
		}
		m, err := parseMark(w)
		if err == nil && (len(marks[id]) >= numSets || setNames[len(marks[id])] != set) {
			err = fmt.Errorf("set %.20q out of turn", set)
		}
		if err != nil {
			return nil, fmt.Errorf("line %.200q: %w", line, err)
		}
		marks[id] = append(marks[id], m)
	}
	return nil, errors.New("cut off")
}

// appendOptionalTime prints a time, or "-" for none, and a blank.
func appendOptionalTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "- "...)
	}
	return append(sitemap.AppendTime(dst, t), ' ')
}

// optionalTime reads a time, or "-" for none.
func (w *words) optionalTime() time.Time {
	if rest, ok := strings.CutPrefix(w.left, "- "); ok {
		w.left = rest
		return time.Time{}
	}
	return w.time()
}

// Rebuild makes everything published anew, from the directory of the home and
// its journal. It moves resourcesync to a free name beside it and returns that
// name, "" if there was none. The Change Lists begin as far back as the journal
// reaches. A list gets the bytes it had if the journal reaches to its first
// event. [New] then opens the lists, and its Ticks make the packages. There must
// be no [Publisher] of the home.
func Rebuild[Q Queue](svc Service[Q], o Options) (aside string, err error) {
	opts, err := o.complete()
	if err != nil {
		return "", fmt.Errorf("publisher: %w", err)
	}
	e := adapt(svc)
	home, err := durable.OpenDir(e.dir, o.Fault)
	if err != nil {
		return "", fmt.Errorf("publisher: %w", err)
	}
	defer home.Close()
	if aside, err = setAside(home, rootName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("publisher: %w", err)
	}
	// A crash before the cursor is there leaves lists that begin later.
	if err := beginCursor(home, e, opts.stamp()); err != nil {
		return aside, fmt.Errorf("publisher: %w", err)
	}
	return aside, nil
}

// beginCursor writes the cursor of a publisher that has read nothing yet.
func beginCursor(home *durable.Dir, e engine, base site) error {
	root, err := home.MakeSub(rootName)
	if err != nil {
		return err
	}
	defer root.Close()
	queues := e.queues()
	marks := make([]mark, len(queues))
	for i, q := range queues {
		if marks[i], err = earliest(q); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	return sealed(root, cursorFile, cursorTitle).Write(printCursor(base, len(queues), func(i int, _ Set) (string, mark) {
		return queues[i].ID(), marks[i]
	}))
}

// earliest returns the mark from which on the journal has the events.
func earliest(q Queue) (mark, error) {
	f := subject{q: q}
	before := q.State().Before // what came up to it is of former queues of the name
	lo, hi := before, q.Seq()  // after hi there is nothing to miss
	for lo < hi {
		mid := lo + (hi-lo)/2
		_, err := q.Events(mid, 1)
		switch {
		case err == nil:
			hi = mid
		case errors.Is(err, queuefs.ErrGone):
			lo = mid + 1
		default:
			return mark{}, err
		}
	}
	if lo == before {
		return beginning(before, f.created()), nil
	}
	if lo == q.Seq() {
		return f.markNow(), nil
	}
	events, err := q.Events(lo, 1)
	if err != nil || len(events) == 0 {
		return f.markNow(), err
	}
	// When the event before came is no longer known; it was before this one.
	return beginning(lo, events[0].Time.Add(-time.Microsecond)), nil
}
