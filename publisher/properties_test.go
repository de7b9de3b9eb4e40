package publisher_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
)

// describe changes queue-info.txt of a queue.
func (s *source) describe(q *queuefs.Queue, text string) {
	s.Helper()
	_, err := s.svc.SetQueue(context.Background(), q.ID(), func(i *queuefs.QueueInfo) error { i.Description = text; return nil })
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
