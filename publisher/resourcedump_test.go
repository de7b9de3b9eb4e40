package publisher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs/durable"
	"cutie/queuefs/ledger"
	"cutie/sitemap"
	"cutie/testdata/long"
)

// dump takes what the Resource Dump has, and returns it. Copies of manifests
// must be what they are copies of.
func (m *mirror) dump() document {
	m.Helper()
	m.files = map[string]string{}
	d := m.capability(sitemap.ResourceDump)
	m.since = d.head.At
	for _, e := range d.entries {
		data := m.body(e.Loc)
		check(m, &e, string(data))
		manifest, z := openPackage(m, data)
		if !manifest.head.At.Equal(e.At) || !manifest.head.Completed.Equal(e.Completed) || e.At.After(m.since) && e.Completed.IsZero() {
			m.Errorf("%s: manifest at %v completed %v, entry at %v completed %v, dump at %v",
				e.Loc, manifest.head.At, manifest.head.Completed, e.At, e.Completed, m.since)
		}
		if up := manifest.head.Link(sitemap.RelUp); up != m.list {
			m.Errorf("%s: up is %s", e.Loc, up)
		}
		if got := m.document(e.Link(sitemap.RelContents)).octets; string(got) != z["manifest.xml"] {
			m.Errorf("%s: the manifest beside it has %d octets, the one in it %d", e.Loc, len(got), len(z["manifest.xml"]))
		}
		for _, r := range manifest.entries {
			contents, ok := z[strings.TrimPrefix(r.Path, "/")]
			if !ok || m.files[r.Loc] != "" {
				m.Errorf("%s: %s at %s: there %v, twice %v", e.Loc, r.Loc, r.Path, ok, m.files[r.Loc] != "")
			}
			check(m, &r, contents)
			m.files[r.Loc] = contents
		}
		if len(z) != len(manifest.entries)+1 {
			m.Errorf("%s: %d files of %d entries", e.Loc, len(z), len(manifest.entries))
		}
	}
	return d
}

// names returns what entries point to.
func locs(entries []sitemap.Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Loc)
	}
	return out
}

func TestResourceDumpHasWhatTheResourceListHas(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 1100, MaxPackage: 50_000}, "jobs")
	q := s.queue("jobs")
	for _, set := range []string{"pending", "replica"} {
		for _, e := range s.document(newMirror(s, "jobs", set).list).entries {
			if e.Capability == sitemap.ResourceDump {
				t.Errorf("%s: %s is named before there is one", set, e.Loc)
			}
		}
	}
	s.submitN(q, 2500)
	s.consume(q, 1200)
	must(t, s.pub.Publish(context.Background()))
	for round := range long.N(1, 3) {
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, "jobs", set)
			m.baseline()
			want := m.files
			d := m.dump()
			if !maps.Equal(m.files, want) {
				t.Errorf("%s: dump and list differ:\n%s", set, difference(m.files, want))
			}
			if len(d.entries) < 2 || !d.head.At.Equal(q.State().LastEvent) {
				t.Errorf("%s: %d packages at %v", set, len(d.entries), d.head.At)
			}
			m.compare(q)
		}
		if round == 1 {
			s.crash()
			q = s.queue("jobs")
			continue
		}
		s.submitN(q, 5)
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, "jobs", set)
			m.dump()
			m.incremental(nil) // from the dump to the present
			m.compare(q)
		}
		must(t, s.pub.Publish(context.Background()))
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

