package publisher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/sitemap"
	"cutie/testdata/long"
)

// The experiment: every kind of file below resourcesync, and every way to damage it.

// publishedKinds are the kinds of files, by pattern below resourcesync.
var publishedKinds = []struct {
	name, pattern string
	last          bool // the last file of the pattern is meant: of the open list, of the current dump
}{
	{"closed list", "jobs/*/changelist-*.gz", false},
	{"open list", "jobs/*/changelist-*.entries", true},
	{"package of changes", "jobs/*/changedump-*.zip", false},
	{"package of a dump", "jobs/*/resourcedump-*.zip", true},
	{"inventory", "jobs/*/inventory", false},
	{"cursor", "cutie-cursor", false},
	{"settings", "cutie-source.txt", false},
}

// fileDamages damage the file name; other is another file of the kind, "" without one.
var fileDamages = []struct {
	name string
	do   func(t testing.TB, name, other string)
}{
	{"flip", func(t testing.TB, name, _ string) {
		edit(t, name, func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
	}},
	{"zeroed block", func(t testing.TB, name, _ string) {
		edit(t, name, func(b []byte) []byte {
			clear(b[len(b)/3 : len(b)/3+min(512, len(b)/3)])
			return b
		})
	}},
	{"cut", func(t testing.TB, name, _ string) {
		edit(t, name, func(b []byte) []byte { return b[:len(b)/2] })
	}},
	{"emptied", func(t testing.TB, name, _ string) {
		edit(t, name, func(b []byte) []byte { return nil })
	}},
	{"deleted", func(t testing.TB, name, _ string) { must(t, os.Remove(name)) }},
	{"swapped", func(t testing.TB, name, other string) {
		must(t, os.Rename(name, name+"-"))
		must(t, os.Rename(other, name))
		must(t, os.Rename(name+"-", other))
	}},
	{"tail doubled", func(t testing.TB, name, _ string) {
		edit(t, name, func(b []byte) []byte { return append(b, b[len(b)-min(len(b), 100):]...) })
	}},
}

// edit writes a file in place.
func edit(t testing.TB, name string, do func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, do(data), 0o600))
}

// damagedFile returns the file of a kind to damage, and another one.
func (s *source) damagedFile(pattern string, last bool) (name, other string) {
	s.Helper()
	all, err := filepath.Glob(filepath.Join(s.dir, "resourcesync", pattern))
	must(s, err)
	if len(all) == 0 {
		s.Fatalf("no %s", pattern)
	}
	if last {
		slices.SortFunc(all, func(a, b string) int { return strings.Compare(filepath.Base(b), filepath.Base(a)) })
		return all[0], all[1]
	}
	if len(all) == 1 && !strings.Contains(pattern, "*") {
		return all[0], ""
	}
	return all[0], all[1]
}

// documentsNow are the documents of both sets by URL, with their octets. Named ones
// that are not served are "".
func (s *source) documentsNow() map[string]string {
	s.Helper()
	found := map[string]string{}
	var follow func(url string)
	follow = func(url string) {
		if _, ok := found[url]; ok || !strings.Contains(url, "/resourcesync/jobs/") || !strings.HasSuffix(url, ".xml") && !strings.HasSuffix(url, ".zip") {
			return
		}
		found[url] = ""
		resp := s.get(url)
		if resp.StatusCode != http.StatusOK {
			return
		}
		octets := read(s, resp)
		found[url] = string(octets)
		if strings.HasSuffix(url, ".zip") {
			return
		}
		d := parse(s, octets)
		for _, l := range d.head.Links {
			follow(l.Href)
		}
		for _, e := range d.entries {
			follow(e.Loc)
			for _, l := range e.Links {
				follow(l.Href)
			}
		}
	}
	for _, set := range []string{"pending", "replica"} {
		follow(s.doc(s.queue("jobs"), set, "capabilitylist.xml"))
	}
	return found
}

