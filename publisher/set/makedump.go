package set

import (
	"cutie/publisher/names"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/sitemap"
	"slices"
)

// A Resource Dump is made by one task. It names again the packages of pages no
// event has touched since the last dump, and makes the others under new names.
// Its file is written when all packages are in place; from that instant on
// resourcedump.xml is this dump. The next sweep removes the files of an unfinished
// task.

// outdated reports whether a document may show something newer than a Resource
// Dump, or than the creation of the queue if last is nil. mu is held.
func (s *Set) outdated(last *Edition) bool {
	if last == nil {
		return s.at.Until.After(s.Created())
	}
	return last.Seq < s.Queue.Seq() && s.at.Until.After(last.At)
}

// due reports whether a Resource Dump is to be made: never before the first
// change, never while the last one is true, and by itself once in a period or if
// the last one is far behind. mu is held.
func (s *Set) due() bool {
	last, m, period := s.files.Dump(0), &s.made, s.Terms().DumpPeriod
	if !s.hasDumps() || !s.outdated(last) {
		m.wanted = 0
		return false
	}
	if last != nil && last.Seq >= m.wanted { // else it was begun before it was wanted
		m.wanted = 0
	}
	switch {
	case m.wanted > 0, last != nil && m.dump.passed == nil && s.stranded(last):
		return true
	case period == 0:
		return false
	case last != nil && m.dump.passed == nil && s.farBehind(last):
		return true
	}
	since := m.tried
	if last != nil && last.Made.After(since) {
		since = last.Made
	}
	// A dump made later than now is one from before the clock was set back.
	now := s.Now()
	return since.IsZero() || since.After(now) || now.Sub(since) >= period
}

// stranded reports whether the Change List Index does not reach back to a Resource
// Dump: there is a gap between, or too many lists. mu is held.
func (s *Set) stranded(d *Edition) bool {
	first := s.at.First
	if lists := s.indexed(); len(lists) > 0 {
		first = lists[0].First
	}
	return first > d.Seq+1
}

// farBehind reports whether the closed lists have more changes since a Resource Dump
// than a document takes, and twice as many as the dump has resources. So dumps cost
// a share of what the changes cost. mu is held.
func (s *Set) farBehind(d *Edition) bool {
	changes, resources := 0, 0
	for i := len(s.files.Lists) - 1; i >= 0 && s.files.Lists[i].Last > d.Seq; i-- {
		changes += s.files.Lists[i].Entries
	}
	if changes <= s.MaxEntries {
		return false
	}
	for i := range d.Packages {
		resources += d.Packages[i].Entries
	}
	return changes > 2*resources
}

// makeDump makes a Resource Dump.
func (t *Task) makeDump(pause func() bool) error {
	st := t.Queue.State()
	d := &Edition{Seq: st.Seq, At: t.OrCreated(st.LastEvent)}
	t.mu.Lock()
	last := t.files.Dump(0)
	t.mu.Unlock()
	dir, err := t.makeDir()
	if err != nil {
		return err
	}
	defer dir.Close()
	for page, pages := 0, max(1, t.Queue.Pages()); page < pages; {
		end := (page/t.PerPage + 1) * t.PerPage
		of := t.Between(page, end, false)
		if _, _, entries := of.Latest(); entries == 0 && t.Info(page) == nil {
			page = end
			continue
		}
		p, ok := t.untouched(last, page, end)
		if !ok {
			if p, err = t.packPages(d.Seq, page, end, pause); err != nil {
				return err
			}
		}
		if p.Entries > 0 {
			d.Packages = append(d.Packages, p)
		}
		page = p.End
	}
	d.Made = t.Now().UTC()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made.life != t.life {
		return ErrStopped
	}
	d.Seal()
	files := t.files
	files.Dumps = append(slices.Clip(files.Dumps), d)
	if err := t.Set.write(dir, files); err != nil {
		return err
	}
	t.made.unswept = true
	return nil
}

// untouched returns the package of the last dump from a page on, if its pages have
// not changed since.
func (t *Task) untouched(last *Edition, page, end int) (Portion, bool) {
	if last == nil {
		return Portion{}, false
	}
	for _, p := range last.Packages {
		if p.Page != page+1 || p.End > end || !p.Completed.IsZero() {
			continue // one of several instants may lack an event before its last one
		}
		of := t.Between(page, p.End, false)
		version, _, _ := of.Latest()
		return p, version == p.Version && infoSum(t.Info(page)) == p.Info
	}
	return Portion{}, false
}

// packPages makes a package of engine pages, from page up to end or to where the
// files become too many bytes. Without entries there is no package.
func (t *Task) packPages(seq job.Seq, page, end int, pause func() bool) (Portion, error) {
	out := Portion{Page: page + 1, End: end, Dump: seq, Info: "-"}
	var sp Span
	err := t.make(&sp, out.File(), pause, func(pkg *packer) (sitemap.Head, error) {
		err := t.addPages(pkg, &out, page, end)
		return sitemap.Head{Capability: sitemap.ResourceDumpManifest, At: out.At, Completed: out.Completed, Links: t.Up()}, err
	})
	out.Entries, out.Length, out.SHA256 = sp.Entries, sp.Length, sp.SHA256
	return out, err
}

// addPages adds the files of engine pages to a package.
func (t *Task) addPages(pkg *packer, out *Portion, page, end int) error {
	if t.Kind == names.Replica && page == 0 {
		text, facts := t.Queue.InfoFile()
		out.Info = infoSum(&facts)
		if err := pkg.info(text, &facts); err != nil {
			return err
		}
	}
	before := t.OrCreated(t.Queue.State().LastEvent)
	var versions []job.Seq
	var jobs []ledger.Entry
	for i := page; i < min(end, t.Queue.Pages()); i++ {
		var version job.Seq
		var at = out.At
		jobs, version, at = t.Queue.Page(i, jobs[:0])
		if t.Kind == names.Replica {
			t.Queue.AddResults(jobs)
		}
		if octets, files := pkg.sizeOf(jobs); i > page && (pkg.Octets+octets > t.MaxPackage || pkg.Entries+files > t.MaxEntries) {
			out.End = i
			break
		}
		versions = append(versions, version)
		if version > out.Version {
			out.Version, out.At = version, at
		}
		for j := range jobs {
			if err := pkg.job(i, version, &jobs[j]); err != nil {
				return err
			}
		}
	}
	if out.At = t.OrCreated(out.At); !t.steady(page, out.End, versions) {
		// Of several instants: it has all changes up to before, and maybe later
		// ones.
		out.At, out.Completed = before, t.OrCreated(t.Queue.State().LastEvent)
	}
	return nil
}

// steady reports whether no event has touched the pages since they were read:
// then all are of one instant.
func (t *Task) steady(page, end int, versions []job.Seq) bool {
	for i := page; i < end; i++ {
		version, _, _, _ := t.Queue.PageVersion(i)
		if n := i - page; n < len(versions) && version != versions[n] || n >= len(versions) && version != 0 {
			return false
		}
	}
	return true
}
