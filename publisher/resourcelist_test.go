package publisher_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
)

func TestResourceListGrowsIntoAnIndex(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 1500}, "jobs")
	q := s.queue("jobs")
	for _, set := range []string{"pending", "replica"} {
		d := newMirror(s, "jobs", set).capability(sitemap.ResourceList)
		if d.root != sitemap.URLSet || !d.head.At.Equal(q.Info().Created) {
			t.Errorf("%s of an empty queue: %s at %v", set, d.root, d.head.At)
		}
	}
	s.submitN(q, 3500)
	tags := map[string]string{}
	for round := range 3 {
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, "jobs", set)
			index := m.capability(sitemap.ResourceList)
			if index.root != sitemap.SitemapIndex || !index.head.At.Equal(q.State().LastEvent) {
				t.Errorf("%s: %s at %v", set, index.root, index.head.At)
			}
			for n, e := range index.entries {
				d := s.document(e.Loc)
				if !e.At.Equal(d.head.At) || d.head.Link("index") != s.doc(q, set, "resourcelist.xml") || d.head.Link("up") != m.list {
					t.Errorf("%s: in the index at %v, %+v", e.Loc, e.At, d.head)
				}
				tag := s.get(e.Loc).Header.Get("ETag")
				// A page keeps its tag when jobs of other pages change.
				if changed := tags[e.Loc] != tag; changed != (round == 0 || n == 0 || n == len(index.entries)-1) {
					t.Errorf("round %d: %s changed: %v", round, e.Loc, changed)
				}
				tags[e.Loc] = tag
			}
			m.baseline()
			m.compare(q)
		}
		s.consume(q, 100)
		s.submitN(q, 5)
	}
	// The first page empties, and is served to those who know of it.
	s.consume(q, 1000)
	first := s.doc(q, "pending", "resourcelist-000001.xml")
	if d := s.document(first); len(d.entries) != 0 {
		t.Errorf("first page has %d entries", len(d.entries))
	}
	index := newMirror(s, "jobs", "pending").capability(sitemap.ResourceList)
	if index.entries[0].Loc == first {
		t.Error("the index names a page without entries")
	}
	// With few left it is a list again.
	s.consume(q, 2150)
	if d := newMirror(s, "jobs", "pending").capability(sitemap.ResourceList); d.root != sitemap.URLSet || len(d.entries) != int(q.State().Pending) {
		t.Errorf("%d left: %s of %d", q.State().Pending, d.root, len(d.entries))
	}
}

func TestLongReferencesMakeShorterPages(t *testing.T) {
	long := "http://source.test/" + strings.Repeat("x", 1000)
	s := newSource(t, publisher.Options{BaseURI: long, MaxBytes: 5_000_000}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 5000)
	m := newMirror(s, "jobs", "replica")
	index := m.capability(sitemap.ResourceList)
	if len(index.entries) < 2 {
		t.Fatalf("%d pages", len(index.entries))
	}
	for _, e := range index.entries {
		if n := len(s.body(e.Loc)); n > 5_000_000 {
			t.Errorf("%.20s…%s has %d octets", e.Loc, e.Loc[len(e.Loc)-30:], n)
		}
	}
	for _, e := range m.capability(sitemap.ChangeList).entries {
		if n := len(s.body(e.Loc)); n > 5_000_000 {
			t.Errorf("list of %d octets", n)
		}
	}
	m.baseline()
	m.compare(q)
}

