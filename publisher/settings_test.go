package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/sitemap"
)

const settingsFile = "resourcesync/cutie-source.txt"

func TestPublishedTellsTheSettings(t *testing.T) {
	want := publisher.Options{BaseURI: base, MaxEntries: 9, MaxBytes: 100_000, MaxPackage: 1 << 40, Retention: publisher.Retention{Current: time.Hour, Keep: 90 * time.Minute, KeepOctets: 5}, DumpPeriod: time.Second, Mirrors: []string{"https://a.test/x%20y/", "http://b.test"},
		Via: "https://first.test/", Dialect: sitemap.V09, Period: 24 * time.Hour}
	s := newSource(t, want, "jobs")
	got, err := publisher.Published(s.dir)
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// Zero values come back as what they mean.
	s.close()
	s.opts = publisher.Options{BaseURI: base + "/"}
	s.open()
	got, err = publisher.Published(s.dir)
	must(t, err)
	if want := (publisher.Options{BaseURI: base, MaxEntries: 50_000, MaxBytes: 50_000_000, MaxPackage: 4 << 30}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A file of settings that says nothing is an error that names it, as one that was lost is
// where something was published.
func TestPublishedOfHomesInAnyState(t *testing.T) {
	s := newSource(t, publisher.Options{Dialect: sitemap.V10}, "jobs")
	s.submitN(s.queue("jobs"), 1)
	must(t, s.pub.Flush())
	must(t, s.pub.Synced())
	name := filepath.Join(s.dir, settingsFile)
	check := func(what, uri string, d sitemap.Dialect, failed bool) {
		t.Helper()
		got, err := publisher.Published(s.dir)
		if got.BaseURI != uri || got.Dialect != d || (err != nil) != failed {
			t.Errorf("%.80s: got %q %v, %v", what, got.BaseURI, got.Dialect, err)
		}
		if err != nil && !strings.Contains(err.Error(), settingsFile) {
			t.Errorf("%.80s: %v does not name the file", what, err)
		}
	}
	check("whole", base, sitemap.V10, false)
	for _, bad := range badSettings {
		must(t, os.WriteFile(name, []byte(bad), 0o666))
		check(bad, "", 0, true)
	}
	must(t, os.WriteFile(name, []byte(withSeal("settings", "baseuri: "+base+"\nresourcesyncversion: 1.1\nlater: x\n")), 0o666))
	check("of a later version", base, sitemap.V11, false)
	must(t, os.Remove(name))
	check("the cursor alone", "", 0, true)
	must(t, os.Remove(filepath.Join(s.dir, "resourcesync", "cutie-cursor")))
	check("neither", "", sitemap.V11, false)
	if got, err := publisher.Published(t.TempDir()); got.BaseURI != "" || err != nil {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
}

// withSeal returns a state file with a text.
func withSeal(kind, text string) string {
	file, err := durable.Sealed{Kind: kind, Max: 1 << 20}.File([]byte(text))
	if err != nil {
		panic(err)
	}
	return string(file)
}

// badSettings are files that say nothing, or not all that is needed; the last one lacks its
// seal.
var badSettings = slices.Collect(func(yield func(string) bool) {
	for _, text := range badTexts {
		if !yield(withSeal("settings", text)) {
			return
		}
	}
	yield("baseURI: " + base + "\nresourceSyncVersion: 1.0\n")
})

var badTexts = []string{"", "baseURI: x\n", "resourceSyncVersion: 1.1\n", "baseURI: " + base + "\n", "baseURI: " + base + "\nresourceSync",
	"baseURI: " + base + "\nresourceSyncVersion: 2\n", "baseURI: " + base + "\nresourceSyncVersion: 2013-01\n",
	"baseURI: " + base + "\nresourceSyncVersion: 1.0\nkeep: long\n", "baseURI: " + base + "\nresourceSyncVersion: 1.0\nmaxEntries: 1\n",
	"no line\n", "\x00\x00\x00\x00", strings.Repeat("later: x\n", 10_000)}

// TestDamagedSettingsAreSetAside opens a home with the settings of before: all lists go on, and
// what was there can be looked at.
func TestDamagedSettingsAreSetAside(t *testing.T) {
	s := newSource(t, publisher.Options{Dialect: sitemap.V10}, "jobs")
	s.submitN(s.queue("jobs"), 3)
	for i, bad := range badSettings {
		s.close()
		must(t, os.WriteFile(filepath.Join(s.dir, settingsFile), []byte(bad), 0o666))
		s.problems = nil
		s.open()
		aside := fmt.Sprint(settingsFile, ".", i+1)
		if len(s.problems) != 1 || !strings.HasPrefix(s.problems[0], settingsFile) || !strings.Contains(s.problems[0], filepath.Base(aside)) {
			t.Errorf("%.60q: got problems %q", bad, s.problems)
		}
		if kept, err := os.ReadFile(filepath.Join(s.dir, aside)); err != nil || string(kept) != bad {
			t.Errorf("%.60q: set aside is %.60q, %v", bad, kept, err)
		}
		if got := s.changesOf("jobs", "pending"); len(got) != 3+i {
			t.Errorf("%.60q: got %d changes, want %d", bad, len(got), 3+i)
		}
		s.submitN(s.queue("jobs"), 1)
	}
	s.problems = nil
	if s.reopen(); len(s.problems) > 0 {
		t.Errorf("mended: got problems %q", s.problems)
	}
}

// TestSettingsComeBeforeWhatTheyAreOf opens a home in another version and fails
// each step of it: whoever goes on with the settings that are there finds lists
// that are theirs, or none.
func TestSettingsComeBeforeWhatTheyAreOf(t *testing.T) {
	for step := 0; ; step++ {
		s := newSource(t, publisher.Options{MaxEntries: 8}, "jobs")
		activity(s, s.queue("jobs"), 0)
		s.settle()
		s.close()
		s.opts.Dialect, s.opts.Anew = sitemap.V10, true
		n, hit := 0, false
		s.opts.Fault = durable.Fault(func(_ string, do func() error) error {
			if n++; n == step+1 {
				hit = true
			}
			if hit {
				return errFault // and nothing is done from here on
			}
			return do()
		})
		svc, err := queuefs.Open(s.dir, queuefs.Options{Segment: 2 << 20})
		must(t, err)
		if pub, err := publisher.New(svc, s.opts); err == nil {
			must(t, pub.Close())
		} else if !errors.Is(err, errFault) {
			t.Fatal(err)
		}
		must(t, svc.Close())
		now, err := publisher.Published(s.dir)
		must(t, err)
		now.MaxEntries = 8
		s.opts = now
		s.problems = nil
		s.open()
		if now.Dialect == sitemap.V11 && len(s.problems) > 0 {
			t.Errorf("step %d: still 1.1, but %q", step, s.problems)
		}
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, "jobs", set)
			m.baseline()
			activity(s, s.queue("jobs"), 1)
			m.incremental(nil)
			m.compare(s.queue("jobs"))
		}
		if !hit {
			if step < 3 {
				t.Errorf("%d steps", step)
			}
			return
		}
	}
}

func TestSettingsAreWrittenWhereTheyWereLost(t *testing.T) {
	s := newSource(t, publisher.Options{Dialect: sitemap.V10}, "jobs")
	s.close()
	must(t, os.Remove(filepath.Join(s.dir, settingsFile)))
	must(t, os.Mkdir(filepath.Join(s.dir, settingsFile), 0o777))
	s.open()
	if got, err := publisher.Published(s.dir); err != nil || got.Dialect != sitemap.V10 {
		t.Errorf("in place of a directory: %v, %v", got.Dialect, err)
	}
	// The directory is removed while it is in use.
	must(t, os.RemoveAll(filepath.Join(s.dir, "resourcesync")))
	s.submitN(s.queue("jobs"), 3)
	s.pub.Flush()
	must(t, s.pub.Flush())
	must(t, s.pub.Synced())
	if got, err := publisher.Published(s.dir); err != nil || got.Dialect != sitemap.V10 {
		t.Errorf("removed in use: %v, %v", got.Dialect, err)
	}
}

// closedLists returns the files of closed Change Lists of a set.
func (s *source) closedLists(queue, set string) (names []string) {
	s.Helper()
	entries, err := os.ReadDir(filepath.Join(s.dir, "resourcesync", queue, set))
	must(s, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "changelist-") && strings.HasSuffix(e.Name(), ".gz") {
			names = append(names, e.Name())
		}
	}
	return names
}

