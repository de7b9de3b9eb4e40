package publisher_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/durable"
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

func TestPublishedOfHomesInAnyState(t *testing.T) {
	s := newSource(t, publisher.Options{Dialect: sitemap.V10}, "jobs")
	s.submitN(s.queue("jobs"), 1)
	must(t, s.pub.Flush())
	must(t, s.pub.Synced())
	name := filepath.Join(s.dir, settingsFile)
	write := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(s.dir, "resourcesync", name), []byte(text), 0o666))
	}
	check := func(what, uri string, d sitemap.Dialect, failed bool) {
		t.Helper()
		got, err := publisher.Published(s.dir)
		if got.BaseURI != uri || got.Dialect != d || (err != nil) != failed {
			t.Errorf("%.80s: got %q %v, %v", what, got.BaseURI, got.Dialect, err)
		}
		if err != nil && !strings.Contains(err.Error(), "resourcesync/cutie-") {
			t.Errorf("%.80s: %v does not name the file", what, err)
		}
	}
	check("whole", base, sitemap.V10, false)
	for _, bad := range badSettings {
		must(t, os.WriteFile(name, []byte(bad), 0o666))
		check(bad+" and a cursor", base, sitemap.V10, false)
	}
	must(t, os.WriteFile(name, []byte(withSeal("settings", "baseuri: "+base+"\nresourcesyncversion: 1.1\nlater: x\n")), 0o666))
	check("of a later version", base, sitemap.V11, false)
	must(t, os.Remove(name))
	check("the cursor alone", base, sitemap.V10, false)
	for _, bad := range []string{"other", withSeal("cursor", "cutie cursor 1 \n"), withSeal("cursor", "cutie cursor 1 "+base+" 3\n")} {
		write("cutie-cursor", bad)
		check(bad, "", 0, true)
		write("cutie-source.txt", badSettings[0])
		check(bad+" and bad settings", "", 0, true)
		must(t, os.Remove(name))
	}
	write("cutie-cursor", withSeal("cursor", "cutie cursor 1 "+base+"\n"))
	check("cursor of version 1.1", base, sitemap.V11, false)
	must(t, os.Remove(filepath.Join(s.dir, "resourcesync", "cutie-cursor")))
	check("neither", "", sitemap.V11, false)
	for _, bad := range badSettings {
		write("cutie-source.txt", bad)
		check(bad+" and no cursor", "", 0, true)
	}
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

// TestDamagedSettingsAreSetAside opens a home with what it is told about its
// settings: all lists go on, and what was there can be looked at.
func TestDamagedSettingsAreSetAside(t *testing.T) {
	s := newSource(t, publisher.Options{Dialect: sitemap.V10}, "jobs")
	s.submitN(s.queue("jobs"), 3)
	for i, bad := range badSettings {
		s.close()
		must(t, os.WriteFile(filepath.Join(s.dir, settingsFile), []byte(bad), 0o666))
		var err error
		s.opts, err = publisher.Published(s.dir)
		must(t, err)
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

// TestARebuildKeepsTheVersion makes everything anew in an older version: what
// is made then is opened without a complaint.
func TestARebuildKeepsTheVersion(t *testing.T) {
	s := newSource(t, publisher.Options{Dialect: sitemap.V09, MaxEntries: 9}, "jobs")
	activity(s, s.queue("jobs"), 0)
	s.settle()
	s.rebuild()
	s.reopen()
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
	m := newMirror(s, "jobs", "replica")
	m.since = s.queue("jobs").Info().Created
	m.incremental(nil)
	m.compare(s.queue("jobs"))
}