// TestReadersWhileJobsComeAndGo has many clients read everything while others
// submit and consume: each document must be whole and ordered, lists must
// follow each other, and a baseline with the changes after it must converge.
func TestReadersWhileJobsComeAndGo(t *testing.T) {
	const readers, jobs = 50, 4000
	s := newSource(t, publisher.Options{MaxEntries: 3000}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 2500)
	starts := make([]map[string]bool, readers)
	sinces := make([]sitemap.Head, readers)
	var clients, writers sync.WaitGroup
	done := make(chan struct{})
	writers.Go(func() {
		for range jobs / 20 {
			s.submitN(q, 20)
		}
	})
	writers.Go(func() {
		for range jobs / 20 {
			s.consume(q, 20)
		}
	})
	writers.Go(func() {
		for range 20 {
			must(t, s.pub.Flush())
		}
	})
	go func() { writers.Wait(); close(done) }()
	list, changes := s.doc(q, "pending", "resourcelist.xml"), s.doc(q, "pending", "changelist.xml")
	index := s.doc(q, "replica", "changelist-index.xml")
	for i := range readers {
		clients.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-done:
					return
				default:
				}
				d := parse(t, s.body(list))
				names := map[string]bool{}
				if d.root == sitemap.SitemapIndex {
					for _, e := range d.entries {
						for _, e := range parse(t, s.body(e.Loc)).entries {
							names[e.Loc] = true
						}
					}
				} else {
					for _, e := range d.entries {
						names[e.Loc] = true
					}
				}
				starts[i], sinces[i] = names, d.head

				var last uint64
				open := parse(t, s.body(changes))
				for _, e := range open.entries {
					if last != 0 && e.Seq != last+1 {
						t.Errorf("after event %d comes %d", last, e.Seq)
					}
					last = e.Seq
				}
				parts := parse(t, s.body(index)).entries
				for j, e := range parts[1:] {
					if !parts[j].Until.Equal(e.From) {
						t.Errorf("gap between lists: until %v, from %v", parts[j].Until, e.From)
					}
				}
			}
		})
	}
	clients.Wait()
	final := newMirror(s, "jobs", "pending")
	final.baseline()
	final.compare(q)
	for i := range readers {
		m := newMirror(s, "jobs", "pending")
		m.since = sinces[i].At
		for name := range starts[i] {
			m.files[name] = final.files[name]
		}
		m.incremental(nil)
		m.compare(q)
	}
}

// TestTagsNeverLieWhileJobsCome compares every pair of documents that came
// with one entity tag.
func TestTagsNeverLieWhileJobsCome(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 5000}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 2100)
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		defer close(done)
		for range 3000 {
			s.submitN(q, 1)
			s.consume(q, 1)
		}
	})
	var mu sync.Mutex
	seen := map[string]string{}
	tagged, untagged := 0, 0
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			url := s.doc(q, []string{"pending", "replica"}[i%2], []string{"resourcelist.xml", "resourcelist-000001.xml"}[i/2%2])
			for {
				select {
				case <-done:
					return
				default:
				}
				resp := s.get(url)
				body, err := io.ReadAll(resp.Body)
				must(t, err)
				mu.Lock()
				if tag := resp.Header.Get("ETag"); tag == "" {
					untagged++
				} else if tagged++; seen[url+tag] == "" {
					seen[url+tag] = string(body)
				} else if seen[url+tag] != string(body) {
					t.Errorf("%s: tag %s stands for two states", url, tag)
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	writer.Wait()
	if tagged == 0 || untagged > tagged {
		t.Errorf("%d documents with entity tag, %d without", tagged, untagged)
	}
	t.Logf("%d with entity tag, %d without", tagged, untagged)
}

func TestDefaultLimits(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	const n = 50_150
	s.submitN(q, n)
	m := newMirror(s, "jobs", "pending")
	lists := m.capability(sitemap.ChangeList).entries
	if len(lists) != 2 {
		t.Fatalf("%d lists", len(lists))
	}
	for i, want := range []int{50_000, n - 50_000} {
		if got := len(parse(t, s.body(lists[i].Loc)).entries); got != want {
			t.Errorf("list %d has %d entries, want %d", i, got, want)
		}
	}
	total := 0
	for i, e := range m.capability(sitemap.ResourceList).entries {
		d := parse(t, s.body(e.Loc))
		if total += len(d.entries); len(d.entries) > 50_000 || i == 0 && len(d.entries) < 45_000 {
			t.Errorf("page %d has %d entries", i+1, len(d.entries))
		}
	}
	if total != n {
		t.Errorf("pages have %d jobs of %d", total, n)
	}

	// With more lists than an index holds, it names the newest, and says so.
	s.close()
	dir := filepath.Join(s.dir, "resourcesync", "jobs", "pending")
	text := "cutie lists 1 " + base + "\n"
	at := func(i int) string { return fmt.Sprintf("2026-01-01T00:00:00.%06dZ", i+100_000) }
	var lines strings.Builder
	lines.WriteString(text)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&lines, "%d %d %s %s 1 100 -\n", i, i, at(i-1), at(i))
	}
	must(t, os.WriteFile(filepath.Join(dir, "lists"), []byte(lines.String()), 0o600))
	must(t, os.Remove(filepath.Join(s.dir, "resourcesync", "cursor")))
	s.open()
	d := parse(t, s.body(s.doc(s.queue("jobs"), "pending", "changelist-index.xml")))
	want := "2026-01-01T00:00:00." + fmt.Sprintf("%06dZ", 100_000+n-49_999)
	if got := d.head.From.Format("2006-01-02T15:04:05.000000Z"); len(d.entries) != 50_000 || got != want {
		t.Errorf("index has %d entries from %s, want 50000 from %s", len(d.entries), got, want)
	}
}
