package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"cutie/publisher/dump"
	"cutie/queuefs"
	"cutie/sitemap"
)

// A Resource Dump is made by one task. It names again the packages of pages no
// event has touched since the last dump, and makes the others under new names.
// Its file is written when all packages are in place; from that instant on
// resourcedump.xml is this dump. The next sweep removes what an unfinished task
// leaves.

// outdated reports whether a document may show something newer than a Resource
// Dump, or than the creation of the queue if last is nil. mu is held.
func (s *set) outdated(last *edition) bool {
	if last == nil {
		return s.mark.at.After(s.created())
	}
	return last.seq < s.q.Seq() && s.mark.at.After(last.at)
}

// due reports whether a Resource Dump is to be made: never before the first
// change, never while the last one is true, and by itself once in a period. mu
// is held.
func (s *set) due() bool {
	last, m := s.current(), &s.made
	if !s.outdated(last) {
		m.wanted = 0
		return false
	}
	if last != nil && last.seq >= m.wanted { // else it was begun before it was wanted
		m.wanted = 0
	}
	if m.wanted > 0 || s.p.DumpPeriod == 0 {
		return m.wanted > 0
	}
	since := m.tried
	if last != nil && last.made.After(since) {
		since = last.made
	}
	return since.IsZero() || s.p.Now().Sub(since) >= s.p.DumpPeriod
}

// makeDump makes a Resource Dump.
func (t *task) makeDump(pause func() bool) error {
	st := t.q.State()
	d := &edition{seq: st.Seq, at: t.orCreated(st.LastEvent)}
	t.mu.Lock()
	last := t.current()
	t.mu.Unlock()
	dir, err := t.makeDir()
	if err != nil {
		return err
	}
	defer dir.Close()
	for page, pages := 0, max(1, t.q.Pages()); page < pages; {
		end := (page/t.pages + 1) * t.pages
		l := listing{set: t.set, lo: page, hi: end}
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
	text := d.append(nil, t.p.stamp())
	d.sum = salt(string(text))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made.life != t.life {
		return dump.ErrStopped
	}
	if err := sealed(dir, dumpFile(d.seq), dumpTitle).Write(text); err != nil {
		return err
	}
	t.dumps = append(slices.Clip(t.dumps), d)
	t.made.unswept = true
	return nil
}

// untouched returns the package of the last dump that begins with a page, if
// its pages have not changed since.
func (t *task) untouched(last *edition, page, end int) (portion, bool) {
	if last == nil {
		return portion{}, false
	}
	for _, p := range last.packages {
		if p.page != page+1 || p.end > end || !p.completed.IsZero() {
			continue // one of several instants may lack an event before its last one
		}
		l := listing{set: t.set, lo: page, hi: p.end}
		version, _, _ := l.latest()
		return p, version == p.version && infoSum(l.info()) == p.info
	}
	return portion{}, false
}

// infoSum returns the digest of queue-info.txt, "-" without it.
func infoSum(facts *queuefs.Facts) string {
	if facts == nil {
		return "-"
	}
	return hex.EncodeToString(facts.SHA256[:])
}

// packPages makes a package of engine pages, from page up to end or to where the
// files become too many bytes. Without entries there is no package.
func (t *task) packPages(seq queuefs.Seq, page, end int, pause func() bool) (portion, error) {
	out := portion{page: page + 1, end: end, dump: seq, info: "-"}
	pkg, err := t.newPackage()
	if err != nil {
		return out, err
	}
	defer pkg.Close()
	g := gathering{task: t, Package: pkg, render: t.renderer()}
	if t.kind == Replica && page == 0 {
		text, facts := t.q.InfoFile()
		g.render.buildInfo(&facts)
		if out.info, err = infoSum(&facts), g.AddText(&g.render.entry, packedFile(0, &facts), text); err != nil {
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
		if i > page && pkg.Octets+t.bytesOf(entries) > t.p.MaxPackage {
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
		// Of several instants: it has all changes up to before, and maybe later
		// ones.
		out.at, out.completed = before, t.orCreated(t.q.State().LastEvent)
	}
	if out.entries = pkg.Entries; out.entries == 0 {
		return out, nil
	}
	head := sitemap.Head{Capability: sitemap.ResourceDumpManifest, At: out.at, Completed: out.completed, Links: t.up()}
	out.length, out.sha256, err = t.write(pkg, head, out.name().String(), pause)
	return out, err
}

// steady reports whether no event has touched the pages since they were read:
// then all are of one instant.
func (t *task) steady(page, end int, versions []queuefs.Seq) bool {
	for i := page; i < end; i++ {
		version, _, _, _ := t.q.PageVersion(i)
		if n := i - page; n < len(versions) && version != versions[n] || n >= len(versions) && version != 0 {
			return false
		}
	}
	return true
}

// bytesOf returns the length of the files of jobs.
func (t *task) bytesOf(entries []queuefs.Entry) (n int64) {
	for i := range entries {
		switch e := &entries[i]; {
		case t.kind == Replica:
			n += e.Payload.Length + e.File.Length
		case e.Status == queuefs.Pending:
			n += e.Payload.Length
		}
	}
	return n
}

// A gathering puts the resources of a set into a package.
type gathering struct {
	*task
	*dump.Package
	render renderer
}

// job adds the files of a job as its page had it at a version. A job file that
// is gone is left out if an event has touched the page since: the changes after
// the package lead to what is there now.
func (g *gathering) job(page int, version queuefs.Seq, e *queuefs.Entry) error {
	if g.kind == Pending && e.Status != queuefs.Pending {
		return nil
	}
	g.render.build(g.names.payload(g.kind, e))
	if err := g.AddFile(&g.render.entry, packedFile(e.Job, &e.Payload)); err != nil || g.kind == Pending {
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
	return g.AddText(&g.render.entry, packedFile(e.Job, &e.File), text)
}

// packedFile returns a file of a job as it stands in a package.
func packedFile(id queuefs.JobID, facts *queuefs.Facts) dump.File {
	return dump.File{ID: uint64(id), Length: facts.Length, SHA256: facts.SHA256, Type: facts.Type}
}