func TestAnUntouchedPageKeepsItsPackage(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 1100}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 3000)
	must(t, s.pub.Publish(context.Background()))
	m := newMirror(s, "jobs", "pending")
	first := locs(m.dump().entries)
	kept := s.body(first[1])
	s.submitN(q, 1) // the last page
	must(t, s.pub.Publish(context.Background()))
	second := locs(m.dump().entries)
	if len(first) != 3 || !slices.Equal(first[:2], second[:2]) || first[2] == second[2] {
		t.Errorf("packages\n%q\nthen\n%q", first, second)
	}
	if !bytes.Equal(s.body(second[1]), kept) {
		t.Error("a package has changed")
	}
	s.body(first[2]) // for those who are still fetching it
	s.consume(q, 1)  // the first page
	must(t, s.pub.Publish(context.Background()))
	third := locs(m.dump().entries)
	if third[0] == second[0] || !slices.Equal(third[1:], second[1:]) {
		t.Errorf("packages\n%q\nthen\n%q", second, third)
	}
	if resp := s.get(first[2]); resp.StatusCode != 410 {
		t.Errorf("a package that no dump names: %s", resp.Status)
	}
	zips := packagesOnDisk(s, "pending")
	want := map[string]bool{}
	for _, url := range append(slices.Clone(second), third...) {
		want[filepath.Base(url)] = true
	}
	if got := zips; len(got) != len(want) {
		t.Errorf("on disk are %q, want %v", got, want)
	}
	must(t, s.pub.Publish(context.Background())) // nothing has changed
	if again := locs(m.dump().entries); !slices.Equal(again, third) {
		t.Errorf("packages %q without a change, then %q", third, again)
	}
	// A page that empties has no package.
	s.consume(q, 1100)
	must(t, s.pub.Publish(context.Background()))
	if d := m.dump(); len(d.entries) != 2 {
		t.Errorf("%d packages of two pages", len(d.entries))
	}
	m.compare(q)
}

func packagesOnDisk(s *source, set string) []string {
	s.Helper()
	zips, err := filepath.Glob(filepath.Join(s.dir, "resourcesync", "jobs", set, "resourcedump-*.zip"))
	must(s, err)
	return zips
}

