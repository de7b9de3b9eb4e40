package publisher

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// A mark is how far a set has read the events of its queue, and how far its
// open Change List had grown by then.
type mark struct {
	seq     queuefs.Seq // last event read
	at      time.Time   // of it, or of the last one before that is no phase; of the queue's creation if there is none
	first   queuefs.Seq // first event of the open list: the one after the last list or gap, seq+1 at most
	from    time.Time   // time of the event before first, or creation
	since   time.Time   // of the first event with an entry; zero if there is none
	last    time.Time   // of the last event with an entry; zero if there is none
	entries int
	length  int64 // octets of the entries
}

// beginning returns the mark of a list that begins after the event seq.
func beginning(seq queuefs.Seq, at time.Time) mark {
	return mark{seq: seq, at: at, first: seq + 1, from: at}
}

// cursorFile stands beside the directories of queues, none of which can have
// its name: it begins as only files of ours do.
const cursorFile = "cutie-cursor"

// cursorTitle is its name in its first line.
const cursorTitle = "cursor"

// cursor prints where all sets stand: a header, two lines for each queue, and
// a last line without which the file does not count.
func (p *Publisher) cursor() []byte {
	feeds := p.opened()
	dst := append([]byte(nil), header(cursorTitle, p.stamp())...)
	for _, f := range feeds {
		f.mu.Lock()
		for s := range f.sets {
			dst = append(append(append(dst, f.q.ID()...), ' '), setNames[s]...)
			dst = f.sets[s].mark.append(append(dst, ' '))
		}
		f.mu.Unlock()
	}
	return fmt.Appendf(dst, "end %d\n", len(feeds))
}

// writeCursor writes what the last Flush found; p.cursorMu is held.
func (p *Publisher) writeCursor() error {
	root := p.root()
	if p.flushed == nil || bytes.Equal(p.flushed, p.written) && p.writtenTo == root {
		return nil
	}
	err := root.Replace(cursorFile, p.flushed)
	if err != nil && unusable(err) {
		if root, err = p.clear(err); err == nil {
			err = root.Replace(cursorFile, p.flushed)
		}
	}
	if err != nil {
		return err
	}
	p.written, p.writtenTo = p.flushed, root
	return nil
}

// clear makes room for a cursor that could not be written.
func (p *Publisher) clear(cause error) (*durable.Dir, error) {
	if err := p.revive(); err != nil {
		return nil, errors.Join(cause, err)
	}
	root := p.root()
	aside, err := setAside(root, cursorFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(cause, err)
	}
	p.report(cursorFile, "%v; what was there is in %s", cause, cmp.Or(aside, "no place"))
	return root, nil
}

// readCursor reads the cursor, which may be absent. One that makes no sense,
// or is of another base URI, is set aside.
func (p *Publisher) readCursor() error {
	root := p.root()
	data, err := root.ReadFile(cursorFile, nil, 256<<20)
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
	p.written, p.writtenTo = data, root
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

func (m *mark) append(dst []byte) []byte {
	seq := func(n queuefs.Seq) { dst = append(strconv.AppendUint(dst, uint64(n), 10), ' ') }
	when := func(t time.Time) { dst = appendOptionalTime(dst, t) }
	seq(m.seq)
	when(m.at)
	seq(m.first)
	when(m.from)
	when(m.since)
	when(m.last)
	dst = strconv.AppendInt(dst, int64(m.entries), 10)
	dst = strconv.AppendInt(append(dst, ' '), m.length, 10)
	return append(dst, '\n')
}

func parseMark(w words) (mark, error) {
	m := mark{seq: w.seq(), at: w.time(), first: w.seq(), from: w.time(),
		since: w.optionalTime(), last: w.optionalTime(), entries: int(w.int()), length: w.int()}
	if err := w.end(); err != nil {
		return m, err
	}
	if m.first == 0 || m.first > m.seq+1 || m.entries < 0 || m.length < 0 || (m.entries == 0) != (m.length == 0) ||
		(m.entries == 0) != m.since.IsZero() || (m.entries == 0) != m.last.IsZero() {
		return m, errors.New("out of range")
	}
	return m, nil
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
