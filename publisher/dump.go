package publisher

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"cutie/queuefs"
	"cutie/sitemap"
)

// A packageError says why a closed list, or a part of it, cannot become a
// package, now or later.
type packageError struct {
	Loc string
	Err error
}

func (e *packageError) Error() string { return e.Loc + ": " + e.Err.Error() }
func (e *packageError) Unwrap() error { return e.Err }

// A bitstream is one file of a package.
type bitstream struct {
	file
	length int64
	sha256 [sha256.Size]byte
	store  bool  // not compressed in the package
	at     int64 // where a job file begins in parcel.texts
}

// A parcel gathers what goes into one package: the manifest, and the job
// files, which may be gone a moment later. Payloads stay where they are.
type parcel struct {
	span
	head    sitemap.Head // of the manifest
	dialect sitemap.Dialect
	lines   *spool // entries of the manifest
	line    []byte // memory for one
	texts   *spool // job files
	streams []bitstream
	octets  int64 // of all bitstreams
}

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
	p, err := t.parcel(next)
	if err != nil {
		return err
	}
	defer func() { p.discard() }()
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
		if p.last != 0 && p.last != seq && p.octets+max(e.Length, 0) > t.p.MaxPackage {
			if err := t.ship(p, pause); err != nil {
				return err
			}
			rest, err := t.parcel(span{first: p.last + 1, from: p.until})
			if err != nil {
				return err
			}
			p.discard()
			p = rest
		}
		if err := t.put(p, &e); err != nil {
			return err
		}
		if p.last, p.until = seq, e.Changed(); !pause() {
			return errStopped
		}
	}
	p.last, p.until = t.list.last, t.list.until
	return t.ship(p, pause)
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

func (t *task) parcel(sp span) (*parcel, error) {
	lines, err := t.p.spool()
	if err != nil {
		return nil, err
	}
	texts, err := t.p.spool()
	if err != nil {
		lines.Close()
		return nil, err
	}
	return &parcel{span: sp, dialect: t.p.Dialect, lines: lines, texts: texts}, nil
}

func (p *parcel) discard() {
	p.lines.Close()
	p.texts.Close()
}

// put adds an entry of the list to the parcel, with its bitstream unless it
// is a deletion. A job file or queue-info.txt that was replaced since is passed
// over, and so are the files of a job that was culled.
func (t *task) put(p *parcel, e *sitemap.Entry) error {
	if e.Change == sitemap.Deleted {
		return p.manifest(e)
	}
	b, err := t.bitstream(e)
	if err != nil {
		return &packageError{e.Loc, err}
	}
	if t.culled(e.Loc) {
		return nil
	}
	if !b.payload {
		if b.status == queuefs.Pending {
			t.ahead(b.job)
		}
		text, facts, err := t.text(b.file)
		switch {
		case err == nil && b.job == 0 && sha256.Sum256(text) != b.sha256:
			return nil // the next event tells of what it is now
		case err == nil && int64(len(text)) == b.length && sha256.Sum256(text) == b.sha256:
		case errors.Is(err, queuefs.ErrNoJob), err == nil && facts.Modified.After(e.Changed()):
			return nil
		case err == nil:
			return &packageError{e.Loc, errors.New("file is not what it was")}
		default:
			return &packageError{e.Loc, err}
		}
		b.at = p.texts.size
		if _, err := p.texts.Write(text); err != nil {
			return err
		}
	}
	e.Path = "/" + p.stream(b)
	return p.manifest(e)
}

// ahead prepares for reading the files of a job, if it is still pending, and of
// those behind it.
func (t *task) ahead(id queuefs.JobID) {
	if page := int(id / queuefs.PageJobs); page != t.page {
		if st, _ := t.q.Status(id); st != queuefs.Pending {
			return
		}
		t.page = page
		t.q.ReadAhead(page)
	}
}

// text returns a job file, or queue-info.txt as it stands.
func (t *task) text(f file) ([]byte, queuefs.Facts, error) {
	if f.job == 0 {
		text, facts := t.q.InfoFile()
		return text, facts, nil
	}
	return t.q.JobFile(f.job, f.status)
}