func TestADumpIsMadeOnceAPeriod(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSource(t, publisher.Options{DumpPeriod: time.Hour, Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	url := s.doc(q, "pending", "resourcedump.xml")
	s.settle()
	if resp := s.get(url); resp.StatusCode != 404 {
		t.Errorf("of a queue without events: %s", resp.Status)
	}
	var last string
	for minute := range 200 {
		s.submitN(q, 1)
		s.settle()
		tag := s.get(url).Header.Get("ETag")
		if changed, want := tag != last, minute%60 == 0; changed != want {
			t.Fatalf("minute %d: made anew %v", minute, changed)
		}
		last = tag
		now = now.Add(time.Minute)
	}
	now = now.Add(2 * time.Hour)
	s.settle()
	last = s.get(url).Header.Get("ETag")
	now = now.Add(2 * time.Hour) // nothing has changed since
	s.settle()
	if tag := s.get(url).Header.Get("ETag"); tag != last {
		t.Error("made anew without a change")
	}
}

// TestADumpUnderChangesLeadsToTheTrueState works on a dump step by step while
// jobs come and go.
func TestADumpUnderChangesLeadsToTheTrueState(t *testing.T) {
	stopped, stop := context.WithCancel(context.Background())
	stop()
	s := newSource(t, publisher.Options{DumpPeriod: time.Nanosecond}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 10)
	for round := range 90 {
		s.pub.Tick(stopped) // one step
		activity(s, q, round)
	}
	dumps := 0
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		if s.get(s.doc(q, set, "resourcedump.xml")).StatusCode != 200 {
			continue
		}
		if d := m.dump(); !d.entries[0].Completed.IsZero() {
			dumps++
		}
		m.incremental(nil)
		m.compare(q)
	}
	if dumps == 0 {
		t.Error("no dump was made while jobs came and went")
	}
	s.crash()
	must(t, s.pub.Publish(context.Background()))
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		m.dump()
		m.compare(s.queue("jobs"))
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// TestAPackageOfSeveralInstantsIsMadeAgain changes a page that was read and
// one that was not, while a package of both is made.
func TestAPackageOfSeveralInstantsIsMadeAgain(t *testing.T) {
	stopped, stop := context.WithCancel(context.Background())
	stop()
	s := newSource(t, publisher.Options{DumpPeriod: time.Hour}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 1500)
	for range 5 {
		s.pub.Tick(stopped)
	}
	s.consume(q, 1)
	s.submitN(q, 1)
	s.settleFully()
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		m.dump()
		m.compare(q)
	}
}

// A dump that meets culled jobs is made of those that are left.
func TestCullingDoesNotWaitForAResourceDump(t *testing.T) {
	stopped, stop := context.WithCancel(context.Background())
	stop()
	s := newSource(t, publisher.Options{DumpPeriod: time.Hour}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 300)
	s.consume(q, 200)
	s.pub.Tick(stopped)
	if n := cull(s, q); n != 200 {
		t.Errorf("%d jobs are culled while a dump is made, want 200", n)
	}
	s.settle()
	m := newMirror(s, "jobs", "replica")
	m.dump()
	m.incremental(nil)
	m.compare(q)
}

func TestResourceDumpIsTheSameMadeAgain(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	for round := range 5 {
		activity(s, s.queue("jobs"), round)
	}
	must(t, s.pub.Publish(context.Background()))
	want := map[string]string{}
	for _, set := range []string{"pending", "replica"} {
		d := newMirror(s, "jobs", set).dump()
		want[set] = string(d.octets)
	}
	s.crash("resourcesync")
	must(t, s.pub.Publish(context.Background()))
	for set, w := range want { // with the digests of the packages
		if got := string(newMirror(s, "jobs", set).dump().octets); got != w {
			t.Errorf("made again:\n%s\nwas\n%s", got, w)
		}
	}
}

func TestNamesOfResourceDumps(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	s.submitN(s.queue("jobs"), 3)
	must(t, s.pub.Publish(context.Background()))
	for name, want := range map[string]int{
		"resourcedump.xml":                               200,
		"resourcedump-000001-000000000003.zip":           200,
		"resourcedump-000001-000000000003-manifest.xml":  200,
		"resourcedump-000001-000000000003.xml":           404,
		"resourcedump-1-000000000003.zip":                404,
		"resourcedump-000001-3.zip":                      404,
		"resourcedump-000001-000000000002.zip":           410, // if there was one
		"resourcedump-000001-000000000004.zip":           404,
		"resourcedump-000002-000000000003.zip":           404,
		"resourcedump-000000-000000000003.zip":           404,
		"resourcedump-000001-000000000000.zip":           404,
		"resourcedump-000001.zip":                        404,
		"resourcedump-000000000003.dump":                 404,
		"changedump-000000000001-manifest.xml":           200,
		"changedump-000000000002-manifest.xml":           404,
		"resourcelist-000001-000000000003.xml":           200,
		"resourcelist-000000000003.xml":                  200,
		"resourcelist-000000000002.xml":                  410,
		"resourcelist-000000000004.xml":                  404,
		"resourcedump-000000000003.xml":                  200,
		"resourcedump-000000000002.xml":                  410,
		"resourcedump-000000000004.xml":                  404,
		"changedump-000000000001.xml":                    200,
		"changedump-000000000002.xml":                    404,
		"resourcedump-archive.xml":                       404,
		"resourcedump-archive-000001.xml":                404,
		"resourcedump-000001-000000000003-manifest.zip":  404,
		"resourcedump-000001-000000000003-manifest-.xml": 404,
	} {
		if got := s.get(s.doc(s.queue("jobs"), "pending", name)).StatusCode; got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

// TestDumpDocumentsAreValid looks at documents of every kind about packages.
func TestDumpDocumentsAreValid(t *testing.T) {
	v := newValidator(t)
	s := newSource(t, publisher.Options{MaxEntries: 9}, "jobs")
	for round := range 4 {
		activity(s, s.queue("jobs"), round)
	}
	must(t, s.pub.Publish(context.Background()))
	kinds := map[string]bool{}
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		for _, c := range []sitemap.Capability{sitemap.ResourceDump, sitemap.ChangeDump, sitemap.ChangeList} {
			d := m.capability(c)
			v.add(d)
			for _, e := range d.entries {
				if link := e.Link(sitemap.RelContents); link != "" {
					copied := m.document(link)
					v.add(copied)
					kinds[fmt.Sprint(copied.head.Capability)] = true
				}
			}
		}
		v.add(m.document(m.list))
	}
	if len(kinds) != 2 {
		t.Errorf("manifests of %v", kinds)
	}
	v.check()
}

func TestADamagedPayloadStopsItsDumpAlone(t *testing.T) {
	s, q := newScript(t, publisher.Options{}, 4)
	q.lost[3] = true
	err := s.pub.Publish(context.Background())
	if !errors.Is(err, ledger.ErrNoJob) || !strings.Contains(err.Error(), "payload/j000000000003") {
		t.Errorf("got %v", err)
	}
	if resp := s.get(s.doc(q.Queue, "pending", "resourcedump.xml")); resp.StatusCode != 404 {
		t.Errorf("a dump without all resources: %s", resp.Status)
	}
	if len(s.problems) != 4 { // no dumps, and no packages of the closed lists
		t.Errorf("problems: %q", s.problems)
	}
	q.lost = nil
	if err := s.pub.Publish(context.Background()); err == nil || strings.Contains(err.Error(), "Resource Dump") {
		t.Errorf("lists were passed over, and nothing else: %v", err)
	}
	m := newMirror(s, "jobs", "pending")
	if m.dump(); len(m.files) != 4 {
		t.Errorf("%d files", len(m.files))
	}
}

// TestEveryStepOfADumpMayFail makes three dumps, of which the first goes when
// the third comes, and fails steps that change the directory: once before it
// is done, once after.
func TestEveryStepOfADumpMayFail(t *testing.T) {
	t.Parallel()
	run := func(fault durable.Fault) *source {
		s := newSource(t, publisher.Options{}, "jobs")
		s.submitN(s.queue("jobs"), 1)
		must(t, s.svc.Checkpoint(context.Background()))
		must(t, s.pub.Close())
		s.opts.Fault = fault
		s.openFaulty()
		for range 3 {
			s.submitN(s.queue("jobs"), 2)
			if err := s.pub.Publish(context.Background()); err != nil && !errors.Is(err, errFault) {
				t.Fatal(err)
			}
			dumpsAreWhole(s)
		}
		return s
	}
	var steps []string
	run(func(step string, do func() error) error { steps = append(steps, step); return do() })
	if len(steps) < 40 {
		t.Errorf("steps: %q", steps)
	}
	count := map[string]int{}
	for n, step := range steps {
		if count[step]++; !long.On() && count[step] > 2 && n < len(steps)-12 || long.Race() && n%5 != 0 {
			continue // each kind at the beginning, and all when a dump goes
		}
		for _, done := range []bool{false, true} {
			if !long.On() && done == (n%2 == 0) {
				continue
			}
			i := 0
			s := run(func(_ string, do func() error) error {
				if i++; i != n+1 {
					return do()
				}
				if done {
					do()
				}
				return errFault
			})
			s.opts.Fault = nil
			s.crash()
			dumpsAreWhole(s)
			must(t, s.pub.Publish(context.Background()))
			for _, set := range []string{"pending", "replica"} {
				m := newMirror(s, "jobs", set)
				m.dump()
				m.compare(s.queue("jobs"))
				if zips := packagesOnDisk(s, set); len(zips) > 2 {
					t.Errorf("left behind: %q", zips)
				}
			}
			if len(s.problems) > 0 || t.Failed() {
				t.Fatalf("step %d, %s (done %v): problems %q", n, step, done, s.problems)
			}
		}
	}
}

// dumpsAreWhole checks that all is there that a Resource Dump names, if there
// is one.
func dumpsAreWhole(s *source) {
	s.Helper()
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		for _, e := range m.document(m.list).entries {
			if e.Capability == sitemap.ResourceDump {
				m.dump()
			}
		}
	}
}
