package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"cutie/publisher/dump"
	"cutie/queuefs"
	"cutie/sitemap"
)

// A Resource Dump is made in one task. Packages of pages that no event has
// touched since the last dump are named again; the others are made anew under
// new names. The file of the dump is written when all packages are in place:
// that is the instant from which resourcedump.xml is this dump. What a task
// leaves behind that ends before is removed by the next sweep.

// outdated reports whether a document may tell of something that came after a
// Resource Dump, or, without one, at all; f.mu is held.
func (f *feed) outdated(c *changes, last *edition) bool {
	if last == nil {
		return c.mark.at.After(f.orCreated(time.Time{}))
	}
	return last.seq < f.q.Seq() && c.mark.at.After(last.at)
}

// due reports whether a Resource Dump is to be made; f.mu is held. There is
// none before the first change, and none where the last one is still true. In
// a period each page is packed once at most, however busy it is.
func (f *feed) due(c *changes) bool {
	last := c.current()
	if !f.outdated(c, last) {
		c.wanted = 0
		return false
	}
	if last != nil && last.seq >= c.wanted { // else it was begun before it was wanted
		c.wanted = 0
	}
	if c.wanted > 0 || f.p.DumpPeriod == 0 {
		return c.wanted > 0
	}
	since := c.tried
	if last != nil && last.made.After(since) {
		since = last.made
	}
	return since.IsZero() || f.p.Now().Sub(since) >= f.p.DumpPeriod
}

