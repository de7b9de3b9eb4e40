package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"cutie/publisher/dump"
	"cutie/queuefs"
	"cutie/sitemap"
)

// newPackage returns an empty package for files of the queue.
func (t *task) newPackage() (*dump.Package, error) {
	p, err := dump.New(t.p.store.root())
	if err != nil {
		return nil, err
	}
	p.Dialect = t.p.Dialect
	p.Loc = func(id uint64) string { return t.names.paths + queuefs.JobID(id).String() }
	p.Open = func(id uint64) (io.ReadCloser, int64, error) {
		r, err := t.q.Payload(queuefs.JobID(id))
		if err != nil {
			return nil, 0, err
		}
		return r, r.Size(), nil
	}
	return p, nil
}

// packChanges makes the packages of the list that are not there yet. It divides
// the list between two events where the files become too many bytes.
func (t *task) packChanges(pause func() bool) error {
	entries, err := t.open(entriesFile(t.list.first))
	if err != nil {
		return err
	}
	defer entries.Close()
	r := sitemap.NewLines(io.NewSectionReader(entries, 0, t.list.length))
	next := span{first: t.list.first, from: t.list.from}
	if last, ok := t.lastPackage(); ok && last.last >= next.first {
		next = span{first: last.last + 1, from: last.until}
	}
	pkg, err := t.newPackage()
	if err != nil {
		return err
	}
	defer func() { pkg.Close() }()
	for {
		e, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return damage{fmt.Errorf("%s: %w", entries.Name(), err)}
		}
		seq := queuefs.Seq(e.Seq)
		if seq < next.first {
			continue
		}
		if next.last != 0 && next.last != seq && pkg.Octets+max(e.Length, 0) > t.p.MaxPackage {
			if err := t.ship(pkg, next, pause); err != nil {
				return err
			}
			next = span{first: next.last + 1, from: next.until}
			rest, err := t.newPackage()
			if err != nil {
				return err
			}
			pkg.Close()
			pkg = rest
		}
		if err := t.addChange(pkg, &e); err != nil {
			return err
		}
		if next.last, next.until = seq, e.Changed(); !pause() {
			return dump.ErrStopped
		}
	}
	next.last, next.until = t.list.last, t.list.until
	return t.ship(pkg, next, pause)
}

// lastPackage returns the last package of changes.
func (t *task) lastPackage() (last span, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.packages.all); n > 0 {
		return t.packages.all[n-1], true
	}
	return span{}, false
}

// addChange adds an entry of the list to a package, with its file unless it is a
// deletion. It leaves out a job file or queue-info.txt replaced since, and the
// files of a culled job.
func (t *task) addChange(p *dump.Package, e *sitemap.Entry) error {
	if e.Change == sitemap.Deleted {
		return p.Add(e)
	}
	of, f, err := t.packed(e)
	if err != nil {
		return &dump.FileError{Loc: e.Loc, Err: err}
	}
	if t.culled(e.Loc) {
		return nil
	}
	if of.payload {
		return p.AddFile(e, f)
	}
	var text []byte
	var facts queuefs.Facts
	if of.job == 0 {
		text, facts = t.q.InfoFile()
	} else {
		text, facts, err = t.q.JobFile(of.job, of.status)
	}
	same := sha256.Sum256(text) == f.SHA256
	switch {
	case err == nil && same && int64(len(text)) == f.Length:
		return p.AddText(e, f, text)
	case errors.Is(err, queuefs.ErrNoJob), err == nil && facts.Modified.After(e.Changed()), of.job == 0 && !same:
		return nil // the next event says what it is now
	case err == nil:
		err = errors.New("file is not what it was")
	}
	return &dump.FileError{Loc: e.Loc, Err: err}
}

// packed returns the file of an entry, as it stands in a package.
func (t *task) packed(e *sitemap.Entry) (of file, f dump.File, err error) {
	of, ok := t.names.file(e.Loc)
	if !ok {
		return of, f, errors.New("not a file of the queue")
	}
	f = dump.File{ID: uint64(of.job), Length: e.Length, Type: e.Type}
	for _, h := range e.Hashes {
		if h.Alg == "sha-256" && len(h.Value) == 2*sha256.Size {
			_, err = hex.Decode(f.SHA256[:], []byte(h.Value))
		}
	}
	if f.SHA256 == ([sha256.Size]byte{}) || e.Length < 0 {
		err = errors.Join(err, errors.New("no digest or length"))
	}
	return of, f, err
}

// culled reports whether a file is of a job that is gone.
func (t *task) culled(loc string) bool {
	f, ok := t.names.file(loc)
	if !ok || f.job == 0 {
		return false
	}
	st, _ := t.q.Status(f.job)
	return st == 0
}

// ship makes a package, puts it in place, and writes its line; from then on
// changedump.xml names it.
func (t *task) ship(p *dump.Package, sp span, pause func() bool) (err error) {
	head := sitemap.Head{Capability: sitemap.ChangeDumpManifest, From: sp.from, Until: sp.until, Links: t.up()}
	if sp.length, sp.sha256, err = t.write(p, head, changePackageFile(sp.first), pause); err != nil {
		return err
	}
	sp.entries = p.Entries
	dir, err := t.dir()
	if err != nil {
		return err
	}
	defer dir.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made.life != t.life {
		return dump.ErrStopped
	}
	if err := t.addLine(dir, &t.packages, sp); err != nil {
		return err
	}
	t.made.packed = sp.last
	return nil
}

// write writes a package and puts it in place under its name.
func (t *task) write(p *dump.Package, head sitemap.Head, name string, pause func() bool) (length int64, sum string, err error) {
	if err := t.needSpace(p.Size()); err != nil {
		return 0, "", err
	}
	dir, err := t.dir()
	if err != nil {
		return 0, "", err
	}
	defer dir.Close()
	out, err := t.p.store.stage()
	if err != nil {
		return 0, "", err
	}
	defer out.discard()
	if length, sum, err = p.Write(out, head, pause); err != nil {
		return 0, "", err
	}
	return length, sum, out.commit(dir, name)
}
