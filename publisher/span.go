package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// A span is one line of the file lists or packages: a closed Change List, or a
// package of a Change Dump. It covers the events first to last. until is the
// time of the last event; from is that of the event before first, or of the
// creation of the queue.
type span struct {
	first, last queuefs.Seq
	from, until time.Time
	entries     int
	length      int64  // bytes of the entries, or of the package
	sha256      string // of the package, in hexadecimal; "-" for a list
}

// spans are the closed lists or packages of a set, and their file.
type spans struct {
	file   string // "lists" or "packages"
	all    []span
	length int64 // valid bytes of the file
}

// current returns the last spans before the event next that follow each other
// without a gap, at most max of them.
func (s *spans) current(next queuefs.Seq, max int) []span {
	i := len(s.all)
	for i > 0 && len(s.all)-i < max && s.all[i-1].last+1 == next {
		i--
		next = s.all[i].first
	}
	return s.all[i:]
}

// find returns the span from the event first on.
func (s *spans) find(first queuefs.Seq) (span, bool) {
	for i := len(s.all) - 1; i >= 0; i-- {
		if s.all[i].first == first {
			return s.all[i], true
		}
	}
	return span{}, false
}

// last returns the last event covered, 0 if there is none.
func (s *spans) last() queuefs.Seq {
	if n := len(s.all); n > 0 {
		return s.all[n-1].last
	}
	return 0
}

// before returns how many spans end before the event first.
func (s *spans) before(first queuefs.Seq) int {
	n, _ := slices.BinarySearchFunc(s.all, first, func(sp span, first queuefs.Seq) int {
		if sp.last < first {
			return -1
		}
		return 1
	})
	return n
}

// add puts a line at the end of the file; it is on stable storage when add
// returns. The rest of an earlier attempt is cut off first. After an error other
// than [queuefs.ErrFailed] the file does not have the line.
func (s *spans) add(d *durable.Dir, base site, sp span) error {
	f, err := d.Append(s.file)
	if err != nil {
		return err
	}
	defer f.Close()
	var line []byte
	if s.length == 0 {
		line = append(line, header(s.file, base)...)
	}
	line = sp.append(line)
	if err := cut(f, s.length); err != nil {
		return err
	}
	if _, err := f.Write(line); err != nil {
		return errors.Join(err, f.Truncate(s.length))
	}
	if err := d.SyncFile(f); err != nil {
		return errors.Join(queuefs.ErrFailed, err)
	}
	if s.length == 0 {
		if err := d.Sync(); err != nil {
			return errors.Join(queuefs.ErrFailed, err)
		}
	}
	s.length += int64(len(line))
	s.all = append(s.all, sp)
	return nil
}

// read reads the file, which may be absent. After a crash the last line may lack
// its end; then it does not count.
func (s *spans) read(d *durable.Dir, base site) error {
	data, err := d.ReadFile(s.file, nil, 256<<20)
	if errors.Is(err, fs.ErrNotExist) || len(data) == 0 && err == nil {
		return nil
	}
	if err != nil {
		return err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	if len(data) == 0 {
		return nil
	}
	rest, ok := bytes.CutPrefix(data, []byte(header(s.file, base)))
	if !ok {
		first, _, _ := bytes.Cut(data, []byte{'\n'})
		return damage{fmt.Errorf("%s is not of %s: %.200q", s.file, base, first)}
	}
	for line := range strings.Lines(string(rest)) {
		sp, err := parseSpan(strings.TrimSuffix(line, "\n"))
		if err == nil && sp.first <= s.last() {
			err = errors.New("not in order")
		}
		if err != nil {
			return damage{fmt.Errorf("%s: line %.200q: %w", s.file, line, err)}
		}
		s.all = append(s.all, sp)
	}
	s.length = int64(len(data))
	return nil
}

// header is the first line of a file of ours.
func header(name string, base site) string { return "cutie " + name + " 1 " + string(base) + "\n" }

// append prints the line, parseSpan reads it.
func (sp *span) append(dst []byte) []byte {
	dst = strconv.AppendUint(dst, uint64(sp.first), 10)
	dst = strconv.AppendUint(append(dst, ' '), uint64(sp.last), 10)
	dst = sitemap.AppendTime(append(dst, ' '), sp.from)
	dst = sitemap.AppendTime(append(dst, ' '), sp.until)
	dst = strconv.AppendInt(append(dst, ' '), int64(sp.entries), 10)
	dst = strconv.AppendInt(append(dst, ' '), sp.length, 10)
	return append(append(append(dst, ' '), sp.sha256...), '\n')
}

func parseSpan(line string) (span, error) {
	w := words{left: line}
	sp := span{first: w.seq(), last: w.seq(), from: w.time(), until: w.time(), entries: int(w.int()), length: w.int(), sha256: w.word()}
	if err := w.end(); err != nil {
		return span{}, err
	}
	if sp.first == 0 || sp.last < sp.first || sp.entries < 0 || sp.length < 0 {
		return span{}, errors.New("out of range")
	}
	return sp, nil
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

func (w *words) seq() queuefs.Seq {
	n, err := strconv.ParseUint(w.word(), 10, 64)
	if err != nil && w.err == nil {
		w.err = err
	}
	return queuefs.Seq(n)
}

func (w *words) time() time.Time {
	t, err := sitemap.ParseTime(w.word())
	if err != nil && w.err == nil {
		w.err = err
	}
	return t
}

func (w *words) end() error {
	if w.err == nil && w.left != "" {
		return fmt.Errorf("%.60q is too much", w.left)
	}
	return w.err
}
