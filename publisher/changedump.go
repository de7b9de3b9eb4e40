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

// pack makes the packages of the list that are not there yet. The list is cut
// between two events where bitstreams become too many octets.
func (t *task) pack(pause func() bool) error {
	entries, err := t.open(t.set, entriesFile(t.list.first))
	if err != nil {
		return err
	}
	defer entries.Close()
	r := sitemap.NewLines(io.NewSectionReader(entries, 0, t.list.length))
	next := span{first: t.list.first, from: t.list.from}
	if last, ok := t.packed(); ok && last.last >= next.first {
		next = span{first: last.last + 1, from: last.until}
	}
	p, err := t.newPackage()
	if err != nil {
		return err
	}
	defer func() { p.Close() }()
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
		if next.last != 0 && next.last != seq && p.Octets+max(e.Length, 0) > t.p.MaxPackage {
			if err := t.ship(p, next, pause); err != nil {
				return err
			}
			next = span{first: next.last + 1, from: next.until}
			rest, err := t.newPackage()
			if err != nil {
				return err
			}
			p.Close()
			p = rest
		}
		if err := t.put(p, &e); err != nil {
			return err
		}
		if next.last, next.until = seq, e.Changed(); !pause() {
			return dump.ErrStopped
		}
	}
	next.last, next.until = t.list.last, t.list.until
	return t.ship(p, next, pause)
}

// packed returns the last package of the set.
func (t *task) packed() (last span, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.c.packages.all); n > 0 {
		return t.c.packages.all[n-1], true
	}
	return span{}, false
}

// newPackage returns an empty package.
func (t *task) newPackage() (*dump.Package, error) {
	p, err := dump.New(t.p.root())
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

// put adds an entry of the list to the parcel, with its bitstream unless it
// is a deletion. A job file or queue-info.txt that was replaced since is passed
// over, and so are the files of a job that was culled.
func (t *task) put(p *dump.Package, e *sitemap.Entry) error {
	if e.Change == sitemap.Deleted {
		return p.Add(e)
	}
	of, f, err := t.fileOf(e)
	if err != nil {
		return &dump.FileError{Loc: e.Loc, Err: err}
	}
	if t.culled(e.Loc) {
		return nil
	}
	if of.payload {
		return p.AddFile(e, f)
	}
	text, facts, err := t.text(of)
	switch {
	case err == nil && of.job == 0 && sha256.Sum256(text) != f.SHA256:
		return nil // the next event tells of what it is now
	case err == nil && int64(len(text)) == f.Length && sha256.Sum256(text) == f.SHA256:
		return p.AddText(e, f, text)
	case errors.Is(err, queuefs.ErrNoJob), err == nil && facts.Modified.After(e.Changed()):
		return nil
	case err == nil:
		err = errors.New("file is not what it was")
	}
	return &dump.FileError{Loc: e.Loc, Err: err}
}

// text returns a job file, or queue-info.txt as it stands.
func (t *task) text(f file) ([]byte, queuefs.Facts, error) {
	if f.job == 0 {
		text, facts := t.q.InfoFile()
		return text, facts, nil
	}
	return t.q.JobFile(f.job, f.status)
}

// culled reports whether a file is of a job that is no longer there.
func (t *task) culled(loc string) bool {
	f, ok := t.names.file(loc)
	if !ok || f.job == 0 {
		return false
	}
	st, _ := t.q.Status(f.job)
	return st == 0
}

// fileOf returns the file of an entry, and how it stands in a package.
func (t *task) fileOf(e *sitemap.Entry) (of file, f dump.File, err error) {
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

// ship makes the package, puts it in place, and writes its line: then, and
// not before, changedump.xml names it.
func (t *task) ship(p *dump.Package, sp span, pause func() bool) (err error) {
	head := t.manifestHead(sitemap.Head{Capability: sitemap.ChangeDumpManifest, From: sp.from, Until: sp.until})
	if sp.length, sp.sha256, err = t.wrap(p, head, changePackageFile(sp.first), pause); err != nil {
		return err
	}
	sp.entries = p.Entries
	dir, err := t.dir(t.set, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c.life != t.life {
		return dump.ErrStopped
	}
	if err := t.c.packages.add(dir, t.p.stamp(), sp); err != nil {
		if errors.Is(err, queuefs.ErrFailed) {
			return t.p.fail(err)
		}
		return err
	}
	t.c.dumped = sp.last
	return nil
}

// manifestHead adds its links to the head of a manifest.
func (t *task) manifestHead(h sitemap.Head) sitemap.Head {
	h.Links = []sitemap.Link{{Rel: sitemap.RelUp, Href: t.names.docs[t.set] + docName{kind: capabilityList}.String()}}
	return h
}

// wrap makes a package and puts it in place under its name.
func (t *task) wrap(p *dump.Package, head sitemap.Head, name string, pause func() bool) (length int64, sum string, err error) {
	if err := t.room(p.Size()); err != nil {
		return 0, "", err
	}
	dir, err := t.dir(t.set, false)
	if err != nil {
		return 0, "", err
	}
	defer dir.Close()
	out, err := t.p.draft()
	if err != nil {
		return 0, "", err
	}
	defer out.discard()
	if length, sum, err = p.Write(out, head, pause); err != nil {
		return 0, "", err
	}
	return length, sum, out.place(dir, name)
}

// changePackage returns a package in place.
func (f *feed) changePackage(s Set, first queuefs.Seq) (*resource, error) {
	f.mu.Lock()
	sp, ok := f.sets[s].packages.find(first)
	f.mu.Unlock()
	if !ok {
		return nil, errNotFound
	}
	return f.packaged(s, docName{kind: changePackage, n: uint64(first)}, sp, changePackageFile(first)), nil
}

// changeManifest returns the copy of a package's manifest.
func (f *feed) changeManifest(s Set, doc docName) *resource {
	f.mu.Lock()
	sp, ok := f.sets[s].packages.find(queuefs.Seq(doc.n))
	f.mu.Unlock()
	if !ok {
		return nil
	}
	return f.packaged(s, doc, sp, changePackageFile(sp.first))
}
