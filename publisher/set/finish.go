package set

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"cutie/publisher/dump"
	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/sitemap"
)

// finish completes the growing package of the list: late files, the manifest and the
// directory are added, and the file gets its name. A crash before leaves a growing package
// with a torn end; the files in it are taken over by packChanges.
func (t *Task) finish(g *grown, pause func() bool) (err error) {
	dir, err := t.dir()
	if err != nil {
		return err
	}
	defer dir.Close()
	from := names.OpenPackageFile(t.list.First)
	out, err := dir.Append(from)
	if err != nil {
		return err
	}
	defer out.Close()
	if g.length > 0 && !g.file.IsLeft(out) {
		return store.Damaged("%s is not as it was left", from)
	}
	sp := store.Span{First: t.list.First, Last: t.list.Last, From: t.list.From, Until: t.list.Until}
	if err := t.complete(g, out, &sp, pause); err != nil {
		t.goBack(g, out)
		return err
	}
	// From here on a second attempt would not know what there is: after an error the files
	// are taken from the growing package, or from the complete one.
	defer t.forget()
	if err := errors.Join(dir.SyncFile(out), t.stopped()); err != nil {
		return err
	}
	if err := dir.Rename(from, dir, names.PackageFile(sp.First)); err != nil {
		return err
	}
	if err := dir.Sync(); err != nil {
		return err
	}
	t.Store.Verified.Trust(out, sp.Sum())
	return t.name(dir, sp)
}

// stopped returns dump.ErrStopped if the task is stale.
func (t *Task) stopped() error {
	if t.stale() {
		return dump.ErrStopped
	}
	return nil
}

// forget lets go of the growing package.
func (t *Task) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.Set.pack.closed, t.list.First)
}

// goBack cuts off the end of a failed attempt. If that fails, the next attempt does not
// find the package as it was left.
func (t *Task) goBack(g *grown, out *os.File) {
	if err := store.Cut(out, g.length); err == nil {
		g.file.Leave(out)
		t.mu.Lock()
		defer t.mu.Unlock()
		if _, ok := t.Set.pack.closed[t.list.First]; ok {
			t.Set.pack.closed[t.list.First] = *g
		}
	}
}

// complete writes the end of the package, and gives sp its entries, length and digest.
func (t *Task) complete(g *grown, out *os.File, sp *store.Span, pause func() bool) error {
	in, err := t.openFile(names.OpenPackageFile(sp.First))
	if err != nil {
		return err
	}
	defer in.Close()
	early, err := dump.OpenGrowing(in, g.length)
	if err != nil {
		return store.Damage{Err: err}
	}
	sum, err := g.file.Sum()
	if err != nil {
		return err
	}
	c := &completion{Task: t, pkg: early.Close(out, sum), pause: pause}
	head := sitemap.Head{Capability: sitemap.ChangeDumpManifest, From: sp.From, Until: sp.Until, Links: t.Up()}
	if c.manifest, err = dump.NewManifest(t.Dialect, head); err != nil {
		return err
	}
	if err := t.lines(c.add); err != nil {
		return err
	}
	sp.Entries = c.entries
	sp.Length, sp.SHA256, err = c.pkg.End(c.manifest)
	return err
}

// lines calls do with each line of the list, lent, and ends with its first error.
func (t *Task) lines(do func(line []byte) error) error {
	file, err := t.content()
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReaderSize(io.NewSectionReader(file, 0, t.list.Length), 2*entries.MaxEntry)
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			return store.Damaged("%s: %w", file.Name(), err)
		}
		if err := do(line); err != nil {
			return err
		}
	}
}

// A completion adds the entries of a list to the manifest of its package, and late files
// to the package.
type completion struct {
	*Task
	pkg      *dump.Closing
	manifest *dump.Manifest
	pause    func() bool
	number   int // of the last file
	entries  int
	line     []byte
	path     []byte
}

// add adds an entry.
func (c *completion) add(line []byte) error {
	path := c.path[:0]
	if entries.HasFile(line) {
		if c.number++; !c.pkg.Has(c.number) {
			if ok, err := c.late(line); !ok || err != nil {
				return err
			}
		}
		path = dump.AppendName(append(path, '/'), c.number)
	}
	c.path, c.line = path, entries.AppendPacked(c.line[:0], line, path)
	c.entries++
	c.manifest.Write(c.line)
	if c.entries%64 == 0 && !c.pause() {
		return dump.ErrStopped
	}
	return nil
}

// late adds a late file to the package; false if it is gone, and a later event says so.
func (c *completion) late(line []byte) (ok bool, err error) {
	e, err := sitemap.NewLines(bytes.NewReader(line)).Read()
	if err != nil {
		return false, store.Damage{Err: err}
	}
	f, in, err := lateFile(c.Queue, c.Refs, &e)
	if in == nil {
		if replaced(c.Queue, c.Refs, &e) {
			return false, nil
		}
		return false, store.Damage{Err: cmp.Or(err, errLacks)}
	}
	defer in.Close()
	if err := c.needSpace(f.Length, 0); err != nil {
		return false, err
	}
	err = c.pkg.Add(c.number, f, in, c.pause)
	if errors.Is(err, dump.ErrDamaged) {
		err = store.Damage{Err: err} // or replaced meanwhile
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", e.Loc, err)
	}
	return true, nil
}

// errLacks: the package is made of the files there are.
var errLacks = errors.New("growing package lacks a file")
