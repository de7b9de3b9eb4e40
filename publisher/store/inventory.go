package store

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// An Inventory lists the files of a set: closed Change Lists, packages of the
// Change Dump, and Resource Dumps, oldest first.
//
// Removing is the reverse of making: first the name of a file in its line or dump,
// synced, then the file. A crash between leaves files without a name; the next
// Sweep removes them.
type Inventory struct {
	Lists    Spans
	Packages Spans
	Dumps    []*Edition

	Torn bool // lines were left out

	path, stamp string
}

// NewInventory returns an inventory without files. path is the one of the set below
// resourcesync.
func NewInventory(path, stamp string) Inventory {
	return Inventory{Lists: newSpans("lists", path, stamp), Packages: newSpans("packages", path, stamp), path: path, stamp: stamp}
}

// Read reads the inventory in the directory of the set, up to the last event of
// the queue. Damaged lines are left out, and Resource Dumps set aside that are
// damaged or lack a package; report is called with the name of the file.
func (v *Inventory) Read(st *Store, d *durable.Dir, last queuefs.Seq, report func(file, text string, args ...any)) error {
	for _, s := range []*Spans{&v.Lists, &v.Packages} {
		bad, err := s.read(d)
		if err != nil {
			return err
		}
		if bad > 0 {
			v.Torn = true
			report(s.file, "%d lines do not verify; written again with the %d others", bad, len(s.All))
			if err := s.Renew(st, d); err != nil {
				return err
			}
		}
	}
	if at := max(v.Lists.Last().Last, v.Packages.Last().Last); at > last {
		return Damaged("lists reach to event %d, the queue to %d", at, last)
	}
	var found []queuefs.Seq
	err := d.Names(func(name string) {
		if seq, ok := names.ParseDumpFile(name); ok {
			found = append(found, seq)
		}
	})
	if err != nil {
		return err
	}
	slices.Sort(found)
	for _, seq := range found {
		one, err := v.readDump(d, seq)
		if err == nil && seq > last {
			err = Damaged("is of event %d, the queue at %d", seq, last)
		}
		if err == nil {
			v.Dumps = append(v.Dumps, one)
			continue
		}
		if !Unusable(err) {
			return err
		}
		file := names.DumpFile(seq)
		aside, e := SetAside(d, file)
		if e != nil {
			return errors.Join(err, e)
		}
		report(file, "%v; moved to %s", err, aside)
	}
	return nil
}

// AddDump writes the file of a Resource Dump, after its packages, and sets its
// Sum. The dump counts from then on.
func (v *Inventory) AddDump(d *durable.Dir, one *Edition) error {
	text := one.append(nil, v.stamp)
	one.Sum = short(string(text))
	if err := sealed(d, names.DumpFile(one.Seq), v.dumpKind(one.Seq)).Write(text); err != nil {
		return err
	}
	v.Dumps = append(slices.Clip(v.Dumps), one)
	return nil
}

// Renew verifies the file of a Resource Dump, and writes it anew if it is not as it
// was written.
func (v *Inventory) Renew(d *durable.Dir, one *Edition) (whole bool, err error) {
	text := one.append(nil, v.stamp)
	file := sealed(d, names.DumpFile(one.Seq), v.dumpKind(one.Seq))
	now, err := file.Read()
	if err == nil && string(now) == string(text) || err != nil && !Unusable(err) {
		return err == nil, err
	}
	return false, file.Write(text)
}

