package publisher

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// What is kept no longer goes in an order that leaves nothing named that is
// not there: first the line or the file of a dump that names it, which is
// synced, then its own files. A crash between the two leaves files that
// nothing names; they go with the next sweep, at the latest on opening.

// retain lets go of what Keep and KeepOctets do not ask for.
func (p *Publisher) retain() error {
	if err := p.failure(); err != nil {
		return err
	}
	var errs []error
	for _, f := range p.opened() {
		errs = append(errs, f.retain())
	}
	return errors.Join(errs...)
}

func (f *feed) retain() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs [numSets]error
	for s := range f.sets {
		c := &f.sets[s]
		if c.making {
			continue // there are packages that no dump names yet
		}
		errs[s] = f.mend(c, f.retainSet(c))
	}
	return errors.Join(errs[:]...)
}

func (f *feed) retainSet(c *changes) error {
	dumps, lists := f.spare(c)
	packages := 0
	if lists < len(c.lists.all) {
		packages = c.packages.before(c.lists.all[lists].first)
	}
	if dumps+lists+packages == 0 && !c.unswept {
		return nil
	}
	c.unswept = true
	c.kept = slices.Clone(c.kept[dumps:])
	d, err := f.dir(c.set, false)
	if errors.Is(err, fs.ErrNotExist) && len(c.kept)+len(c.lists.all) == 0 {
		c.unswept = false
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if lists > 0 {
		last := c.lists.all[lists-1].last
		if err := f.shorten(d, &c.lists, lists); err != nil {
			return err
		}
		// Those that wait for room are passed over; the next one may find some.
		if last > c.dumped {
			c.dumped, c.forLists.octets, c.forLists.again = last, min(c.forLists.octets, 1), time.Time{}
		}
	}
	if err := f.shorten(d, &c.packages, packages); err != nil {
		return err
	}
	if err := c.sweep(d); err != nil {
		return err
	}
	c.unswept = false
	return nil
}

// spare returns how many Resource Dumps and closed lists, the oldest, are to
// go. What always stays: the last Resource Dump while it is true, or will be
// replaced, unless that waits for room; the one before, if there is no Keep, for
// those who are still fetching its packages; the last closed list; lists without
// their packages, unless those wait for room; and lists with changes that the last
// Resource Dump does not have. f.mu is held.
func (f *feed) spare(c *changes) (dumps, lists int) {
	now := f.p.Now()
	old := func(t time.Time) bool { return f.p.Keep > 0 && now.Sub(t) > f.p.Keep }
	octets := c.octets()
	over := func() bool { return f.p.KeepOctets > 0 && octets > f.p.KeepOctets }

	for ; len(c.kept)-dumps > 1; dumps++ {
		if !old(c.kept[dumps+1].made) && (len(c.kept)-dumps == 2 || f.p.Keep > 0 && !over()) {
			break
		}
		octets -= c.kept[dumps].alone(c.kept[dumps+1])
	}
	last := c.current()
	if last != nil && len(c.kept)-dumps == 1 && f.outdated(c, last) &&
		(f.p.DumpPeriod == 0 && old(last.made) || c.waits() && (old(last.made) || over())) {
		octets -= last.alone(nil)
		last, dumps = nil, dumps+1
	}
	for ; lists < len(c.lists.all)-1; lists++ {
		sp := c.lists.all[lists]
		if sp.last > c.dumped && c.forLists.octets == 0 || last != nil && sp.last > last.seq || !old(sp.until) && !over() {
			break
		}
		octets -= sp.length
		for _, p := range c.packages.all[c.packages.before(sp.first):c.packages.before(sp.last+1)] {
			octets -= p.length
		}
	}
	return dumps, lists
}

// octets returns how much the closed lists, packages and Resource Dumps take.
func (c *changes) octets() (n int64) {
	for _, sp := range c.lists.all {
		n += sp.length
	}
	for _, sp := range c.packages.all {
		n += sp.length
	}
	for i, d := range c.kept {
		if i+1 < len(c.kept) {
			n += d.alone(c.kept[i+1])
		} else {
			n += d.alone(nil)
		}
	}
	return n
}

// alone returns how much the packages are that the dump has and next, the one
// after it, has not. No later one has them either.
func (d *edition) alone(next *edition) (n int64) {
	has := make(map[docName]bool)
	if next != nil {
		for i := range next.packages {
			has[next.packages[i].name()] = true
		}
	}
	for i := range d.packages {
		if p := &d.packages[i]; !has[p.name()] {
			n += p.length
		}
	}
	return n
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

// shorten takes the first n lines from the file of the spans.
func (f *feed) shorten(d *durable.Dir, s *spans, n int) error {
	if n == 0 {
		return nil
	}
	out, err := f.p.draft()
	if err != nil {
		return err
	}
	defer out.discard()
	text := []byte(header(s.file, f.p.stamp()))
	for i := range s.all[n:] {
		text = s.all[n+i].append(text)
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	if err := out.place(d, s.file); err != nil {
		if out.name == "" { // it is in place, but maybe not to stay
			return f.p.fail(err)
		}
		now := spans{file: s.file}
		if e := now.read(d, f.p.stamp()); e != nil {
			return errors.Join(err, e)
		}
		if len(now.all) != len(s.all) {
			return f.p.fail(err) // an error, and yet it was done
		}
		return err
	}
	s.all, s.length = slices.Clone(s.all[n:]), int64(len(text))
	return nil
}

// sweep removes the files of former Resource Dumps and lists: first those that
// name others, then the others.
func (c *changes) sweep(d *durable.Dir) error {
	named := make(map[string]bool)
	for _, one := range c.kept {
		named[dumpFile(one.seq)] = true
		for i := range one.packages {
			named[one.packages[i].name().String()] = true
		}
	}
	var naming, rest []string
	err := d.Names(func(name string) {
		switch _, isDump := parseDumpFile(name); {
		case named[name]:
		case isDump:
			naming = append(naming, name)
		case c.former(name):
			rest = append(rest, name)
		}
	})
	if err != nil || len(naming)+len(rest) == 0 {
		return err
	}
	for _, names := range [][]string{naming, rest} {
		for _, name := range names {
			if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := d.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// former reports whether the file is a package of a Resource Dump, or of a
// list or package before all that have a line.
func (c *changes) former(name string) bool {
	stem, suffix, _ := strings.Cut(name, ".")
	doc, ok := parseDocName(stem + ".xml")
	switch {
	case suffix == "zip":
		doc, ok = parseDocName(name)
		if ok && doc.kind == resourcePackage {
			return true
		}
		return ok && doc.kind == changePackage && c.packages.past(doc.n) && c.lists.past(doc.n)
	case suffix == "entries", suffix == "gz":
		return ok && doc.kind == closedList && c.lists.past(doc.n)
	}
	return false
}

// past reports whether there are spans, and all of them begin after an event.
func (s *spans) past(first uint64) bool {
	return len(s.all) > 0 && s.all[0].first > queuefs.Seq(first)
}
