package publisher_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
	"cutie/testdata/long"
)

// archived returns the entries of the archive that the Capability List names,
// of all its parts, nil if it names none.
func (m *mirror) archived(c sitemap.Capability) (entries []sitemap.Entry) {
	m.Helper()
	for _, e := range m.document(m.list).entries {
		if e.Capability != c {
			continue
		}
		d := m.document(e.Loc)
		if d.head.Capability != c || d.head.Link(sitemap.RelUp) != m.list {
			m.Errorf("%s: %+v", e.Loc, d.head)
		}
		if d.root == sitemap.URLSet {
			return d.entries
		}
		for _, part := range d.entries {
			p := m.document(part.Loc)
			if p.head.Link(sitemap.RelIndex) != e.Loc {
				m.Errorf("%s: index is %q", part.Loc, p.head.Link(sitemap.RelIndex))
			}
			entries = append(entries, p.entries...)
		}
	}
	return entries
}

// lists returns the entries of all Change Lists, those in the archive first.
func (m *mirror) lists() []sitemap.Entry {
	m.Helper()
	return append(m.archived(sitemap.ChangeListArchive), m.capability(sitemap.ChangeList).entries...)
}

// packages returns the entries of all packages of changes, those in the archive
// first.
func (m *mirror) packages() (all []sitemap.Entry) {
	m.Helper()
	for _, e := range m.archived(sitemap.ChangeDumpArchive) {
		all = append(all, m.document(e.Loc).entries...)
	}
	return append(all, m.capability(sitemap.ChangeDump).entries...)
}

// everything follows each reference that a set has, down to packages, and
// returns what was found, by URL. All of it must be there.
func everything(s *source, set string) map[string]document {
	s.Helper()
	m := newMirror(s, "jobs", set)
	found := map[string]document{}
	var follow func(url string)
	follow = func(url string) {
		if _, ok := found[url]; ok || !strings.Contains(url, "/jobs/"+set+"/") {
			return
		}
		if strings.HasSuffix(url, ".zip") {
			found[url] = document{octets: s.body(url)}
			return
		}
		d := s.document(url)
		found[url] = d
		for _, l := range d.head.Links {
			if l.Rel != sitemap.RelDescribedBy {
				follow(l.Href)
			}
		}
		if strings.HasSuffix(url, "-manifest.xml") || d.head.Capability == sitemap.ResourceList && d.root == sitemap.URLSet ||
			d.head.Capability == sitemap.ChangeList && d.root == sitemap.URLSet {
			return // what they name are resources
		}
		for _, e := range d.entries {
			follow(e.Loc)
			for _, l := range e.Links {
				follow(l.Href)
			}
		}
	}
	follow(m.list)
	return found
}