// DropDumps sets aside the files of all Resource Dumps with the package in a file, and
// the package. It returns how many.
func (v *Inventory) DropDumps(d *durable.Dir, name string) (n int, err error) {
	for i := 0; i < len(v.Dumps); {
		one := v.Dumps[i]
		if !slices.ContainsFunc(one.Packages, func(p Portion) bool { return p.File() == name }) {
			i++
			continue
		}
		if _, err := SetAside(d, names.DumpFile(one.Seq)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
		v.Dumps = slices.Delete(slices.Clone(v.Dumps), i, i+1)
		n++
	}
	if _, err := SetAside(d, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return n, err
	}
	return n, nil
}

// Survey calls visit with every file of lists, packages and dumps that is absent or has
// another length than it was written with.
func (v *Inventory) Survey(d *durable.Dir, visit func(name string, err error)) error {
	look := func(name string, length int64) error {
		st, err := d.Stat(name)
		switch {
		case err == nil && st.Size != length:
			visit(name, Damaged("%s has %d octets of %d", name, st.Size, length))
		case err != nil && Unusable(err):
			visit(name, err)
		default:
			return err
		}
		return nil
	}
	for p := range v.Pieces {
		if err := look(p.Name, p.Length); err != nil {
			return err
		}
	}
	return nil
}

// Forms looks for closed lists whose entries stand in their file in gzip alone. It returns
// the last event of the newest closed list with such a file.
func (v *Inventory) Forms(d *durable.Dir) (packed queuefs.Seq, err error) {
	forms := make(map[string]bool)
	err = d.Names(func(name string) {
		if _, ok := names.ListFile(name); ok {
			forms[name] = true
		}
	})
	if err != nil {
		return 0, err
	}
	for i := range v.Lists.All {
		sp := &v.Lists.All[i]
		name := names.GzipFile(sp.First)
		if !forms[name] {
			continue
		}
		packed = sp.Last
		if sp.Lost() || forms[names.EntriesFile(sp.First)] {
			continue
		}
		st, err := d.Stat(name)
		if err != nil && !Unusable(err) {
			return 0, err
		}
		if err == nil {
			sp.Packed = max(st.Size, 1) // an empty one is damaged
		}
	}
	return packed, nil
}

// A Piece is a file of a set with its length and digest.
type Piece struct {
	Name   string
	First  queuefs.Seq // of a list
	Length int64
	Sum    [sha256.Size]byte
	Text   int64 // of a list in gzip: bytes of its text, which the digest is of; else 0
}

// List returns the file with the entries of a closed list.
func (sp *Span) List() Piece {
	if sp.Packed > 0 {
		return sp.Gzip()
	}
	return Piece{names.EntriesFile(sp.First), sp.First, sp.Length, sp.Sum(), 0}
}

// Gzip returns the file with the entries of a closed list in gzip.
func (sp *Span) Gzip() Piece {
	return Piece{names.GzipFile(sp.First), sp.First, sp.Packed, sp.Sum(), sp.Length}
}

// Package returns the file of a package of changes.
func (sp *Span) Package() Piece {
	return Piece{Name: names.PackageFile(sp.First), Length: sp.Length, Sum: sp.Sum()}
}

// Piece returns the file of the package.
func (p *Portion) Piece() Piece {
	sum, _ := parseSum(p.SHA256)
	return Piece{Name: p.File(), Length: p.Length, Sum: sum}
}

// Pieces yields the files of closed lists and all packages.
func (v *Inventory) Pieces(yield func(Piece) bool) {
	for _, s := range []*Spans{&v.Lists, &v.Packages} {
		for i := range s.All {
			sp := &s.All[i]
			if sp.Lost() {
				continue
			}
			p := sp.Package()
			if s == &v.Lists {
				p = sp.List()
			}
			if !yield(p) {
				return
			}
		}
	}
	seen := make(map[string]bool)
	for _, one := range v.Dumps {
		for i := range one.Packages {
			if p := one.Packages[i].Piece(); !seen[p.Name] {
				seen[p.Name] = true
				if !yield(p) {
					return
				}
			}
		}
	}
}

// Has reports whether a file is one of Pieces.
func (v *Inventory) Has(name string) bool {
	for p := range v.Pieces {
		if p.Name == name {
			return true
		}
	}
	return false
}

// Dump returns the dump of an event, or the last one for 0; nil if there is none.
func (v *Inventory) Dump(seq queuefs.Seq) *Edition {
	for _, d := range slices.Backward(v.Dumps) {
		if seq == 0 || d.Seq == seq {
			return d
		}
	}
	return nil
}

// Portion returns a package in some dump.
func (v *Inventory) Portion(doc names.Doc) (Portion, bool) {
	for _, d := range slices.Backward(v.Dumps) {
		i, ok := slices.BinarySearchFunc(d.Packages, int(doc.N), func(p Portion, page int) int { return p.Page - page })
		if ok && uint64(d.Packages[i].Dump) == doc.Version {
			return d.Packages[i], true
		}
	}
	return Portion{}, false
}

// Octets returns the bytes of closed lists, packages and Resource Dumps.
func (v *Inventory) Octets() int64 {
	n := v.Lists.Octets() + v.Packages.Octets()
	for i, d := range v.Dumps {
		var next *Edition
		if i+1 < len(v.Dumps) {
			next = v.Dumps[i+1]
		}
		n += d.Alone(next)
	}
	return n
}

// Sweep removes files without a name in the inventory, the files of Resource Dumps
// first: they name others.
func (v *Inventory) Sweep(d *durable.Dir) error {
	named := make(map[string]bool)
	for _, one := range v.Dumps {
		named[names.DumpFile(one.Seq)] = true
		for i := range one.Packages {
			named[one.Packages[i].File()] = true
		}
	}
	var naming, rest []string
	err := d.Names(func(name string) {
		switch _, isDump := names.ParseDumpFile(name); {
		case named[name]:
		case isDump:
			naming = append(naming, name)
		case v.former(name):
			rest = append(rest, name)
		}
	})
	if err != nil {
		return err
	}
	for _, files := range [][]string{naming, rest} {
		if len(files) == 0 {
			continue
		}
		for _, name := range files {
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

// former reports whether a file is a package of a Resource Dump, is older than all lists
// and packages with a line, or has the entries of a list in gzip.
func (v *Inventory) former(name string) bool {
	past := func(s *Spans, first queuefs.Seq) bool { return len(s.All) > 0 && s.All[0].First > first }
	if first, ok := names.ListFile(name); ok {
		sp, _ := v.Lists.Find(first)
		return past(&v.Lists, first) || sp.Packed > 0 && name == names.EntriesFile(first)
	}
	doc, ok := names.ParseDoc(name)
	if !ok || !strings.HasSuffix(name, ".zip") {
		return false
	}
	first := queuefs.Seq(doc.N)
	return doc.Kind == names.ResourcePackage || past(&v.Packages, first) && past(&v.Lists, first)
}