// Other terms hold at once, also for queues at rest, and are those of the home. Wrong ones
// change nothing.
func TestTermsAreTakenInOperation(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newSource(t, publisher.Options{MaxEntries: 4, Now: func() time.Time { return now }}, "a", "b")
	s.now = func() time.Time { return now }
	s.reopen()
	for _, id := range []string{"a", "b"} {
		s.submitN(s.queue(id), 17)
	}
	must(t, s.pub.Publish(context.Background()))
	s.reopen() // all rest
	now = now.Add(3 * time.Hour)
	s.ticks(3)
	lists := func() (n []int) {
		for _, id := range []string{"a", "b"} {
			for _, set := range []string{"pending", "replica"} {
				n = append(n, len(s.closedLists(id, set)))
			}
		}
		return n
	}
	before := lists()
	for _, n := range before {
		if n < 4 {
			t.Fatalf("%v closed lists before", before)
		}
	}
	keep := publisher.Terms{Period: time.Hour, Retention: publisher.Retention{Keep: time.Hour, KeepOctets: 1 << 40}}
	wrong := keep
	wrong.Keep = -1
	if err := s.pub.Take(wrong, names.Pace{}); err == nil {
		t.Error("a period below 0 is taken")
	}
	s.ticks(3)
	if got := lists(); got[0] != before[0] || got[3] != before[3] {
		t.Errorf("got %v lists after a refusal, want %v", got, before)
	}
	must(t, s.pub.Take(keep, names.Pace{}))
	s.ticks(3)
	for i, n := range lists() {
		if n != 1 { // the last closed one stays
			t.Errorf("set %d: %d closed lists, want 1", i, n)
		}
	}
	got, err := publisher.Published(s.dir)
	must(t, err)
	if got.Terms() != keep {
		t.Errorf("the home has %+v, want %+v", got.Terms(), keep)
	}
	// The open list closes by the new period.
	s.submitN(s.queue("a"), 1)
	s.ticks(1)
	old := s.closedLists("a", "replica")
	now = now.Add(61 * time.Minute)
	s.ticks(1)
	if got := s.closedLists("a", "replica"); len(got) != 1 || got[0] <= old[0] {
		t.Errorf("got the closed lists %v, want one after %v", got, old)
	}
}

