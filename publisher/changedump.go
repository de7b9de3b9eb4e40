package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"cutie/publisher/dump"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// newPackage returns an empty package for files of the queue.
func (t *task) newPackage() (*dump.Package, error) {
	p, err := dump.New(t.p.store.Root())
	if err != nil {
		return nil, err
	}
	p.Dialect = t.p.Dialect
	p.Loc, p.Open = t.packedLoc, t.openPacked
	return p, nil
}

// packChanges makes the missing packages of the list. It divides
// the list between two events where the files become too many bytes.
func (t *task) packChanges(pause func() bool) error {
	file, err := t.entriesOf(t.list.First, t.list.Length)
	if err != nil {
		return err
	}
	defer file.Close()
	r := sitemap.NewLines(io.NewSectionReader(file, 0, t.list.Length))
	next := store.Span{First: t.list.First, From: t.list.From}
	t.mu.Lock()
	last := t.Packages.Last()
	t.mu.Unlock()
	if last.Last >= next.First {
		next = store.Span{First: last.Last + 1, From: last.Until}
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
			return store.Damaged("%s: %w", file.Name(), err)
		}
		seq := queuefs.Seq(e.Seq)
		if seq < next.First {
			continue
		}
		if next.Last != 0 && next.Last != seq && pkg.Octets+max(e.Length, 0) > t.p.MaxPackage {
			if err := t.ship(pkg, next, pause); err != nil {
				return err
			}
			next = store.Span{First: next.Last + 1, From: next.Until}
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
		if next.Last, next.Until = seq, e.Changed(); !pause() {
			return dump.ErrStopped
		}
	}
	next.Last, next.Until = t.list.Last, t.list.Until
	return t.ship(pkg, next, pause)
}

// addChange adds an entry of the list to a package, with its file unless it is a
// deletion. It leaves out a job file or queue-info.txt replaced since, and the
// files of a culled job.
func (t *task) addChange(p *dump.Package, e *sitemap.Entry) error {
	t.lasting(e)
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
	if of.Payload {
		return p.AddFile(e, f)
	}
	if of.Result != "" {
		if err = t.addResult(p, e, of.Job, &queuefs.Result{Name: of.Result, Size: f.Length, SHA256: f.SHA256}); errors.Is(err, errReplaced) {
			return nil // a later event removes it
		}
		return err
	}
	var text []byte
	var facts queuefs.Facts
	if of.Job == 0 {
		text, facts = t.q.InfoFile()
	} else {
		text, facts, err = t.q.JobFile(of.Job, of.Status)
	}
	same := sha256.Sum256(text) == f.SHA256
	switch {
	case err == nil && same && int64(len(text)) == f.Length:
		return p.AddText(e, f, text)
	case errors.Is(err, queuefs.ErrNoJob), err == nil && facts.Modified.After(e.Changed()), of.Job == 0 && !same:
		return nil // the next event has its new state
	case err == nil:
		err = errors.New("file is not what it was")
	}
	return &dump.FileError{Loc: e.Loc, Err: err}
}

// lasting makes the entry of a payload in a manifest one that holds later, too: the
// job is described by its state, since its job file moves with each change.
func (s *set) lasting(e *sitemap.Entry) {
	for i := range e.Links {
		if l := &e.Links[i]; l.Rel == sitemap.RelDescribedBy {
			if of, ok := s.refs.File(l.Href); ok && of.Job != 0 {
				l.Href = s.refs.States + of.Job.String()
			}
		}
	}
}

// packed returns the file of an entry, as it stands in a package.
func (t *task) packed(e *sitemap.Entry) (of names.File, f dump.File, err error) {
	of, ok := t.refs.File(e.Loc)
	if !ok {
		return of, f, errors.New("not a file of the queue")
	}
	f = dump.File{ID: uint64(of.Job), Length: e.Length, Type: e.Type}
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

// culled reports whether the job of a file is gone.
func (t *task) culled(loc string) bool {
	f, ok := t.refs.File(loc)
	if !ok || f.Job == 0 {
		return false
	}
	st, _ := t.q.Status(f.Job)
	return st == 0
}

// ship makes a package, puts it in place, and writes its line; from then on
// changedump.xml names it.
func (t *task) ship(p *dump.Package, sp store.Span, pause func() bool) (err error) {
	head := sitemap.Head{Capability: sitemap.ChangeDumpManifest, From: sp.From, Until: sp.Until, Links: t.up()}
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
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made.life != t.life {
		return dump.ErrStopped
	}
	if err := t.final(t.Packages.Add(t.p.store, dir, sp)); err != nil {
		return err
	}
	t.made.packed = sp.Last
	return nil
}

// write writes a package and puts it in place under its name, unless accept is not nil
// and returns an error.
func (t *task) write(p *dump.Package, head sitemap.Head, name string, pause func() bool, accept func(int64, [sha256.Size]byte) error) (length int64, sum string, err error) {
	if err := t.needSpace(p.Size()); err != nil {
		return 0, "", err
	}
	dir, err := t.dir()
	if err != nil {
		return 0, "", err
	}
	defer dir.Close()
	out, err := t.p.store.Temp()
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
	t.p.store.Verified.Trust(out.File, [sha256.Size]byte(digest))
	return length, sum, nil
}

// adopt returns the line of a package that is in place without one, if the package is
// whole and has the events of sp.
func (t *task) adopt(sp store.Span) (store.Span, bool) {
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