// final reports whether a document never changes.
func final(url string) bool {
	name := url[strings.LastIndexByte(url, '/')+1:]
	return strings.Contains(name, "-0000") && !strings.HasPrefix(name, "resourcelist-00000") || strings.Count(name, "-") > 2
}

// neverWrong asks for all documents of before: none has other octets with 200.
func (s *source) neverWrong(want map[string]string) {
	s.Helper()
	for url, octets := range want {
		if !final(url) {
			continue
		}
		for _, coding := range []string{"identity", "gzip"} {
			resp := s.get(url, "Accept-Encoding", coding)
			switch got := read(s, resp); {
			case resp.StatusCode == http.StatusOK && !bytes.Equal(decoded(s, resp, got), []byte(octets)):
				s.Errorf("%s is wrong with 200, in %s", url, coding)
			case resp.StatusCode == http.StatusServiceUnavailable && !bytes.Contains(got, []byte("is damaged, and is not published any more")):
				s.Errorf("%s: %s says %s", url, resp.Status, got)
			}
		}
	}
	now := s.documentsNow() // parses all that is served
	for url, octets := range want {
		if strings.HasSuffix(url, "/changelist.xml") && now[url] != "" && now[url] != octets {
			s.lists(url, octets)
		}
	}
}

// decoded returns the text of an answer.
func decoded(t testing.TB, resp *http.Response, octets []byte) []byte {
	t.Helper()
	if resp.Header.Get("Content-Encoding") == "gzip" {
		return gunzip(t, octets)
	}
	return octets
}

// lists checks that the open list has nothing but entries of what it had.
func (s *source) lists(url, want string) {
	s.Helper()
	for _, e := range s.document(url).entries {
		if !strings.Contains(want, e.Loc) {
			s.Errorf("%s has an entry of %s", url, e.Loc)
		}
	}
}

// homeWithAll has files of all kinds, and is closed.
func homeWithAll(t testing.TB) *source {
	s := newSource(t, publisher.Options{MaxEntries: 24, MaxPackage: 3000}, "jobs")
	q := s.queue("jobs")
	for round := range 4 {
		activity(s, q, round)
		must(t, s.pub.Flush())
		if round == 1 {
			must(t, s.pub.Publish(context.Background()))
		}
	}
	must(t, s.pub.Publish(context.Background()))
	s.settle()
	s.submitN(q, 2)
	must(t, s.pub.Flush())
	must(t, s.svc.Checkpoint(context.Background()))
	s.close()
	return s
}

// TestDamagedPublishedFiles damages each kind of file in each way, while the publisher runs
// and while it does not. Nothing wrong is served with 200, the damage is told, what is lost is
// answered with where to begin anew, and a follower gets to the true state.
func TestDamagedPublishedFiles(t *testing.T) {
	template := homeWithAll(t)
	for i, kind := range publishedKinds {
		for j, damage := range fileDamages {
			for _, running := range []bool{false, true} {
				if damage.name == "swapped" && !strings.Contains(kind.pattern, "*") {
					continue // there is one such file
				}
				if kind.name == "settings" && running {
					continue // the next start reads them
				}
				if !long.On() && (i+j)%4 != map[bool]int{true: 2}[running] {
					continue // a short test damages each file in every second way, once
				}
				name := map[bool]string{false: "stopped/", true: "running/"}[running] + kind.name + "/" + damage.name
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s := template.copied(t)
					want := s.documentsNow()
					if !running {
						s.close()
					}
					file, other := s.damagedFile(kind.pattern, kind.last)
					damage.do(t, file, other)
					if !running {
						s.open()
					}
					s.afterDamage(want, file)
				})
			}
		}
	}
}

