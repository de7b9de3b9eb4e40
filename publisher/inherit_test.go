package publisher_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/publisher/store"
	"cutie/queuefs"
	homecheck "cutie/queuefs/check"
	"cutie/sitemap"
)

// promoted returns a home made of the directories of the queue jobs alone, with the changes
// after some time.
func promoted(s *source, changes []sitemap.Entry, from time.Time, damage func(dir string)) *source {
	s.Helper()
	return s.fork(func(c *source) {
		for _, name := range []string{"log", "resourcesync"} {
			must(c, os.RemoveAll(filepath.Join(c.dir, name)))
		}
		last := queuefs.Seq(changes[len(changes)-1].Seq)
		_, err := homecheck.Home(c.dir, homecheck.Options{Rebuild: true, Last: map[string]homecheck.Last{"jobs": {Seq: last, Time: changes[len(changes)-1].DateTime}}})
		must(c, err)
		must(c, publisher.Inherit(c.dir, "jobs", store.Inherited{Base: base + "/", From: from, First: queuefs.Seq(changes[0].Seq), Last: last},
			func(add func(*sitemap.Entry) error) error {
				for i := range changes {
					e := changes[i]
					e.Links = nil
					if err := add(&e); err != nil {
						return err
					}
				}
				return nil
			}))
		if damage != nil {
			damage(filepath.Join(c.dir, "resourcesync", "jobs"))
		}
	})
}

// changesOf returns the entries of all Change Lists of the replica, and since when.
func changesOf(s *source) (all []sitemap.Entry, from time.Time) {
	s.Helper()
	d := newMirror(s, "jobs", "replica").capability(sitemap.ChangeList)
	for _, e := range d.entries {
		all = append(all, s.document(e.Loc).entries...)
	}
	return all, d.head.From
}

// A queue made of a copy publishes the lists of its original again, goes on with them, and a
// follower of the original needs nothing else.
func TestAQueueInheritsTheChangesOfItsOriginal(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 20}, "jobs")
	q := s.queue("jobs")
	activity(s, q, 0)
	follower := newMirror(s, "jobs", "replica")
	follower.baseline()
	for round := range 3 {
		activity(s, q, round+1)
	}
	changes, from := changesOf(s)
	if changes[0].Seq != 1 {
		t.Fatalf("the index begins with event %d", changes[0].Seq)
	}
	want := changeDocumentsOf(s)
	s.close()

	c := promoted(s, changes, from, nil)
	sameDocuments(t, changeDocumentsOf(c), want)
	c.crash() // the cursor does not know yet
	sameDocuments(t, changeDocumentsOf(c), want)
	activity(c, c.queue("jobs"), 4)
	c.settle()
	c.reopen() // the cursor does
	follower.source = c
	follower.incremental(nil)
	follower.compare(c.queue("jobs"))
	if got, _ := changesOf(c); len(got) <= len(changes) || got[len(changes)].Seq != changes[len(changes)-1].Seq+1 {
		t.Errorf("the lists have %d changes, the original had %d", len(got), len(changes))
	}
	if left, err := filepath.Glob(filepath.Join(c.dir, "resourcesync", "jobs", "inherited*")); err != nil || len(left) > 0 {
		t.Errorf("%q are there still, %v", left, err)
	}
	if len(c.problems) > 0 {
		t.Errorf("problems: %q", c.problems)
	}
}

// The changes of a copy may begin after those of the original.
func TestAQueueInheritsTheLastChanges(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 20}, "jobs")
	q := s.queue("jobs")
	activity(s, q, 0)
	follower := newMirror(s, "jobs", "replica")
	follower.baseline()
	since, before := follower.since, q.Seq()
	activity(s, q, 1)
	changes, _ := changesOf(s)
	for queuefs.Seq(changes[0].Seq) <= before {
		changes = changes[1:]
	}
	s.close()
	c := promoted(s, changes, since, nil)
	follower.source = c
	follower.incremental(nil)
	follower.compare(c.queue("jobs"))
	if d := follower.capability(sitemap.ChangeList); !d.head.From.Equal(since) {
		t.Errorf("the lists begin with %v, want %v", d.head.From, since)
	}
}

// Damaged changes are not published: the lists begin after them, and say so.
func TestDamagedChangesAreNotInherited(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 20}, "jobs")
	activity(s, s.queue("jobs"), 0)
	changes, from := changesOf(s)
	last := changes[len(changes)-1]
	s.close()
	for name, damage := range map[string]func(text []byte) []byte{
		"inherited":         func(text []byte) []byte { return bytes.Replace(text, []byte("1 "), []byte("2 "), 1) },
		"inherited.gz":      func(text []byte) []byte { text[len(text)/2] ^= 1; return text },
		"inherited.gz, cut": func(text []byte) []byte { return text[:len(text)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			c := promoted(s, changes, from, func(dir string) {
				file := filepath.Join(dir, strings.TrimSuffix(filepath.Base(name), ", cut"))
				text, err := os.ReadFile(file)
				must(t, err)
				must(t, os.WriteFile(file, damage(text), 0o600))
			})
			if got, since := changesOf(c); len(got) > 0 || !since.Equal(last.Changed()) {
				t.Errorf("got %d changes since %v", len(got), since)
			}
			if !strings.Contains(strings.Join(c.problems, "\n"), "changes of the original") {
				t.Errorf("problems: %q", c.problems)
			}
			activity(c, c.queue("jobs"), 1)
			if got, _ := changesOf(c); len(got) == 0 || got[0].Seq != last.Seq+1 {
				t.Errorf("the lists do not go on: %v", got)
			}
		})
	}
}
