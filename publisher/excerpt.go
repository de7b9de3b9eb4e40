package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
)

// A position is the end of a Change Notification: an event, and its time or that
// of the creation of the queue. The next notification begins after it.
type position struct {
	seq queuefs.Seq
	at  time.Time
}

// String prints the position for a hub.
func (p position) String() string {
	return strconv.FormatUint(uint64(p.seq), 10) + "-" + strconv.FormatInt(p.at.UnixMicro(), 10)
}

// parsePosition accepts only what String prints.
func parsePosition(text string) (p position, err error) {
	seq, at, _ := strings.Cut(text, "-")
	n, err := strconv.ParseUint(seq, 10, 64)
	us, err2 := strconv.ParseInt(at, 10, 64)
	p = position{queuefs.Seq(n), time.UnixMicro(us).UTC()}
	if err != nil || err2 != nil || p.String() != text {
		return position{}, fmt.Errorf("position %.40q is none of a Change Notification", text)
	}
	return p, nil
}

// An excerpt is a part of the Change Lists: the entries of events that follow
// each other.
type excerpt struct {
	from    time.Time // of the event before, or of the creation of the queue
	upto    position
	entries []byte
	more    bool
}

// history returns the Change Lists that follow each other, oldest first, the
// open one last.
func (s *set) history() ([]span, error) {
	st, err := s.standing()
	if err != nil {
		return nil, err
	}
	return append(slices.Clip(st.lists), st.mark.span()), nil
}

// excerpt returns the entries after a position, at most max bytes of them. It
// begins with the oldest if the lists do not reach back so far, or if the queue
// does not have the position: it is of a former queue of the name, or of a newer
// copy of the home.
//
// Events without entries move the position and not its time: the from of the next
// excerpt is the until of this one.
func (s *set) excerpt(after position, max int) (excerpt, error) {
	lists, err := s.history()
	if err != nil {
		return excerpt{}, err
	}
	open := lists[len(lists)-1]
	if after.seq > open.last || after.at.Before(s.created()) {
		after = position{0, lists[0].from}
	}
	if lists[0].first > after.seq+1 {
		after.at = lists[0].from
	}
	for _, l := range lists {
		if l.last <= after.seq || l.length == 0 {
			continue
		}
		p := excerpt{from: after.at, upto: position{l.last, l.until}}
		whole, err := s.entries(l, after.seq, max, &p)
		if err != nil {
			return excerpt{}, err
		}
		if p.more = !whole || l.last < open.last; len(p.entries) > 0 {
			return p, nil
		}
	}
	return excerpt{upto: position{open.last, after.at}}, nil
}

// entries reads the entries of a list after an event, and reports whether these
// are all to its end.
func (s *set) entries(l span, after queuefs.Seq, max int, p *excerpt) (whole bool, err error) {
	file, err := s.open(entriesFile(l.first))
	if err != nil {
		return false, err
	}
	defer file.Close()
	from, err := search(file, l.length, after)
	if err == nil {
		p.entries = make([]byte, min(l.length-from, int64(max)))
		_, err = file.ReadAt(p.entries, from)
	}
	if whole = from+int64(len(p.entries)) == l.length; err == nil && !whole {
		// The last event may have more entries: it waits for the next excerpt.
		var n int
		n, p.upto, err = trim(p.entries)
		p.entries = p.entries[:n]
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return whole, nil
}

// newest returns the last entries, at most max bytes of them.
func (s *set) newest(max int) (excerpt, error) {
	lists, err := s.history()
	if err != nil {
		return excerpt{}, err
	}
	open := lists[len(lists)-1]
	l := open
	for i := len(lists) - 1; i >= 0 && l.length == 0; i-- {
		if lists[i].length > 0 {
			l = lists[i]
		}
	}
	p := excerpt{from: l.from, upto: position{open.last, open.until}}
	if l.length == 0 {
		return p, nil
	}
	file, err := s.open(entriesFile(l.first))
	if err != nil {
		return p, err
	}
	defer file.Close()
	start := l.length - min(l.length, int64(max))
	p.entries = make([]byte, l.length-start)
	if _, err := file.ReadAt(p.entries, start); err != nil || start == 0 {
		return p, err
	}
	// Leave out the event at whose entries the text begins.
	rest := p.entries[bytes.IndexByte(p.entries, '\n')+1:]
	first, err := parseEntry(rest)
	for at := first; err == nil && at.seq == first.seq && len(rest) > 0; {
		rest = rest[bytes.IndexByte(rest, '\n')+1:]
		at, err = parseEntry(rest)
	}
	p.from, p.entries = first.at, rest
	return p, err
}

var errEntry = errors.New("no entry of ours where one should be")

// search returns the offset of the first entry after an event in a file of
// entries.
func search(r io.ReaderAt, length int64, after queuefs.Seq) (int64, error) {
	// The entry begins between lo and hi.
	lo, hi := int64(0), length
	const window = 2 * maxEntry // has the end of one entry and all of the next
	buf := make([]byte, window)
	for hi-lo > 2*window {
		mid := lo + (hi-lo)/2
		n := int(min(window, hi-mid))
		if _, err := r.ReadAt(buf[:n], mid); err != nil {
			return 0, err
		}
		i := bytes.IndexByte(buf[:n], '\n') + 1
		if i == 0 || i == n {
			return 0, errEntry
		}
		at, err := parseEntry(buf[i:n])
		if err != nil {
			return 0, err
		}
		if at.seq > after {
			hi = mid + int64(i)
		} else {
			lo = mid + int64(i)
		}
	}
	rest := make([]byte, hi-lo)
	if _, err := r.ReadAt(rest, lo); err != nil && len(rest) > 0 {
		return 0, err
	}
	for line := range bytes.Lines(rest) {
		at, err := parseEntry(line)
		if err != nil || at.seq > after {
			return lo, err
		}
		lo += int64(len(line))
	}
	return hi, nil
}

// trim returns how many bytes of a text are entries of complete events, and the
// last of these events. The last event in the text may be incomplete.
func trim(text []byte) (n int, last position, err error) {
	var before position // of the entry before
	end := 0
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			break
		}
		at, err := parseEntry(line)
		if err != nil {
			return 0, position{}, err
		}
		if at.seq != before.seq {
			n, last = end, before
		}
		before, end = at, end+len(line)
	}
	if n == 0 {
		return 0, position{}, errEntry
	}
	return n, last, nil
}

// parseEntry returns the event of the first entry in a text.
func parseEntry(text []byte) (position, error) {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	seq, err := strconv.ParseUint(between(text, `cut:seq="`, '"'), 10, 64)
	if err != nil {
		return position{}, errEntry
	}
	when := between(text, ` datetime="`, '"')
	if when == "" {
		when = between(text, "<lastmod>", '<') // version 1.0
	}
	at, err := time.Parse(time.RFC3339Nano, when)
	if err != nil {
		return position{}, errEntry
	}
	return position{queuefs.Seq(seq), at}, nil
}

func between(text []byte, open string, end byte) string {
	_, text, _ = bytes.Cut(text, []byte(open))
	return string(text[:max(bytes.IndexByte(text, end), 0)])
}