// makeDump makes a Resource Dump.
func (t *task) makeDump(pause func() bool) error {
	st := t.q.State()
	d := &edition{seq: st.Seq, at: t.orCreated(st.LastEvent)}
	t.mu.Lock()
	last := t.c.current()
	t.mu.Unlock()
	dir, err := t.dir(t.set, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	for page, pages := 0, max(1, t.q.Pages()); page < pages; {
		end := (page/t.pages[t.set] + 1) * t.pages[t.set]
		l := listing{feed: t.feed, set: t.set, lo: page, hi: end}
		if _, _, entries := l.latest(); entries == 0 && l.info() == nil {
			page = end
			continue
		}
		p, ok := t.untouched(last, page, end)
		if !ok {
			if p, err = t.packPages(d.seq, page, end, pause); err != nil {
				return err
			}
		}
		if p.entries > 0 {
			d.packages = append(d.packages, p)
		}
		page = p.end
	}
	d.made = t.p.Now().UTC()
	return t.record(d)
}

// untouched returns the package that the last dump has of the pages from page
// on, if they are still as it has them.
func (t *task) untouched(last *edition, page, end int) (portion, bool) {
	if last == nil {
		return portion{}, false
	}
	for _, p := range last.packages {
		if p.page != page+1 || p.end > end || !p.completed.IsZero() {
			continue // one of several instants may lack an event before its last one
		}
		l := listing{feed: t.feed, set: t.set, lo: page, hi: p.end}
		version, _, _ := l.latest()
		return p, version == p.version && l.infoSum() == p.info
	}
	return portion{}, false
}

// infoSum returns the digest of queue-info.txt if the listing has it, else "-".
func (l *listing) infoSum() string {
	if facts := l.info(); facts != nil {
		return hex.EncodeToString(facts.SHA256[:])
	}
	return "-"
}

// packPages makes a package of the pages of the engine from page on, up to end
// or to where bitstreams become too many octets. The portion has no entries if
// there is nothing on these pages, and then no package either.
func (t *task) packPages(seq queuefs.Seq, page, end int, pause func() bool) (portion, error) {
	out := portion{page: page + 1, end: end, dump: seq, info: "-"}
	pkg, err := t.newPackage()
	if err != nil {
		return out, err
	}
	defer pkg.Close()
	g := gathering{task: t, Package: pkg, render: t.renderer()}
	if t.set == Replica && page == 0 {
		if out.info, err = g.info(); err != nil {
			return out, err
		}
	}
	before := t.orCreated(t.q.State().LastEvent)
	var versions []queuefs.Seq
	var entries []queuefs.Entry
	for i := page; i < min(end, t.q.Pages()); i++ {
		var version queuefs.Seq
		var at = out.at
		entries, version, at = t.q.Page(i, entries[:0])
		if i > page && pkg.Octets+t.octets(entries) > t.p.MaxPackage {
			out.end = i
			break
		}
		versions = append(versions, version)
		if version > out.version {
			out.version, out.at = version, at
		}
		for j := range entries {
			if err := g.job(i, version, &entries[j]); err != nil {
				return out, err
			}
			if j%64 == 0 && !pause() {
				return out, dump.ErrStopped
			}
		}
	}
	if out.at = t.orCreated(out.at); !t.steady(page, out.end, versions) {
		// Of several instants: it has the changes up to before, and maybe
		// later ones.
		out.at, out.completed = before, t.orCreated(t.q.State().LastEvent)
	}
	if out.entries = pkg.Entries; out.entries == 0 {
		return out, nil
	}
	head := t.manifestHead(sitemap.Head{Capability: sitemap.ResourceDumpManifest, At: out.at, Completed: out.completed})
	out.length, out.sha256, err = t.wrap(pkg, head, out.name().String(), pause)
	return out, err
}

// steady reports whether no event has touched the pages since they were read:
// then all of them are of one instant.
func (t *task) steady(page, end int, versions []queuefs.Seq) bool {
	for i := page; i < end; i++ {
		version, _, _, _ := t.q.PageVersion(i)
		if n := i - page; n < len(versions) && version != versions[n] || n >= len(versions) && version != 0 {
			return false
		}
	}
	return true
}

// octets returns how much the files of the jobs are.
func (t *task) octets(entries []queuefs.Entry) (n int64) {
	for i := range entries {
		switch e := &entries[i]; {
		case t.set == Replica:
			n += e.Payload.Length + e.File.Length
		case e.Status == queuefs.Pending:
			n += e.Payload.Length
		}
	}
	return n
}

// A gathering puts the resources of a set into a package, as the Resource List
// has them.
type gathering struct {
	*task
	*dump.Package
	render renderer
}

// job adds the files of a job as its page had it at a version. A job file that
// is no longer there is left out if an event has touched the page since: the
// changes after the package's at lead to what is there now.
func (g *gathering) job(page int, version queuefs.Seq, e *queuefs.Entry) error {
	if g.set == Pending && e.Status != queuefs.Pending {
		return nil
	}
	g.render.build(g.names.payload(g.set, e))
	if err := g.AddFile(&g.render.entry, fileOf(e.Job, &e.Payload)); err != nil || g.set == Pending {
		return err
	}
	g.render.build(g.names.jobFile(e))
	text, _, err := g.q.JobFile(e.Job, e.Status)
	if err == nil && sha256.Sum256(text) != e.File.SHA256 {
		err = errors.New("file is not what it was")
	}
	if err != nil {
		if now, _, _, _ := g.q.PageVersion(page); now != version {
			return nil
		}
		return &dump.FileError{Loc: g.render.entry.Loc, Err: err}
	}
	return g.AddText(&g.render.entry, fileOf(e.Job, &e.File), text)
}

// info adds queue-info.txt and returns its digest.
func (g *gathering) info() (string, error) {
	text, facts := g.q.InfoFile()
	g.render.buildInfo(&facts)
	return hex.EncodeToString(facts.SHA256[:]), g.AddText(&g.render.entry, fileOf(0, &facts), text)
}

// fileOf returns how a file of a job stands in a package.
func fileOf(id queuefs.JobID, facts *queuefs.Facts) dump.File {
	return dump.File{ID: uint64(id), Length: facts.Length, SHA256: facts.SHA256, Type: facts.Type}
}

// record writes the file of a dump, which makes it the current one.
func (t *task) record(d *edition) error {
	dir, err := t.dir(t.set, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	out, err := t.p.draft()
	if err != nil {
		return err
	}
	defer out.discard()
	text := d.append(nil, t.p.stamp())
	if _, err := out.Write(text); err != nil {
		return err
	}
	d.sum = salt(string(text))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c.life != t.life {
		return dump.ErrStopped
	}
	if err := out.place(dir, dumpFile(d.seq)); err != nil {
		return err
	}
	t.c.kept = append(slices.Clip(t.c.kept), d)
	t.c.unswept = true
	return nil
}

// ended settles a task that made a Resource Dump, or did not; passed is why it
// is not made. f.mu is held.
func (t *task) ended() (passed, err error) {
	t.c.making = false
	var e *dump.FileError
	switch {
	case t.err == nil:
	case errors.Is(t.err, dump.ErrStopped), errors.As(t.err, &e) && t.culled(e.Loc):
		return nil, dump.ErrStopped
	case errors.As(t.err, &e):
		passed = fmt.Errorf("no Resource Dump after event %d: %w", t.q.Seq(), t.err)
		t.p.report(t.q.ID()+"/"+t.set.String(), "%v", passed)
	default:
		if err := t.mend(t.c, t.err); err != nil {
			return nil, fmt.Errorf("queue %s: %s: Resource Dump: %w", t.q.ID(), t.set, err)
		}
	}
	if t.c.tried = t.p.Now(); t.err != nil {
		t.c.wanted = 0
	}
	return passed, nil
}