// copied returns a source of a copy of the home, which is closed.
func (s *source) copied(t testing.TB) *source {
	t.Helper()
	c := &source{TB: t, opts: s.opts, now: s.now, keepLog: s.keepLog}
	dir := c.newDir()
	t.Cleanup(func() {
		c.close()
		for _, dir := range c.dirs {
			must(t, os.RemoveAll(dir))
		}
	})
	must(t, os.CopyFS(dir, os.DirFS(s.dir)))
	infos, err := filepath.Glob(filepath.Join(s.dir, "queues", "*", "queue-info.txt"))
	must(t, err)
	for _, name := range infos { // their times are published
		st, err := os.Stat(name)
		must(t, err)
		must(t, os.Chtimes(filepath.Join(dir, strings.TrimPrefix(name, s.dir)), st.ModTime(), st.ModTime()))
	}
	c.dir = dir
	c.open()
	return c
}

// afterDamage lets the publisher find the damage of a file.
func (s *source) afterDamage(want map[string]string, file string) {
	s.Helper()
	s.neverWrong(want)
	s.pub.Verify()
	s.settle()
	s.neverWrong(want)
	now := s.documentsNow()
	same := true
	for url, octets := range now {
		if octets == "" {
			s.Errorf("%s is named and not served", url)
		}
	}
	for url, octets := range want {
		if now[url] == octets {
			continue
		}
		same = false
		if _, named := now[url]; !named && final(url) {
			if resp := s.get(url); resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusGone || resp.StatusCode == http.StatusGone && !strings.Contains(string(read(s, resp)), "begin anew") {
				s.Errorf("%s: %s", url, resp.Status)
			}
		}
	}
	rel := strings.TrimPrefix(file, filepath.Join(s.dir, "resourcesync")+"/")
	told := slices.ContainsFunc(s.problems, func(p string) bool {
		return strings.Contains(p, filepath.Base(rel)) || strings.Contains(p, "resourcesync/"+filepath.Dir(rel))
	})
	if !same && !told {
		s.Errorf("documents have changed and nobody tells of %s: %q", rel, s.problems)
	}
	q := s.queue("jobs")
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		m.baseline()
		activity(s, q, 1)
		m.incremental(nil)
		m.compare(q)
		must(s, s.pub.Publish(context.Background()))
		m = newMirror(s, "jobs", set)
		m.dump()
		m.incremental(nil)
		m.compare(q)
	}
	s.settle()
	s.problems = nil
	s.reopen()
	s.pub.Verify()
	for url, octets := range s.documentsNow() {
		if octets == "" {
			s.Errorf("later: %s is named and not served", url)
		}
	}
	if len(s.problems) > 0 {
		s.Errorf("problems later: %q", s.problems)
	}
}

// filesLike returns the files of a set of a pattern, in order.
func filesLike(s *source, set, pattern string) []string {
	s.Helper()
	all, err := filepath.Glob(filepath.Join(s.dir, "resourcesync", "jobs", set, pattern))
	must(s, err)
	slices.Sort(all)
	return all
}

