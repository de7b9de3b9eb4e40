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
// every resource of a set. It was begun after the event seq, which names it;
// all changes up to then are in its packages.
type edition struct {
	seq      queuefs.Seq
	at       time.Time // of that event
	made     time.Time // when it was complete
	packages []portion // by page
	sum      string    // short digest of its file
}

// A portion is a package of a Resource Dump: the jobs of some pages of the
// engine. Later dumps name it too as long as none of its pages is touched.
type portion struct {
	page, end int         // first and last page, from 1
	dump      queuefs.Seq // the dump that it was made for; with page it makes the name
	version   queuefs.Seq // last event that touched the pages when they were read
	at        time.Time   // all changes up to then are in
	completed time.Time   // none after this one; zero if the package is of the instant at
	info      string      // digest of queue-info.txt in hexadecimal; "-" if that is not in it
	entries   int
	length    int64
	sha256    string // of the package, in hexadecimal
}

func (p *portion) name() docName {
	return docName{kind: resourcePackage, n: uint64(p.page), version: uint64(p.dump)}
}

// dumpTitle is the name of a dump's file in its first line.
const dumpTitle = "dump"

const (
	dumpStem   = "resourcedump-"
	dumpSuffix = ".dump"
)

// dumpFile returns the name of the file that says what a dump has.
func dumpFile(seq queuefs.Seq) string {
	return dumpStem + fixed(uint64(seq), versionDigits) + dumpSuffix
}

// parseDumpFile accepts only what dumpFile prints.
func parseDumpFile(name string) (queuefs.Seq, bool) {
	digits, ok := strings.CutPrefix(strings.TrimSuffix(name, dumpSuffix), dumpStem)
	n, err := strconv.ParseUint(digits, 10, 64)
	return queuefs.Seq(n), ok && err == nil && n > 0 && dumpFile(queuefs.Seq(n)) == name
}

// append prints the file of the dump: a header, a line for the dump, one for
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
	for line := range strings.Lines(rest) {
		if line == fmt.Sprintf("end %d\n", len(d.packages)) && strings.HasSuffix(rest, "\n"+line) || rest == "end 0\n" {
			return d, nil
		}
		w := words{left: strings.TrimSuffix(line, "\n")}
		p := portion{page: int(w.int()), end: int(w.int()), dump: w.seq(), version: w.seq(), at: w.time(),
			completed: w.optionalTime(), info: w.word(), entries: int(w.int()), length: w.int(), sha256: w.word()}
		err := w.end()
		if err == nil && (p.page <= d.lastPage() || p.end < p.page || p.dump == 0 || p.dump > d.seq || p.entries < 0 || p.length < 0) {
			err = errors.New("out of range")
		}
		if err != nil {
			return nil, fmt.Errorf("line %.200q: %w", line, err)
		}
		d.packages = append(d.packages, p)
	}
	return nil, errors.New("cut off")
}

func (d *edition) lastPage() int {
	if n := len(d.packages); n > 0 {
		return d.packages[n-1].end
	}
	return 0
}

// readDumps returns the dumps in the directory of a set, oldest first. One
// that makes no sense, or whose packages are not all there, is reported and
// set aside.
func (f *feed) readDumps(d *durable.Dir, s Set) (all []*edition, err error) {
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
		one, err := f.readDump(d, seq)
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
		f.p.report(f.q.ID()+"/"+s.String()+"/"+dumpFile(seq), "%v; moved to %s", err, aside)
	}
	return all, nil
}

