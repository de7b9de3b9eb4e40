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

// Removing is the reverse of making: first the line or the file of a dump that
// names a file, synced, then the file. A crash between leaves files no one names;
// the next sweep removes them, at the latest on opening.

// retain removes what Keep and KeepOctets do not ask for.
func (p *Publisher) retain() error {
	if err := p.failure(); err != nil {
		return err
	}
	var errs []error
	for _, s := range p.sets() {
		errs = append(errs, s.retain())
	}
	return errors.Join(errs...)
}

func (s *set) retain() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made.dumping {
		return nil // there are packages no dump names yet
	}
	return s.mend(s.removeOld())
}

// removeOld removes what is no longer kept. mu is held.
func (s *set) removeOld() error {
	dumps, lists := s.expired()
	packages := 0
	if lists < len(s.lists.all) {
		packages = s.packages.before(s.lists.all[lists].first)
	}
	if dumps+lists+packages == 0 && !s.made.unswept {
		return nil
	}
	s.made.unswept = true
	s.dumps = slices.Clone(s.dumps[dumps:])
	d, err := s.dir()
	if errors.Is(err, fs.ErrNotExist) && len(s.dumps)+len(s.lists.all) == 0 {
		s.made.unswept = false
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if lists > 0 {
		last := s.lists.all[lists-1].last
		if err := s.shorten(d, &s.lists, lists); err != nil {
			return err
		}
		// Lists that wait for free space are passed over; the next may find some.
		if w := &s.made.lists; last > s.made.packed {
			s.made.packed, w.octets, w.again = last, min(w.octets, 1), time.Time{}
		}
	}
	if err := s.shorten(d, &s.packages, packages); err != nil {
		return err
	}
	if err := s.sweep(d); err != nil {
		return err
	}
	s.made.unswept = false
	return nil
}

// expired returns how many of the oldest Resource Dumps and closed lists are to
// go. These always stay: the last Resource Dump, while it is true or will be
// replaced, unless that waits for free space; the one before, if there is no
// Keep, for clients still fetching its packages; the last closed list; lists
// without their packages, unless those wait for free space; and lists with
// changes newer than the last Resource Dump. mu is held.
func (s *set) expired() (dumps, lists int) {
	now := s.p.Now()
	old := func(t time.Time) bool { return s.p.Keep > 0 && now.Sub(t) > s.p.Keep }
	octets := s.octets()
	over := func() bool { return s.p.KeepOctets > 0 && octets > s.p.KeepOctets }

	for ; len(s.dumps)-dumps > 1; dumps++ {
		if !old(s.dumps[dumps+1].made) && (len(s.dumps)-dumps == 2 || s.p.Keep > 0 && !over()) {
			break
		}
		octets -= s.dumps[dumps].alone(s.dumps[dumps+1])
	}
	last := s.current()
	waits := s.made.lists.octets > 0 || s.made.dump.octets > 0
	if last != nil && len(s.dumps)-dumps == 1 && s.outdated(last) &&
		(s.p.DumpPeriod == 0 && old(last.made) || waits && (old(last.made) || over())) {
		octets -= last.alone(nil)
		last, dumps = nil, dumps+1
	}
	for ; lists < len(s.lists.all)-1; lists++ {
		sp := s.lists.all[lists]
		if sp.last > s.made.packed && s.made.lists.octets == 0 || last != nil && sp.last > last.seq || !old(sp.until) && !over() {
			break
		}
		octets -= sp.length
		for _, p := range s.packages.all[s.packages.before(sp.first):s.packages.before(sp.last+1)] {
			octets -= p.length
		}
	}
	return dumps, lists
}

// octets returns the bytes of closed lists, packages and Resource Dumps. mu is
// held.
func (s *set) octets() (n int64) {
	for _, all := range [][]span{s.lists.all, s.packages.all} {
		for _, sp := range all {
			n += sp.length
		}
	}
	for i, d := range s.dumps {
		var next *edition
		if i+1 < len(s.dumps) {
			next = s.dumps[i+1]
		}
		n += d.alone(next)
	}
	return n
}

// alone returns the bytes of the packages that the next dump does not have. No
// later one has them either.
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

// shorten removes the first n lines from the file of the spans. A failed sync,
// or an error after which the lines are gone, is final.
func (s *set) shorten(d *durable.Dir, lines *spans, n int) error {
	if n == 0 {
		return nil
	}
	out, err := s.p.store.stage()
	if err != nil {
		return err
	}
	defer out.discard()
	text := []byte(header(lines.file, s.p.stamp()))
	for i := range lines.all[n:] {
		text = lines.all[n+i].append(text)
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	if err := out.commit(d, lines.file); err != nil {
		if out.name == "" { // it is in place, but maybe not to stay
			return s.p.fail(err)
		}
		now := spans{file: lines.file}
		if e := now.read(d, s.p.stamp()); e != nil {
			return errors.Join(err, e)
		}
		if len(now.all) != len(lines.all) {
			return s.p.fail(err) // an error, and yet it was done
		}
		return err
	}
	lines.all, lines.length = slices.Clone(lines.all[n:]), int64(len(text))
	return nil
}

// sweep removes the files of former Resource Dumps and lists: first files that
// name others.
func (s *set) sweep(d *durable.Dir) error {
	named := make(map[string]bool)
	for _, one := range s.dumps {
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
		case s.former(name):
			rest = append(rest, name)
		}
	})
	if err != nil {
		return err
	}
	for _, names := range [][]string{naming, rest} {
		if len(names) == 0 {
			continue
		}
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

// former reports whether a file is a package of a Resource Dump, or belongs to a
// list or package before all that have a line.
func (s *set) former(name string) bool {
	stem, suffix, _ := strings.Cut(name, ".")
	doc, ok := parseDocName(stem + ".xml")
	past := func(all []span) bool { return len(all) > 0 && all[0].first > queuefs.Seq(doc.n) }
	switch {
	case suffix == "zip":
		doc, ok = parseDocName(name)
		return ok && (doc.kind == resourcePackage || doc.kind == changePackage && past(s.packages.all) && past(s.lists.all))
	case suffix == "entries", suffix == "gz":
		return ok && doc.kind == closedList && past(s.lists.all)
	}
	return false
}