func TestResourcesAreListedWithTheirCopies(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 9, Mirrors: []string{"https://a.test/copy/", "http://b.test"}, Via: "https://first.test/x/"}, "jobs")
	q := s.queue("jobs")
	activity(s, q, 0)
	must(t, s.pub.Publish(context.Background()))
	looked := 0
	for _, set := range []string{"pending", "replica"} {
		for url, d := range everything(s, set) {
			for _, e := range d.entries {
				path, ok := strings.CutPrefix(e.Loc, base+"/queues/")
				if !ok {
					continue
				}
				var got, want []sitemap.Link
				for _, l := range e.Links {
					if l.Rel == sitemap.RelDuplicate || l.Rel == sitemap.RelVia {
						got = append(got, l)
					}
				}
				if e.Change != sitemap.Deleted {
					want = []sitemap.Link{
						{Rel: sitemap.RelDuplicate, Href: "https://a.test/copy/queues/" + path, Pri: 1},
						{Rel: sitemap.RelDuplicate, Href: "http://b.test/queues/" + path, Pri: 2},
						{Rel: sitemap.RelVia, Href: "https://first.test/x/queues/" + path},
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %s has %+v, want %+v", url, e.Loc, got, want)
				}
				looked++
			}
		}
	}
	if looked < 50 {
		t.Errorf("%d entries", looked)
	}
	m := newMirror(s, "jobs", "replica")
	m.dump()
	m.compare(q)
}