func (f *feed) readDump(d *durable.Dir, seq queuefs.Seq) (*edition, error) {
	data, err := d.ReadFile(dumpFile(seq), nil, 256<<20)
	if err != nil {
		return nil, err
	}
	one, err := parseDump(string(data), f.p.stamp())
	if err == nil && (one.seq != seq || seq > f.q.Seq()) {
		err = fmt.Errorf("is of event %d, the queue at %d", one.seq, f.q.Seq())
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

// current returns the last Resource Dump, nil if there is none; f.mu is held.
func (c *changes) current() *edition {
	if n := len(c.kept); n > 0 {
		return c.kept[n-1]
	}
	return nil
}

// dumpOf returns a dump that is kept: that of the event seq, or the current one
// if seq is 0; nil if there is none.
func (f *feed) dumpOf(s Set, seq queuefs.Seq) *edition {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.sets[s]
	if seq == 0 {
		return c.current()
	}
	for _, d := range c.kept {
		if d.seq == seq {
			return d
		}
	}
	return nil
}

// completed returns the instant after which no change is in the dump, zero if
// all of it is of the instant at.
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

// resourceDump returns resourcedump.xml if seq is 0, or the dump of that event,
// which never changes: its packages, or an index of its parts if they are too
// many for a document.
func (f *feed) resourceDump(s Set, seq queuefs.Seq) *resource {
	d := f.dumpOf(s, seq)
	if d == nil {
		return nil
	}
	docs := f.names.docs[s]
	head := sitemap.Head{Capability: sitemap.ResourceDump, At: d.at, Completed: d.completed(),
		Links: []sitemap.Link{{Rel: sitemap.RelUp, Href: docs + docName{kind: capabilityList}.String()}}}
	tag := "rf"
	if seq == 0 {
		head.Links = f.archiveLink(s, resourceDump, head.Links)
		tag = fmt.Sprintf("rd%d-", len(head.Links))
	}
	per := f.perDocument(s)
	r := fixedText(fmt.Sprintf("%s%d-%s", tag, d.seq, d.sum), func() []byte {
		if len(d.packages) <= per {
			return f.appendDump(head, s, d.packages)
		}
		dst := f.p.Dialect.AppendHead(nil, sitemap.SitemapIndex, head)
		for n := 1; (n-1)*per < len(d.packages); n++ {
			dst = f.p.Dialect.AppendEntry(dst, sitemap.SitemapIndex, &sitemap.Entry{
				Loc: docs + docName{kind: dumpPart, n: uint64(n), version: uint64(d.seq)}.String(), At: d.at, Length: -1})
		}
		return sitemap.AppendFoot(dst, sitemap.SitemapIndex)
	})
	if seq != 0 {
		r.cache = cacheClosed
	}
	return r
}

// dumpPart returns a part of a dump that has too many packages for a document.
func (f *feed) dumpPart(s Set, doc docName) *resource {
	d := f.dumpOf(s, queuefs.Seq(doc.version))
	per := f.perDocument(s)
	if d == nil || len(d.packages) <= per || int(doc.n-1)*per >= len(d.packages) {
		return nil
	}
	docs := f.names.docs[s]
	r := fixedText(fmt.Sprintf("rp%d-%d-%s", doc.n, d.seq, d.sum), func() []byte {
		packages := d.packages[int(doc.n-1)*per:]
		return f.appendDump(sitemap.Head{Capability: sitemap.ResourceDump, At: d.at, Completed: d.completed(),
			Links: []sitemap.Link{
				{Rel: sitemap.RelUp, Href: docs + docName{kind: capabilityList}.String()},
				{Rel: sitemap.RelIndex, Href: docs + docName{kind: formerDump, n: uint64(d.seq)}.String()},
			}}, s, packages[:min(per, len(packages))])
	})
	r.cache = cacheClosed
	return r
}

func (f *feed) appendDump(head sitemap.Head, s Set, packages []portion) []byte {
	docs := f.names.docs[s]
	dst := f.p.Dialect.AppendHead(nil, sitemap.URLSet, head)
	for i := range packages {
		p := &packages[i]
		manifest := p.name()
		manifest.kind = resourceManifest
		dst = f.p.Dialect.AppendEntry(dst, sitemap.URLSet, &sitemap.Entry{
			Loc: docs + p.name().String(), At: p.at, Completed: p.completed,
			Length: p.length, Type: packageType, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: p.sha256}},
			Links: []sitemap.Link{{Rel: sitemap.RelContents, Href: docs + manifest.String(), Type: documentType}}})
	}
	return sitemap.AppendFoot(dst, sitemap.URLSet)
}

// portion returns a package that some dump names.
func (f *feed) portion(s Set, doc docName) (portion, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range slices.Backward(f.sets[s].kept) {
		i, ok := slices.BinarySearchFunc(d.packages, int(doc.n), func(p portion, page int) int { return p.page - page })
		if ok && uint64(d.packages[i].dump) == doc.version {
			return d.packages[i], true
		}
	}
	return portion{}, false
}

// resourcePackage returns a package, or the copy of its manifest.
func (f *feed) resourcePackage(s Set, doc docName) *resource {
	p, ok := f.portion(s, doc)
	if !ok {
		return nil
	}
	at := p.at
	if !p.completed.IsZero() {
		at = p.completed
	}
	return f.packaged(s, doc, span{until: at, length: p.length, sha256: p.sha256}, p.name().String())
}
