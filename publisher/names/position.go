package names

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/job"
)

// A Position is between two events: after the event Seq, which came at the time
// At. Before the first event At is the creation of the queue.
type Position struct {
	Seq job.Seq
	At  time.Time
}

// String prints the position for a hub.
func (p Position) String() string {
	return strconv.FormatUint(uint64(p.Seq), 10) + "-" + strconv.FormatInt(p.At.UnixMicro(), 10)
}

// ParsePosition reads the output of String, and nothing else.
func ParsePosition(text string) (p Position, err error) {
	seq, at, _ := strings.Cut(text, "-")
	n, err := strconv.ParseUint(seq, 10, 64)
	us, err2 := strconv.ParseInt(at, 10, 64)
	p = Position{job.Seq(n), time.UnixMicro(us).UTC()}
	if err != nil || err2 != nil || p.String() != text {
		return Position{}, fmt.Errorf("position %.40q is none of a Change Notification", text)
	}
	return p, nil
}

var errEntry = errors.New("no entry of ours where one should be")

// MaxEntry is more bytes than an entry can have: two references, each of a base
// URI and a queue identifier, a media type, and the rest.
const MaxEntry = 32 << 10

// After reads the entries after an event, at most max bytes of them, in the first
// length bytes of a Change List. Then last is zero if these are all; otherwise it
// is their last event: the next one may have more entries than are read. With forwards, reading
// backwards takes as long as reading from the beginning.
func After(r io.ReaderAt, length int64, forwards bool, after job.Seq, max int) (text []byte, last Position, err error) {
	from, err := search(r, length, forwards, after)
	if err != nil {
		return nil, last, err
	}
	text = make([]byte, min(length-from, int64(max)))
	if _, err := r.ReadAt(text, from); err != nil && len(text) > 0 {
		return nil, last, err
	}
	if from+int64(len(text)) == length {
		return text, last, nil
	}
	n, last, err := trim(text)
	return text[:n], last, err
}

// Last reads the last entries, at most max bytes of them, in the first length
// bytes of a Change List. They begin after the position before, which is zero if
// these are all.
func Last(r io.ReaderAt, length int64, max int) (text []byte, before Position, err error) {
	start := length - min(length, int64(max))
	text = make([]byte, length-start)
	if _, err := r.ReadAt(text, start); err != nil || start == 0 {
		return text, before, err
	}
	// Leave out the event at whose entries the text begins.
	text = text[bytes.IndexByte(text, '\n')+1:]
	before, err = parse(text)
	for at := before; err == nil && at.Seq == before.Seq && len(text) > 0; {
		text = text[bytes.IndexByte(text, '\n')+1:]
		at, err = parse(text)
	}
	return text, before, err
}

// search returns the offset of the first entry after an event.
func search(r io.ReaderAt, length int64, forwards bool, after job.Seq) (int64, error) {
	// The entry begins between lo and hi.
	lo, hi := int64(0), length
	const window = 2 * MaxEntry // has the end of one entry and all of the next
	buf := make([]byte, window)
	for forwards && hi-lo > 2*window {
		at, next, err := entryAfter(r, buf, lo+window, hi)
		if err != nil {
			return 0, err
		}
		if at.Seq > after {
			hi = next
			break
		}
		lo = next
	}
	for hi-lo > 2*window {
		mid := lo + (hi-lo)/2
		at, next, err := entryAfter(r, buf, mid, hi)
		if err != nil {
			return 0, err
		}
		if at.Seq > after {
			hi = next
		} else {
			lo = next
		}
	}
	rest := make([]byte, hi-lo)
	if _, err := r.ReadAt(rest, lo); err != nil && len(rest) > 0 {
		return 0, err
	}
	for line := range bytes.Lines(rest) {
		at, err := parse(line)
		if err != nil || at.Seq > after {
			return lo, err
		}
		lo += int64(len(line))
	}
	return hi, nil
}

// entryAfter returns the first entry that begins after an offset, and where it begins.
func entryAfter(r io.ReaderAt, buf []byte, from, end int64) (at Position, begin int64, err error) {
	n := int(min(int64(len(buf)), end-from))
	if _, err := r.ReadAt(buf[:n], from); err != nil {
		return at, 0, err
	}
	i := bytes.IndexByte(buf[:n], '\n') + 1
	if i == 0 || i == n {
		return at, 0, errEntry
	}
	at, err = parse(buf[i:n])
	return at, from + int64(i), err
}

// trim returns how many bytes of a text are entries of complete events, and the
// last of these events. The last event in the text may be incomplete.
func trim(text []byte) (n int, last Position, err error) {
	var before Position // of the entry before
	end := 0
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			break
		}
		at, err := parse(line)
		if err != nil {
			return 0, Position{}, err
		}
		if at.Seq != before.Seq {
			n, last = end, before
		}
		before, end = at, end+len(line)
	}
	if n == 0 {
		return 0, Position{}, errEntry
	}
	return n, last, nil
}

// parse returns the event of the first entry in a text.
func parse(text []byte) (Position, error) {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	seq, err := strconv.ParseUint(between(text, `cut:seq="`, '"'), 10, 64)
	if err != nil {
		return Position{}, errEntry
	}
	when := between(text, ` datetime="`, '"')
	if when == "" {
		when = between(text, "<lastmod>", '<') // version 1.0
	}
	at, err := time.Parse(time.RFC3339Nano, when)
	if err != nil {
		return Position{}, errEntry
	}
	return Position{job.Seq(seq), at}, nil
}

func between(text []byte, open string, end byte) string {
	_, text, _ = bytes.Cut(text, []byte(open))
	return string(text[:max(bytes.IndexByte(text, end), 0)])
}