func TestMirrorsThatAreNoneAreRefused(t *testing.T) {
	s := newSource(t, publisher.Options{})
	for _, bad := range [][]string{
		{""}, {"/x"}, {"ftp://x/"}, {"http://x/?q"}, {"http://x/#f"}, {"http://u@x/"}, {"http://x/&y"},
		{"http://x/a b"}, {"http://x/ "}, {" http://x/"}, {"http://x/\t"}, {"http://x/\n"}, {"http://x/\x7f"}, {"http://x/\u0085"}, {"http://x/\u00a0"},
		{"http://x/é"}, {"http://x/\xff"}, {"http://x/a\\b"}, {"http://x/{a}"}, {"http://x/%zz"},
		{"http://x/" + strings.Repeat("y", 512)}, {"http://a", "http://b", "http://c", "http://d", "http://e"},
	} {
		if p, err := publisher.New(s.svc, publisher.Options{BaseURI: base, Mirrors: bad}); err == nil {
			t.Errorf("taken: %.60q", bad)
			must(t, p.Close())
		}
		if p, err := publisher.New(s.svc, publisher.Options{BaseURI: base, Via: bad[0]}); err == nil && len(bad) == 1 && bad[0] != "" {
			t.Errorf("taken as via: %.60q", bad)
			must(t, p.Close())
		} else if err == nil {
			must(t, p.Close())
		}
	}
}

// The Change List Index and the Change Dump have no more entries than the option
// allows, as all lists of changes, and archives have the rest.
func TestDocumentsOfChangesObeyTheLimitOfEntries(t *testing.T) {
	t.Parallel()
	const most = 5
	s := newSource(t, publisher.Options{MaxEntries: most, MaxPackage: 10}, "jobs")
	q := s.queue("jobs")
	m := newMirror(s, "jobs", "replica")
	m.baseline()
	dumped := newMirror(s, "jobs", "pending")
	dumped.baseline()
	for round := range 12 {
		activity(s, q, round)
		s.settle()
	}
	for _, set := range []string{"pending", "replica"} {
		for url, d := range everything(s, set) {
			if c := d.head.Capability; len(d.entries) > most && (c == sitemap.ChangeList || c == sitemap.ChangeDump) {
				t.Errorf("%s has %d entries", url, len(d.entries))
			}
		}
	}
	m.incremental(nil)
	m.compare(q)
	dumped.dumps()
	dumped.incremental(nil)
	dumped.compare(q)
}

// describe changes queue-info.txt of a queue.
func (s *source) describe(q *queuefs.Queue, text string) {
	s.Helper()
	_, err := s.svc.SetQueue(context.Background(), q.ID(), func(i *home.QueueInfo) error { i.Description = text; return nil })
	must(s, err)
}

// same tests that the mirror has queue-info.txt as it is.
func (m *mirror) same(q *queuefs.Queue) {
	m.Helper()
	want, _ := q.InfoFile()
	if got := m.files[strings.TrimSuffix(m.opts.BaseURI, "/")+"/queues/"+q.ID()+"/queue-info.txt"]; got != string(want) {
		m.Errorf("queue-info.txt: got %q, want %q", got, want)
	}
}