func TestArchivesHaveWhatIsNoLongerCurrent(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	now := time.Now()
	s := newSource(t, publisher.Options{MaxEntries: 8, Retention: publisher.Retention{Current: time.Hour, Keep: 3 * time.Hour},
		Now: func() time.Time { return now }}, "jobs")
	s.now = func() time.Time { return now }
	s.reopen()
	q := s.queue("jobs")
	for _, set := range []string{"pending", "replica"} {
		for url := range everything(s, set) {
			if strings.Contains(url, "archive") {
				t.Errorf("%s before there is anything to be in it", url)
			}
		}
	}
	s.submitN(q, 21) // the open lists are not full
	must(t, s.pub.Publish(context.Background()))
	lists := map[string][]string{} // as of the first dump
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		for _, page := range m.capability(sitemap.ResourceList).entries {
			for _, e := range m.document(page.Loc).entries {
				lists[set] = append(lists[set], e.Loc+" "+hashes(&e)+" "+e.Link(sitemap.RelDescribedBy))
			}
		}
		lists[set+" closed"] = locs(m.lists())
		lists[set+" packages"] = locs(m.packages())
	}
	first := q.State().LastEvent
	now = now.Add(2 * time.Hour)
	activity(s, q, 0)
	must(t, s.pub.Publish(context.Background()))
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		closed, packages := lists[set+" closed"], lists[set+" packages"]
		closed = closed[:len(closed)-1] // without the open one
		if got := locs(m.archived(sitemap.ChangeListArchive)); !slices.Equal(got, closed) {
			t.Errorf("%s: archived lists %q, want %q", set, got, closed)
		}
		for _, e := range m.capability(sitemap.ChangeList).entries {
			if slices.Contains(closed, e.Loc) {
				t.Errorf("%s is current and archived", e.Loc)
			}
		}
		var named []string
		for _, e := range m.archived(sitemap.ChangeDumpArchive) {
			d := m.document(e.Loc)
			if !d.head.From.Equal(e.From) || !d.head.Until.Equal(e.Until) || e.Until.IsZero() {
				t.Errorf("%s: from %v until %v, in the archive from %v until %v", e.Loc, d.head.From, d.head.Until, e.From, e.Until)
			}
			named = append(named, locs(d.entries)...)
		}
		if !slices.Equal(named, packages) {
			t.Errorf("%s: archived packages %q, want %q", set, named, packages)
		}
		dumps := m.archived(sitemap.ResourceDumpArchive)
		if len(dumps) != 1 || !dumps[0].At.Equal(first) || !m.document(dumps[0].Loc).head.At.Equal(first) {
			t.Errorf("%s: archived dumps %+v, want one at %v", set, dumps, first)
		}
		var was []string
		for _, e := range m.archived(sitemap.ResourceListArchive) {
			for _, part := range m.document(e.Loc).entries {
				for _, r := range m.document(part.Loc).entries {
					if r.Path != "" {
						t.Errorf("%s: %s has a path", part.Loc, r.Loc)
					}
					was = append(was, r.Loc+" "+hashes(&r)+" "+r.Link(sitemap.RelDescribedBy))
				}
			}
		}
		slices.Sort(was)
		slices.Sort(lists[set])
		if !slices.Equal(was, lists[set]) {
			t.Errorf("%s: the list as of the first dump\n%q\nwant\n%q", set, was, lists[set])
		}
		linked := 0
		for _, d := range everything(s, set) {
			v.add(d)
			if d.head.Link(sitemap.RelArchives) != "" {
				linked++
			}
		}
		if linked != 4 { // both lists and both dumps
			t.Errorf("%s: %d documents link to archives", set, linked)
		}
	}
	v.check()
	// After Keep nothing of it is left.
	now = now.Add(4 * time.Hour)
	s.submitN(q, 5)
	must(t, s.pub.Publish(context.Background()))
	must(t, s.pub.Tick(context.Background()))
	for _, set := range []string{"pending", "replica"} {
		for _, url := range append(lists[set+" packages"], lists[set+" closed"][:2]...) {
			if resp := s.get(url); resp.StatusCode != 410 {
				t.Errorf("%s after it was to be kept: %s", url, resp.Status)
			}
		}
		everything(s, set)
		m := newMirror(s, "jobs", set)
		m.dump()
		m.incremental(nil)
		m.compare(q)
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

func TestAnArchiveOfManyIsAnIndex(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newSource(t, publisher.Options{MaxEntries: 2, MaxBytes: 64 << 10, Retention: publisher.Retention{Current: time.Hour},
		Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 400)
	must(t, s.pub.Publish(context.Background()))
	want := 0
	lists, err := os.ReadFile(s.dir + "/resourcesync/jobs/pending/inventory")
	must(t, err)
	want = strings.Count(string(lists), "\nlist ")
	now = now.Add(2 * time.Hour)
	m := newMirror(s, "jobs", "pending")
	for _, c := range []sitemap.Capability{sitemap.ChangeListArchive, sitemap.ChangeDumpArchive} {
		entries := m.archived(c)
		if len(entries) != want || want < 150 {
			t.Errorf("%s: %d entries of %d", c, len(entries), want)
		}
		if !slices.IsSortedFunc(entries, func(a, b sitemap.Entry) int { return a.From.Compare(b.From) }) {
			t.Errorf("%s is not in order of time", c)
		}
	}
	for url, d := range everything(s, "pending") {
		if len(d.octets) > 64<<10 && strings.Contains(url, "archive") {
			t.Errorf("%s has %d octets", url, len(d.octets))
		}
	}
}

func TestWhatIsKeptHasALimit(t *testing.T) {
	t.Parallel()
	const most = 40_000
	s := newSource(t, publisher.Options{MaxEntries: 8, Retention: publisher.Retention{KeepOctets: most, Keep: time.Hour}, DumpPeriod: time.Nanosecond}, "jobs")
	q := s.queue("jobs")
	for round := range long.N(10, 30) {
		activity(s, q, round)
		s.consume(q, int(q.State().Pending)-2)
		s.settleFully()
		if round%10 == 9 {
			cull(s, q)
			s.settleFully()
			s.crash()
			q = s.queue("jobs")
		}
		for _, set := range []string{"pending", "replica"} {
			everything(s, set) // all that is named is there
			if size := s.onDisk("jobs", set); size > 2*most {
				t.Errorf("round %d: %s has %d octets", round, set, size)
			}
			m := newMirror(s, "jobs", set)
			m.dump()
			m.incremental(nil)
			m.compare(q)
		}
	}
	if index := newMirror(s, "jobs", "replica").capability(sitemap.ChangeList); !index.head.From.After(q.Info().Created) {
		t.Error("no list has gone")
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// settleFully makes all that is due.
func (s *source) settleFully() {
	s.Helper()
	must(s, s.pub.Publish(context.Background()))
	must(s, s.pub.Tick(context.Background()))
}

// TestEveryStepOfRetentionMayFail lets lists, packages and dumps go, and fails
// each step.
func TestEveryStepOfRetentionMayFail(t *testing.T) {
	t.Parallel()
	run := func(fault durable.Fault) *source {
		now := time.Now()
		s := newSource(t, publisher.Options{MaxEntries: 6, Retention: publisher.Retention{Keep: time.Hour}, Now: func() time.Time { return now }}, "jobs")
		s.now = func() time.Time { return now }
		s.reopen()
		s.submitN(s.queue("jobs"), 14)
		s.settleFully()
		now = now.Add(90 * time.Minute)
		s.submitN(s.queue("jobs"), 20)
		must(t, s.svc.Checkpoint(context.Background()))
		s.settleFully()
		must(t, s.svc.Close())
		must(t, s.pub.Close())
		s.svc = nil
		now = now.Add(2 * time.Hour)
		s.open()
		must(t, s.pub.Close())
		s.opts.Fault = fault
		s.openFaulty()
		if err := s.pub.Tick(context.Background()); err != nil && !errors.Is(err, errFault) {
			t.Fatal(err)
		}
		return s
	}
	steps := eachStep(func(fault durable.Fault) { run(fault) }, false, func(step string, fault durable.Fault) {
		s := run(fault)
		for _, set := range []string{"pending", "replica"} {
			everything(s, set) // all that is named is there, now
		}
		s.opts.Fault = nil
		s.crash()
		for _, set := range []string{"pending", "replica"} {
			everything(s, set) // and after the crash
		}
		s.settleFully()
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, "jobs", set)
			m.dump()
			m.incremental(nil)
			m.compare(s.queue("jobs"))
			if got, want := filesOf(s, set), namedFiles(s, set); !maps.Equal(got, want) {
				t.Errorf("on disk are %v, named %v", got, want)
			}
		}
		if len(s.problems) > 0 || t.Failed() {
			t.Fatalf("%s: problems %q", step, s.problems)
		}
	})
	if len(steps) < 20 || !slices.ContainsFunc(steps, func(s string) bool { return strings.HasPrefix(s, "remove") }) {
		t.Errorf("steps: %q", steps)
	}
}

// filesOf returns the lists and packages of a set on disk, by their names
// without what follows the first dot.
func filesOf(s *source, set string) map[string]bool {
	s.Helper()
	all, err := os.ReadDir(s.dir + "/resourcesync/jobs/" + set)
	must(s, err)
	out := map[string]bool{}
	for _, f := range all {
		if stem, suffix, _ := strings.Cut(f.Name(), "."); suffix == "zip" || suffix == "gz" {
			out[stem] = true
		}
	}
	return out
}

// namedFiles returns those that a document names.
func namedFiles(s *source, set string) map[string]bool {
	s.Helper()
	out := map[string]bool{}
	for url, d := range everything(s, set) {
		name := url[strings.LastIndexByte(url, '/')+1:]
		stem, suffix, _ := strings.Cut(aliasOf(name), ".")
		if suffix == "zip" || d.head.Capability == sitemap.ChangeList && d.root == sitemap.URLSet && !d.head.Until.IsZero() {
			out[stem] = true
		}
	}
	return out
}

// Who begins with the Resource Dump needs all changes since it, however old these
// are.
func TestTheIndexReachesBackToTheResourceDump(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSource(t, publisher.Options{MaxEntries: 20, Retention: publisher.Retention{Current: time.Hour}, Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	activity(s, q, 0)
	must(t, s.pub.Publish(context.Background()))
	for round := range 8 {
		now = now.Add(time.Hour)
		activity(s, q, round)
		s.settle()
	}
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		m.dump()
		m.incremental(nil)
		m.compare(q)
		m.dump()
		m.dumps()
		m.incremental(nil)
		m.compare(q)
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// dumpAt returns at of the Resource Dump, zero if there is none.
func dumpAt(s *source, set string) time.Time {
	s.Helper()
	resp := s.get(s.doc(s.queue("jobs"), set, "resourcedump.xml"))
	if resp.StatusCode != http.StatusOK {
		return time.Time{}
	}
	return parse(s, read(s, resp)).head.At
}

func TestADumpFarBehindIsMadeAgain(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 100, DumpPeriod: 1000 * time.Hour}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 30)
	s.settle()
	first := dumpAt(s, "pending")
	if first.IsZero() {
		t.Fatal("no dump was made")
	}
	s.submitN(q, 60)
	s.settle()
	if at := dumpAt(s, "pending"); !at.Equal(first) {
		t.Errorf("made again at %v, although there are few changes", at)
	}
	s.submitN(q, 200)
	s.settle()
	if at := dumpAt(s, "pending"); at.Equal(first) {
		t.Error("the dump is as it was, and far behind")
	}
	m := newMirror(s, "jobs", "pending")
	m.dump()
	m.incremental(nil)
	m.compare(q)
}

// A dump before a gap in the Change Lists leads nowhere.
func TestADumpBeforeAGapIsMadeAgain(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 30)
	must(t, s.pub.Publish(context.Background()))
	must(t, s.svc.Checkpoint(context.Background()))
	s.close()
	svc, err := queuefs.Open(s.dir, queuefs.Options{Now: s.now, Segment: 2 << 20})
	must(t, err)
	s.svc = svc
	s.submitN(s.queue("jobs"), 20)
	must(t, svc.Checkpoint(context.Background()))
	s.submitN(s.queue("jobs"), 3)
	must(t, svc.Checkpoint(context.Background()))
	must(t, svc.Close())
	s.open()
	s.submitN(s.queue("jobs"), 1)
	s.settle()
	m := newMirror(s, "jobs", "replica")
	m.dump()
	m.incremental(nil)
	m.compare(s.queue("jobs"))
}

func TestPublishNowMakesAChangeDump(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	m := newMirror(s, "jobs", "pending")
	m.baseline()
	activity(s, q, 0)
	must(t, s.pub.Publish(context.Background()))
	if n := m.dumps(); n != 1 {
		t.Errorf("%d packages, want 1", n)
	}
	m.compare(q)
	must(t, s.pub.Publish(context.Background())) // nothing new
	if n := len(m.capability(sitemap.ChangeDump).entries); n != 1 {
		t.Errorf("%d packages, want 1", n)
	}
}

// Who asks for what is no longer kept is led to where to begin anew.
func TestWhatIsNoLongerKeptIsGone(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSource(t, publisher.Options{MaxEntries: 8, Retention: publisher.Retention{Keep: time.Hour}, Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	former := map[string][]string{}
	for round := range 3 {
		activity(s, q, round)
	}
	must(t, s.pub.Publish(context.Background()))
	for _, set := range []string{"pending", "replica"} {
		for url := range everything(s, set) {
			if strings.Contains(url, "-0000") && !strings.Contains(url, "resourcelist-000001.xml") {
				former[set] = append(former[set], url)
			}
		}
		if len(former[set]) < 5 {
			t.Fatalf("%s: only %q", set, former[set])
		}
	}
	for range 3 {
		now = now.Add(2 * time.Hour)
		activity(s, q, 1)
		must(t, s.pub.Publish(context.Background()))
		must(t, s.pub.Tick(context.Background()))
	}
	for set, urls := range former {
		list := s.document(s.doc(q, set, "resourcelist.xml"))
		dump := s.document(s.doc(q, set, "resourcedump.xml"))
		for _, url := range urls {
			resp := s.get(url)
			text := string(read(t, resp))
			if resp.StatusCode != http.StatusGone {
				t.Errorf("%s: %s", url, resp.Status)
				continue
			}
			for _, want := range []string{s.doc(q, set, "resourcelist.xml"), list.head.At.Format(time.RFC3339Nano), s.doc(q, set, "resourcedump.xml"), dump.head.At.Format(time.RFC3339Nano)} {
				if !strings.Contains(text, want) {
					t.Errorf("%s says nothing of %s: %s", url, want, text)
				}
			}
		}
	}
	for _, never := range []string{"changelist-999999999999.xml", "resourcedump-999999999999.xml", "changedump-999999999999.zip", "other.xml"} {
		if resp := s.get(s.doc(q, "pending", never)); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", never, resp.Status)
		}
	}
}

func TestWhatWasPublishedOfARemovedQueueIsGone(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs", "other")
	url := s.doc(s.queue("jobs"), "pending", "changelist.xml")
	ask := func(when string, want int) {
		t.Helper()
		if resp := s.get(url); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", when, resp.Status, want)
		}
	}
	ask("at first", 200)
	must(t, s.svc.RemoveQueue(context.Background(), "jobs"))
	ask("removed", 410)
	s.reopen()
	ask("opened again", 410)
	s.crash()
	ask("after a crash", 410)
	if resp := s.get(strings.Replace(url, "/jobs/", "/never/", 1)); resp.StatusCode != 404 {
		t.Errorf("a queue that never was: %s", resp.Status)
	}
	s.queue("jobs")
	ask("made again", 200)
	must(t, s.svc.RemoveQueue(context.Background(), "jobs"))
	s.reopen()
	ask("removed again", 410)
}
