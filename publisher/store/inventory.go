package store

import (
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

	stamp string
}

// NewInventory returns an inventory without files.
func NewInventory(stamp string) Inventory {
	return Inventory{Lists: Spans{file: "lists", stamp: stamp}, Packages: Spans{file: "packages", stamp: stamp}, stamp: stamp}
}

// Read reads the inventory in the directory of the set, up to the last event of
// the queue. Damaged Resource Dumps, and those without all packages, are set
// aside; report is called with the name of the file.
func (v *Inventory) Read(d *durable.Dir, last queuefs.Seq, report func(file, text string, args ...any)) error {
	if err := errors.Join(v.Lists.read(d), v.Packages.read(d)); err != nil {
		return err
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
		one, err := readDump(d, seq, v.stamp)
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
	if err := sealed(d, names.DumpFile(one.Seq), dumpTitle).Write(text); err != nil {
		return err
	}
	v.Dumps = append(slices.Clip(v.Dumps), one)
	return nil
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

// former reports whether a file is a package of a Resource Dump, or is older than
// all lists and packages with a line.
func (v *Inventory) former(name string) bool {
	past := func(s *Spans, first queuefs.Seq) bool { return len(s.All) > 0 && s.All[0].First > first }
	if first, ok := names.ListFile(name); ok {
		return past(&v.Lists, first)
	}
	doc, ok := names.ParseDoc(name)
	if !ok || !strings.HasSuffix(name, ".zip") {
		return false
	}
	first := queuefs.Seq(doc.N)
	return doc.Kind == names.ResourcePackage || past(&v.Packages, first) && past(&v.Lists, first)
}