// Who follows the set replica learns of changed properties, in the order of the
// events; who follows pending is not troubled.
func TestChangedPropertiesAreInTheChangeList(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 7}, "jobs")
	q := s.queue("jobs")
	replica, pending := newMirror(s, "jobs", "replica"), newMirror(s, "jobs", "pending")
	replica.baseline()
	pending.baseline()
	replica.same(q)
	for round := range 4 {
		s.describe(q, fmt.Sprint("first of ", round))
		activity(s, q, round)
		s.describe(q, fmt.Sprint("second of ", round))
		if round%2 == 1 {
			s.settle()
			s.reopen()
			q = s.queue("jobs")
		}
		var told []sitemap.Entry
		replica.incremental(func(e *sitemap.Entry) {
			if strings.HasSuffix(e.Loc, "/queue-info.txt") {
				told = append(told, *e)
			}
		})
		_, facts := q.InfoFile()
		if n := len(told); n != 2 || told[1].Change != sitemap.Updated || told[1].Event != "update" || told[1].Seq != uint64(q.Seq()) ||
			told[1].Length != facts.Length || !told[1].LastMod.Equal(facts.Modified) || !told[1].DateTime.After(told[0].DateTime) {
			t.Errorf("round %d: got %+v, file %+v", round, told, facts)
		}
		replica.compare(q)
		replica.same(q)
		pending.incremental(func(e *sitemap.Entry) {
			if !strings.Contains(e.Loc, "/payload/") {
				t.Errorf("in pending there is %+v", e)
			}
		})
		pending.compare(q)
	}
	// By other hands, while nobody had the home open.
	s.close()
	name := filepath.Join(s.dir, "queues", "jobs", "queue-info.txt")
	text, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, append(text, "contact: ann@example.org\n"...), 0o666))
	s.open()
	q = s.queue("jobs")
	replica.incremental(nil)
	replica.same(q)
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// Applied from the beginning, the Change Lists and the packages of the set replica lead
// to its Resource List, queue-info.txt included.
func TestReplayIsTheResourceList(t *testing.T) {
	for name, begin := range map[string]func(*source, *queuefs.Queue){
		"a job comes first":     func(s *source, q *queuefs.Queue) { activity(s, q, 0) },
		"properties come first": func(s *source, q *queuefs.Queue) { s.describe(q, "first") },
		"properties change later": func(s *source, q *queuefs.Queue) {
			activity(s, q, 0)
			s.body(s.doc(q, "replica", "changelist.xml"))
			s.describe(q, "later")
		},
		"another queue had the name": func(s *source, q *queuefs.Queue) { activity(s, q, 0) },
		"events are read too late":   func(s *source, q *queuefs.Queue) { activity(s, q, 0); s.describe(q, "later") },
	} {
		for _, max := range []int{5, 50_000} {
			s := newSource(t, publisher.Options{MaxEntries: max}, "jobs")
			q := s.queue("jobs")
			if name == "another queue had the name" {
				s.describe(q, "former")
				must(t, s.pub.Flush())
				must(t, s.svc.RemoveQueue(context.Background(), "jobs"))
				q = s.queue("jobs")
			}
			begin(s, q)
			activity(s, q, 1)
			listed, replayed := newMirror(s, "jobs", "replica"), newMirror(s, "jobs", "replica")
			listed.baseline()
			info := strings.TrimSuffix(s.opts.BaseURI, "/") + "/queues/jobs/queue-info.txt"
			var told []string
			replayed.since = q.State().Info.Created
			replayed.incremental(func(e *sitemap.Entry) {
				if e.Loc == info {
					told = append(told, fmt.Sprint(e.Change, " ", e.Seq))
				}
			})
			if !maps.Equal(replayed.files, listed.files) || listed.files[info] == "" {
				t.Errorf("%s, %d: replay differs:\n%s", name, max, difference(replayed.files, listed.files))
			}
			if want := fmt.Sprint("created ", q.State().Before+1); told[0] != want || strings.Contains(strings.Join(told[1:], " "), "created") {
				t.Errorf("%s, %d: got %v", name, max, told)
			}
			replayed.same(q)
			if max > 5 {
				continue
			}
			s.settle()
			packed := newMirror(s, "jobs", "replica")
			packed.since = q.State().Info.Created
			packed.dumps()
			packed.incremental(nil)
			if !maps.Equal(packed.files, listed.files) {
				t.Errorf("%s: packages differ:\n%s", name, difference(packed.files, listed.files))
			}
		}
	}
}

// A package has the file as it is when it is made. Of one that was replaced
// since, the later package tells.
func TestChangedPropertiesAreInTheChangeDump(t *testing.T) {
	for _, max := range []int{4, 15} {
		s := newSource(t, publisher.Options{MaxEntries: max}, "jobs")
		q := s.queue("jobs")
		m := newMirror(s, "jobs", "replica")
		m.baseline()
		for round := range 4 {
			activity(s, q, round)
			s.describe(q, fmt.Sprint("first of ", round))
			s.describe(q, fmt.Sprint("second of ", round))
			s.submitN(q, 2*max) // the list is closed behind it
			s.settle()
			if m.dumps() == 0 {
				t.Error("no package")
			}
			m.same(q)
		}
		if len(s.problems) > 0 {
			t.Errorf("problems: %q", s.problems)
		}
	}
}