// stream adds a bitstream and returns its name in the package.
func (p *parcel) stream(b bitstream) string {
	p.streams = append(p.streams, b)
	p.octets += b.length
	return streamName(len(p.streams))
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

func (p *parcel) manifest(e *sitemap.Entry) error {
	p.entries++
	p.line = p.dialect.AppendEntry(p.line[:0], sitemap.URLSet, e)
	_, err := p.lines.Write(p.line)
	return err
}

// streamName returns the name in the package of bitstream n, from 1.
func streamName(n int) string { return "resources/" + fixed(uint64(n), 6) }

// storeLimit is up to where a bitstream that does not shrink is stored as it
// is. A larger one is written before its checksum is known, which many readers
// of ZIP take for compressed files only.
const storeLimit = 1 << 20

// bitstream returns what the package holds for an entry.
func (t *task) bitstream(e *sitemap.Entry) (b bitstream, err error) {
	var ok bool
	if b.file, ok = t.names.file(e.Loc); !ok {
		return b, errors.New("not a file of the queue")
	}
	for _, h := range e.Hashes {
		if h.Alg == "sha-256" && len(h.Value) == 2*sha256.Size {
			_, err = hex.Decode(b.sha256[:], []byte(h.Value))
		}
	}
	if b.sha256 == ([sha256.Size]byte{}) || e.Length < 0 {
		err = errors.Join(err, errors.New("no digest or length"))
	}
	b.length = e.Length
	b.store = stored(e.Length, e.Type)
	return b, err
}

// stored reports whether a bitstream stands in a package as it is.
func stored(length int64, mediaType string) bool {
	return length <= storeLimit && (length < 256 || !compressible(mediaType))
}

// ship makes the package, puts it in place, and writes its line: then, and
// not before, changedump.xml names it.
func (t *task) ship(p *parcel, pause func() bool) error {
	p.head = t.manifestHead(sitemap.Head{Capability: sitemap.ChangeDumpManifest, From: p.from, Until: p.until})
	if err := t.wrap(p, changePackageFile(p.first), pause); err != nil {
		return err
	}
	dir, err := t.dir(t.set, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c.life != t.life {
		return errStopped
	}
	if err := t.c.packages.add(dir, t.p.stamp(), p.span); err != nil {
		if errors.Is(err, queuefs.ErrFailed) {
			return t.p.fail(err)
		}
		return err
	}
	t.c.dumped = p.last
	return nil
}

// manifestHead adds its links to the head of a manifest.
func (t *task) manifestHead(h sitemap.Head) sitemap.Head {
	h.Links = []sitemap.Link{{Rel: sitemap.RelUp, Href: t.names.docs[t.set] + docName{kind: capabilityList}.String()}}
	return h
}

// wrap makes the package of a parcel and puts it in place under its name.
func (t *task) wrap(p *parcel, name string, pause func() bool) error {
	if err := t.room(p.octets+p.lines.size+int64(len(p.streams))*zipEntry, p.lines.size+p.texts.size); err != nil {
		return err
	}
	dir, err := t.dir(t.set, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	out, err := t.p.draft()
	if err != nil {
		return err
	}
	defer out.discard()
	sum := sha256.New()
	w := &counter{w: io.MultiWriter(out, sum)}
	if err := t.zip(w, p, pause); err != nil {
		return err
	}
	p.length, p.sha256 = w.n, hex.EncodeToString(sum.Sum(nil))
	return out.place(dir, name)
}

// openPayload opens the payload of a bitstream.
func (t *task) openPayload(b *bitstream) (io.ReadCloser, error) {
	loc := t.names.paths + b.job.String()
	r, err := t.q.Payload(b.job)
	if err != nil {
		return nil, &packageError{loc, err}
	}
	if r.Size() != b.length {
		r.Close()
		return nil, &packageError{loc, fmt.Errorf("%d octets, not %d", r.Size(), b.length)}
	}
	return r, nil
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

// A spool is a file without a name, written once and read anywhere.
type spool struct {
	f    *os.File
	w    *bufio.Writer
	size int64
}

func (p *Publisher) spool() (*spool, error) {
	root := p.root()
	f, name, err := root.Temp()
	if err != nil {
		return nil, err
	}
	if err := root.Remove(name); err != nil {
		f.Close()
		return nil, err
	}
	return &spool{f: f, w: bufio.NewWriterSize(f, 64<<10)}, nil
}

func (s *spool) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.size += int64(n)
	return n, err
}

// section returns a reader of n octets from off on. Nothing is written after.
func (s *spool) section(off, n int64) (io.Reader, error) {
	if err := s.w.Flush(); err != nil {
		return nil, err
	}
	return io.NewSectionReader(s.f, off, n), nil
}

func (s *spool) Close() error { return s.f.Close() }
