package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// A Span is one line of the file lists or packages: a closed Change List, or a
// package of a Change Dump. It covers the events First to Last. Until is the
// time of the last event; From is that of the event before First, or of the
// creation of the queue.
type Span struct {
	First, Last queuefs.Seq
	From, Until time.Time
	Entries     int
	Length      int64  // bytes of the entries, or of the package
	SHA256      string // of the package, in hexadecimal; "-" for a list
}

// Doc returns the name of the package, or of its manifest or dump.
func (sp *Span) Doc(k names.Kind) names.Doc { return k.Of(uint64(sp.First)).As(sp.SHA256) }

// Spans are the closed lists or packages of a set, and their file.
type Spans struct {
	All []Span

	file   string // "lists" or "packages"
	stamp  string
	length int64 // valid bytes of the file
}

// Current returns the last spans without a gap up to the event next, at most max
// of them.
func (s *Spans) Current(next queuefs.Seq, max int) []Span {
	i := len(s.All)
	for i > 0 && len(s.All)-i < max && s.All[i-1].Last+1 == next {
		i--
		next = s.All[i].First
	}
	return s.All[i:]
}

// Find returns the span from the event first on.
func (s *Spans) Find(first queuefs.Seq) (Span, bool) {
	for i := len(s.All) - 1; i >= 0; i-- {
		if s.All[i].First == first {
			return s.All[i], true
		}
	}
	return Span{}, false
}

// Last returns the last span, the zero Span if there is none.
func (s *Spans) Last() Span {
	if n := len(s.All); n > 0 {
		return s.All[n-1]
	}
	return Span{}
}

// Before returns how many spans end before the event first.
func (s *Spans) Before(first queuefs.Seq) int {
	n, _ := slices.BinarySearchFunc(s.All, first, func(sp Span, first queuefs.Seq) int {
		if sp.Last < first {
			return -1
		}
		return 1
	})
	return n
}

// Octets returns the bytes of all spans.
func (s *Spans) Octets() (n int64) {
	for _, sp := range s.All {
		n += sp.Length
	}
	return n
}

// HasFile reports whether there is a file with lines.
func (s *Spans) HasFile() bool { return s.length > 0 }

// Add puts a line at the end of the file in d; it is on stable storage when Add
// returns. The rest of an earlier attempt is cut off first. After an error other
// than [queuefs.ErrFailed] the file does not have the line.
func (s *Spans) Add(d *durable.Dir, sp Span) error {
	f, err := d.Append(s.file)
	if err != nil {
		return err
	}
	defer f.Close()
	var line []byte
	if s.length == 0 {
		line = append(line, header(s.file, s.stamp)...)
	}
	line = sp.append(line)
	if err := Cut(f, s.length); err != nil {
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
	s.All = append(s.All, sp)
	return nil
}

// Shorten removes the first n lines from the file in d. A failed sync is
// [queuefs.ErrFailed], and so is an error if the lines are gone all the same.
func (s *Spans) Shorten(st *Store, d *durable.Dir, n int) error {
	if n == 0 {
		return nil
	}
	out, err := st.Temp()
	if err != nil {
		return err
	}
	defer out.Discard()
	text := []byte(header(s.file, s.stamp))
	for i := range s.All[n:] {
		text = s.All[n+i].append(text)
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	if err := out.Commit(d, s.file); err != nil {
		if out.name == "" { // it is in place, but maybe not to stay
			return errors.Join(queuefs.ErrFailed, err)
		}
		now := Spans{file: s.file, stamp: s.stamp}
		if e := now.read(d); e != nil {
			return errors.Join(err, e)
		}
		if len(now.All) != len(s.All) { // an error, and yet it was done
			return errors.Join(queuefs.ErrFailed, err)
		}
		return err
	}
	s.All, s.length = slices.Clone(s.All[n:]), int64(len(text))
	return nil
}

// read reads the file, if there is one. After a crash the last line may lack
// its end; then it does not count.
func (s *Spans) read(d *durable.Dir) error {
	data, err := d.ReadFile(s.file, nil, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	if len(data) == 0 {
		return nil
	}
	rest, ok := bytes.CutPrefix(data, []byte(header(s.file, s.stamp)))
	if !ok {
		first, _, _ := bytes.Cut(data, []byte{'\n'})
		return Damage{fmt.Errorf("%s is not of %s: %.200q", s.file, s.stamp, first)}
	}
	for line := range strings.Lines(string(rest)) {
		sp, err := parseSpan(strings.TrimSuffix(line, "\n"))
		if err == nil && sp.First <= s.Last().Last {
			err = errors.New("not in order")
		}
		if err != nil {
			return Damage{fmt.Errorf("%s: line %.200q: %w", s.file, line, err)}
		}
		s.All = append(s.All, sp)
	}
	s.length = int64(len(data))
	return nil
}

// append prints the line, parseSpan reads it.
func (sp *Span) append(dst []byte) []byte {
	dst = strconv.AppendUint(dst, uint64(sp.First), 10)
	dst = strconv.AppendUint(append(dst, ' '), uint64(sp.Last), 10)
	dst = sitemap.AppendTime(append(dst, ' '), sp.From)
	dst = sitemap.AppendTime(append(dst, ' '), sp.Until)
	dst = strconv.AppendInt(append(dst, ' '), int64(sp.Entries), 10)
	dst = strconv.AppendInt(append(dst, ' '), sp.Length, 10)
	return append(append(append(dst, ' '), sp.SHA256...), '\n')
}

func parseSpan(line string) (Span, error) {
	w := words{left: line}
	sp := Span{First: w.seq(), Last: w.seq(), From: w.time(), Until: w.time(), Entries: int(w.int()), Length: w.int(), SHA256: w.word()}
	if err := w.end(); err != nil {
		return Span{}, err
	}
	if sp.First == 0 || sp.Last < sp.First || sp.Entries < 0 || sp.Length < 0 {
		return Span{}, errors.New("out of range")
	}
	return sp, nil
}
