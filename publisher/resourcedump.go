package publisher

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// An edition is one Resource Dump (Z39.99-2017, 11): packages that together have
// every resource of a set. It is named by the event after which it was begun;
// all changes up to that event are in its packages.
type edition struct {
	seq      queuefs.Seq
	at       time.Time // of that event
	made     time.Time // when it was complete
	packages []portion // by page
	sum      string    // short digest of its file
}

// A portion is a package of a Resource Dump: the jobs of some engine pages.
// Later dumps name it too while none of the pages is touched.
type portion struct {
	page, end int         // first and last page, from 1
	dump      queuefs.Seq // the dump it was made for; with page it makes the name
	version   queuefs.Seq // last event that touched the pages when they were read
	at        time.Time   // all changes up to then are in
	completed time.Time   // none after this one; zero if the package is of one instant
	info      string      // digest of queue-info.txt in hexadecimal; "-" if that is not in it
	entries   int
	length    int64
	sha256    string // of the package, in hexadecimal
}

func (p *portion) name() docName {
	return docName{kind: resourcePackage, n: uint64(p.page), version: uint64(p.dump)}
}

// The file of an edition has a line for each package.
const (
	dumpTitle  = "dump" // in its first line
	dumpStem   = "resourcedump-"
	dumpSuffix = ".dump"
)

// dumpFile returns the name of the file of an edition.
func dumpFile(seq queuefs.Seq) string {
	return dumpStem + fixed(uint64(seq), versionDigits) + dumpSuffix
}

// parseDumpFile accepts only what dumpFile prints.
func parseDumpFile(name string) (queuefs.Seq, bool) {
	digits, ok := strings.CutPrefix(strings.TrimSuffix(name, dumpSuffix), dumpStem)
	n, err := strconv.ParseUint(digits, 10, 64)
	return queuefs.Seq(n), ok && err == nil && n > 0 && dumpFile(queuefs.Seq(n)) == name
}

// append prints the file of the edition: a header, a line for itself, one for
// each package, and a last one without which the file does not count.
func (d *edition) append(dst []byte, base site) []byte {
	dst = append(dst, header(dumpTitle, base)...)
	dst = strconv.AppendUint(dst, uint64(d.seq), 10)
	dst = sitemap.AppendTime(append(dst, ' '), d.at)
	dst = append(sitemap.AppendTime(append(dst, ' '), d.made), '\n')
	for i := range d.packages {
		p := &d.packages[i]
		dst = fmt.Appendf(dst, "%d %d %d %d ", p.page, p.end, p.dump, p.version)
		dst = append(sitemap.AppendTime(dst, p.at), ' ')
		dst = appendOptionalTime(dst, p.completed)
		dst = fmt.Appendf(dst, "%s %d %d %s\n", p.info, p.entries, p.length, p.sha256)
	}
	return fmt.Appendf(dst, "end %d\n", len(d.packages))
}

func parseDump(text string, base site) (*edition, error) {
	rest, ok := strings.CutPrefix(text, header(dumpTitle, base))
	if !ok {
		return nil, fmt.Errorf("not a dump of %s", base)
	}
	line, rest, _ := strings.Cut(rest, "\n")
	w := words{left: line}
	d := &edition{seq: w.seq(), at: w.time(), made: w.time(), sum: salt(text)}
	if err := w.end(); err != nil {
		return nil, fmt.Errorf("line %.200q: %w", line, err)
	}
	lastPage := 0
	for line := range strings.Lines(rest) {
		if line == fmt.Sprintf("end %d\n", len(d.packages)) && strings.HasSuffix(rest, "\n"+line) || rest == "end 0\n" {
			return d, nil
		}
		w := words{left: strings.TrimSuffix(line, "\n")}
		p := portion{page: int(w.int()), end: int(w.int()), dump: w.seq(), version: w.seq(), at: w.time(),
			completed: w.optionalTime(), info: w.word(), entries: int(w.int()), length: w.int(), sha256: w.word()}
		err := w.end()
		if err == nil && (p.page <= lastPage || p.end < p.page || p.dump == 0 || p.dump > d.seq || p.entries < 0 || p.length < 0) {
			err = errors.New("out of range")
		}
		if err != nil {
			return nil, fmt.Errorf("line %.200q: %w", line, err)
		}
		lastPage = p.end
		d.packages = append(d.packages, p)
	}
	return nil, errors.New("cut off")
}

// readDumps returns the editions in the directory of the set, oldest first. A
// damaged one, or one without all its packages, is reported and set aside.
func (s *set) readDumps(d *durable.Dir) (all []*edition, err error) {
	var found []queuefs.Seq
	err = d.Names(func(name string) {
		if seq, ok := parseDumpFile(name); ok {
			found = append(found, seq)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(found)
	for _, seq := range found {
		one, err := s.readDump(d, seq)
		if err == nil {
			all = append(all, one)
			continue
		}
		if !unusable(err) {
			return nil, err
		}
		aside, e := setAside(d, dumpFile(seq))
		if e != nil {
			return nil, errors.Join(err, e)
		}
		s.p.report(s.path()+"/"+dumpFile(seq), "%v; moved to %s", err, aside)
	}
	return all, nil
}

func (s *set) readDump(d *durable.Dir, seq queuefs.Seq) (*edition, error) {
	data, err := sealed(d, dumpFile(seq), dumpTitle).Read()
	if err != nil {
		return nil, err
	}
	one, err := parseDump(string(data), s.p.stamp())
	if err == nil && (one.seq != seq || seq > s.q.Seq()) {
		err = fmt.Errorf("is of event %d, the queue at %d", one.seq, s.q.Seq())
	}
	if err != nil {
		return nil, damage{err}
	}
	for i := range one.packages {
		p := &one.packages[i]
		if st, err := d.Stat(p.name().String()); err != nil {
			return nil, err
		} else if st.Size != p.length {
			return nil, damage{fmt.Errorf("%s has %d octets of %d", p.name(), st.Size, p.length)}
		}
	}
	return one, nil
}

// current returns the last Resource Dump, nil if there is none. mu is held.
func (s *set) current() *edition {
	if n := len(s.dumps); n > 0 {
		return s.dumps[n-1]
	}
	return nil
}

// dumpOf returns the dump of an event, or the current one for 0; nil if there
// is none.
func (s *set) dumpOf(seq queuefs.Seq) *edition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq == 0 {
		return s.current()
	}
	for _, d := range s.dumps {
		if d.seq == seq {
			return d
		}
	}
	return nil
}

// portion returns a package in some dump.
func (s *set) portion(doc docName) (portion, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range slices.Backward(s.dumps) {
		i, ok := slices.BinarySearchFunc(d.packages, int(doc.n), func(p portion, page int) int { return p.page - page })
		if ok && uint64(d.packages[i].dump) == doc.version {
			return d.packages[i], true
		}
	}
	return portion{}, false
}

// completed returns the instant after which no change is in the dump, zero if
// all of it is of one instant.
func (d *edition) completed() (t time.Time) {
	for i := range d.packages {
		if p := &d.packages[i]; p.at.After(d.at) || p.completed.After(d.at) {
			t = later(t, later(p.at, p.completed))
		}
	}
	return t
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