func TestAQueueMayHaveAnyNameThatQueuesMayHave(t *testing.T) {
	names := []string{"cursor", "end", "lists", "pending", "replica"}
	s := newSource(t, publisher.Options{MaxEntries: 10}, names...)
	for round := range 2 {
		for _, id := range names {
			activity(s, s.queue(id), round)
		}
		must(t, s.svc.Checkpoint(context.Background()))
		s.settle()
		s.crash()
	}
	for _, id := range names {
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, id, set)
			m.since = s.queue(id).Info().Created
			m.incremental(nil)
			m.compare(s.queue(id))
		}
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// TestAListClosedWhereTheCursorStandsStaysClosed crashes after a list was
// closed at the very event that the cursor has read.
func TestAListClosedWhereTheCursorStandsStaysClosed(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *source, later *time.Duration){
		"period": func(s *source, later *time.Duration) {
			*later += 2 * time.Hour
			must(s, s.pub.Tick(context.Background()))
		},
		"next event does not fit": func(s *source, _ *time.Duration) {
			s.submitN(s.queue("jobs"), 1)
			must(s, s.pub.Tick(context.Background()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			later := time.Duration(0)
			s := newSource(t, publisher.Options{MaxEntries: 6, Period: time.Hour,
				Now: func() time.Time { return time.Now().Add(later) }}, "jobs")
			s.submitN(s.queue("jobs"), 6) // one full list of pending, two of replica
			must(t, s.svc.Checkpoint(context.Background()))
			closed := len(newMirror(s, "jobs", "pending").capability(sitemap.ChangeList).entries) - 1
			end(s, &later)
			want := changeDocuments(s)
			if got := len(newMirror(s, "jobs", "pending").capability(sitemap.ChangeList).entries) - 1; got != closed+1 {
				t.Fatalf("%d lists were closed, want 1", got-closed)
			}
			s.crash()
			sameDocuments(t, changeDocuments(s), want)
			for round := range 4 {
				activity(s, s.queue("jobs"), round)
			}
			s.settle()
			s.crash()
			s.reopen()
			for _, set := range []string{"pending", "replica"} {
				m := newMirror(s, "jobs", set)
				m.since = s.queue("jobs").Info().Created
				m.incremental(nil)
				m.compare(s.queue("jobs"))
			}
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}

// TestDamageWhileRunningStopsNothing spoils files below resourcesync under a
// running publisher: the engine goes on, and lists begin anew.
func TestDamageWhileRunningStopsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(s *source, top string)
	}{
		{"open lists removed", func(s *source, top string) { s.each(top+"/jobs/*/*.entries", os.Remove) }},
		{"open lists cut", func(s *source, top string) {
			s.each(top+"/jobs/*/*.entries", func(f string) error { return os.Truncate(f, 10) })
		}},
		{"open lists are directories", func(s *source, top string) {
			s.each(top+"/jobs/*/*.entries", func(f string) error { must(s, os.Remove(f)); return os.Mkdir(f, 0o700) })
		}},
		{"sets removed", func(s *source, top string) { s.each(top+"/jobs/*", os.RemoveAll) }},
		{"a set is a file", func(s *source, top string) {
			s.each(top+"/jobs/pending", func(f string) error { must(s, os.RemoveAll(f)); return os.WriteFile(f, nil, 0o600) })
		}},
		{"a set is a link", func(s *source, top string) {
			s.each(top+"/jobs/pending", func(f string) error { must(s, os.RemoveAll(f)); return os.Symlink("/", f) })
		}},
		{"queue removed", func(s *source, top string) { s.each(top+"/jobs", os.RemoveAll) }},
		{"queue is a file", func(s *source, top string) {
			s.each(top+"/jobs", func(f string) error { must(s, os.RemoveAll(f)); return os.WriteFile(f, nil, 0o600) })
		}},
		{"cursor is a directory", func(s *source, top string) {
			s.each(top+"/cutie-cursor", func(f string) error { must(s, os.Remove(f)); return os.Mkdir(f, 0o700) })
		}},
		{"everything removed", func(s *source, top string) { must(s, os.RemoveAll(top)) }},
		{"everything is a file", func(s *source, top string) {
			must(s, os.RemoveAll(top))
			must(s, os.WriteFile(top, nil, 0o600))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSource(t, publisher.Options{MaxEntries: 9}, "jobs")
			q := s.queue("jobs")
			for round := range 3 {
				activity(s, q, round)
			}
			s.settle()
			must(t, s.svc.Checkpoint(context.Background()))
			activity(s, q, 1) // a list to be packed
			must(t, s.pub.Flush())
			c.damage(s, filepath.Join(s.dir, "resourcesync"))
			for round := range 3 {
				activity(s, q, round)
				must(t, s.svc.Checkpoint(context.Background()))
			}
			s.settle()
			if len(s.problems) == 0 {
				t.Error("nothing is reported")
			}
			check := func() {
				t.Helper()
				for _, set := range []string{"pending", "replica"} {
					m := newMirror(s, "jobs", set)
					m.baseline()
					activity(s, s.queue("jobs"), 1)
					m.incremental(nil)
					m.compare(s.queue("jobs"))
				}
			}
			check()
			s.settle()
			changeDocuments(s) // all that are named are there
			s.problems = nil
			s.crash()
			check()
			s.reopen()
			check()
			if len(s.problems) > 0 {
				t.Errorf("problems after it was mended: %q", s.problems)
			}
		})
	}
}

// each does something to all files of a pattern, of which there is one.
func (s *source) each(pattern string, do func(string) error) {
	s.Helper()
	names, err := filepath.Glob(pattern)
	must(s, err)
	if len(names) == 0 {
		s.Fatalf("no %s", pattern)
	}
	for _, name := range names {
		must(s, do(name))
	}
}

// mayBeFull opens the publisher anew; while full is true, no step of it finds room but syncs:
// what was written has its room.
func (s *source) mayBeFull() (full *bool) {
	must(s, s.pub.Close())
	full = new(bool)
	s.opts.Fault = func(step string, do func() error) error {
		if *full && !strings.HasPrefix(step, "sync") {
			return fmt.Errorf("%s: %w", step, syscall.ENOSPC)
		}
		return do()
	}
	s.openPublisher()
	return full
}

func TestAFullDiskIsAnErrorAndNoDamage(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 6}, "jobs")
	full := s.mayBeFull()
	q := s.queue("jobs")
	activity(s, q, 0)
	must(t, s.svc.Checkpoint(context.Background()))
	*full = true
	s.svc.Follow(nil) // it has room: what is tested is what it would be told
	activity(s, q, 1)
	activity(s, s.queue("new"), 0) // its directory cannot be made
	if err := s.pub.Flush(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
	*full = false
	s.svc.Follow(s.pub)
	s.opts.Fault = nil
	s.crash()
	for _, id := range []string{"jobs", "new"} {
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, id, set)
			m.since = s.queue(id).Info().Created
			m.incremental(nil)
			m.compare(s.queue(id))
		}
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// TestPublishingGoesOnAfterAFailedSync lets the n-th sync below resourcesync fail, and
// some after it. Submissions go on, the failure is told, and publishing goes on by itself.
func TestPublishingGoesOnAfterAFailedSync(t *testing.T) {
	t.Parallel()
	for i, failing := range []string{"sync file", "sync dir pending", "sync dir jobs", "sync dir resourcesync"} {
		for k, times := range []int{1, 3} {
			if !long.On() && (i+k)%2 != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s %d", failing, times), func(t *testing.T) {
				later := time.Duration(0)
				s := newSource(t, publisher.Options{MaxEntries: 12, Now: func() time.Time { return time.Now().Add(later) }}, "jobs")
				q := s.queue("jobs")
				activity(s, q, 0)
				must(t, s.pub.Close())
				left := times
				s.opts.Fault = func(step string, do func() error) error {
					if step == failing && left > 0 {
						left--
						return errors.Join(syscall.EIO, do())
					}
					return do()
				}
				s.openPublisher()
				failed := 0
				for range 30 {
					activity(s, q, 1) // submissions go on
					if err := s.pub.Tick(context.Background()); err != nil {
						if !errors.Is(err, syscall.EIO) {
							t.Fatal(err)
						}
						failed++
					}
					later += 2 * time.Minute
				}
				// An inventory in place counts, whatever its directory says.
				if left > 0 || failed == 0 && failing != "sync dir pending" {
					t.Fatalf("%d faults left, %d failures told", left, failed)
				}
				must(t, s.pub.Failure())
				must(t, s.svc.Checkpoint(context.Background()))
				s.settle()
				check := func() {
					t.Helper()
					for _, set := range []string{"pending", "replica"} {
						m := newMirror(s, "jobs", set)
						m.since = s.queue("jobs").Info().Created
						m.incremental(nil)
						m.compare(s.queue("jobs"))
					}
				}
				check()
				s.crash()
				check()
				if temps, _ := filepath.Glob(filepath.Join(s.dir, "resourcesync", "cutie-tmp-*")); len(temps) > 0 || len(s.problems) > 0 {
					t.Errorf("left behind %q, problems %q", temps, s.problems)
				}
			})
		}
	}
}
