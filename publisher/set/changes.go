package set

import (
	"crypto/sha256"
	"encoding/hex"
	"io"

	"cutie/publisher/dump"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// newPackage returns an empty package for files of the queue.
func (s *Set) newPackage() (*gathering, error) {
	return newGathering(s.Store.Root(), s.Queue, s.Kind, s.Renderer())
}

// pack makes the package of the list: its growing one is completed. Without that, or
// with damage, it is made of the files there are.
func (t *Task) pack(pause func() bool) error {
	if !t.hasDumps() {
		return nil
	}
	t.mu.Lock()
	g, grows := t.Set.pack.closed[t.list.First]
	t.mu.Unlock()
	if grows {
		err := t.finish(&g, pause)
		if err == nil || !store.Unusable(err) {
			return err
		}
	}
	return t.packChanges(pause)
}

// packChanges makes the package of the list from the growing package and the files of jobs.
func (t *Task) packChanges(pause func() bool) error {
	sp := store.Span{First: t.list.First, From: t.list.From, Last: t.list.Last, Until: t.list.Until}
	grown := names.OpenPackageFile(t.list.First)
	pkg, err := t.gather(sp, grown, pause)
	if err != nil {
		return err
	}
	defer pkg.Close()
	if err := t.ship(pkg, sp, pause); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.Set.pack.closed, t.list.First)
	t.made.unswept = true // the growing one goes
	return nil
}

// gather returns a package with the changes of the list in sp. Files that the package in
// the file grown has are taken from it.
func (t *Task) gather(sp store.Span, grown string, pause func() bool) (_ *gathering, err error) {
	pkg, err := t.newPackage()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			pkg.Close()
		}
	}()
	if file, err := t.openFile(grown); err == nil {
		defer file.Close()
		if st, err := file.Stat(); err == nil {
			pkg.Grown = dump.Salvage(file, st.Size())
		}
	}
	return pkg, t.changes(func(seq queuefs.Seq, e *sitemap.Entry) error {
		if seq < sp.First || seq > sp.Last {
			return nil
		}
		if err := pkg.Change(e); err != nil {
			return err
		}
		if !pause() {
			return dump.ErrStopped
		}
		return nil
	})
}

// changes calls do with each entry of the list, and ends with its first error.
func (t *Task) changes(do func(seq queuefs.Seq, e *sitemap.Entry) error) error {
	file, err := t.content()
	if err != nil {
		return err
	}
	defer file.Close()
	for r := sitemap.NewLines(io.NewSectionReader(file, 0, t.list.Length)); ; {
		e, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return store.Damaged("%s: %w", file.Name(), err)
		}
		if err := do(queuefs.Seq(e.Seq), &e); err != nil {
			return err
		}
	}
}

// ship makes a package, puts it in place, and writes its line; from then on
// changedump.xml names it.
func (t *Task) ship(p *gathering, sp store.Span, pause func() bool) (err error) {
	head := sitemap.Head{Capability: sitemap.ChangeDumpManifest, From: sp.From, Until: sp.Until, Links: t.Up()}
	if there, ok := t.adopt(sp); ok {
		sp = there // a line was lost; files may have changed since
	} else {
		if sp.Length, sp.SHA256, err = t.write(p, head, names.PackageFile(sp.First), pause, nil); err != nil {
			return err
		}
		sp.Entries = p.Entries
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	defer dir.Close()
	return t.name(dir, sp)
}

// name writes the line of a package.
func (t *Task) name(dir *durable.Dir, sp store.Span) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outlived() {
		return dump.ErrStopped
	}
	if err := t.final(t.files.Packages.Add(t.Store, dir, sp)); err != nil {
		return err
	}
	t.made.packed = sp.Last
	return nil
}

// write writes a package and puts it in place under its name, unless accept is not nil
// and returns an error.
func (t *Task) write(p *gathering, head sitemap.Head, name string, pause func() bool, accept func(int64, [sha256.Size]byte) error) (length int64, sum string, err error) {
	if err := t.needSpace(p.Size()); err != nil {
		return 0, "", err
	}
	dir, err := t.dir()
	if err != nil {
		return 0, "", err
	}
	defer dir.Close()
	out, err := t.Store.Temp()
	if err != nil {
		return 0, "", err
	}
	defer out.Discard()
	if length, sum, err = p.Write(out, head, pause); err != nil {
		return 0, "", err
	}
	digest, err := hex.DecodeString(sum)
	if err != nil {
		return 0, "", err
	}
	if accept != nil {
		if err := accept(length, [sha256.Size]byte(digest)); err != nil {
			return 0, "", err
		}
	}
	if err := out.Commit(dir, name); err != nil {
		return 0, "", err
	}
	t.Store.Verified.Trust(out.File, [sha256.Size]byte(digest))
	return length, sum, nil
}

// adopt returns the line of a package that is in place without one, if the package is
// whole and has the events of sp.
func (t *Task) adopt(sp store.Span) (store.Span, bool) {
	file, err := t.openFile(names.PackageFile(sp.First))
	if err != nil {
		return sp, false
	}
	defer file.Close()
	head, n, err := dump.Whole(file)
	if err != nil || !head.From.Equal(sp.From) || !head.Until.Equal(sp.Until) {
		return sp, false
	}
	st, err := file.Stat()
	if err != nil {
		return sp, false
	}
	sum, err := durable.Sum(file, st.Size())
	sp.Entries, sp.Length, sp.SHA256 = n, st.Size(), hex.EncodeToString(sum[:])
	return sp, err == nil
}
