package publisher_test

import (
	"io"
	"strings"
	"sync"
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
	"cutie/testdata/long"
)

func TestResourceListGrowsIntoAnIndex(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 1100}, "jobs")
	q := s.queue("jobs")
	for _, set := range []string{"pending", "replica"} {
		d := newMirror(s, "jobs", set).capability(sitemap.ResourceList)
		if d.root != sitemap.URLSet || !d.head.At.Equal(q.Info().Created) {
			t.Errorf("%s of an empty queue: %s at %v", set, d.root, d.head.At)
		}
	}
	s.submitN(q, 2800)
	tags := map[string]string{}
	for round := range 3 {
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, "jobs", set)
			index := m.capability(sitemap.ResourceList)
			if index.root != sitemap.SitemapIndex || !index.head.At.Equal(q.State().LastEvent) {
				t.Errorf("%s: %s at %v", set, index.root, index.head.At)
			}
			for n, e := range index.entries {
				resp := s.get(e.Loc)
				_, head, err := sitemap.NewReader(resp.Body).ReadHead()
				must(t, err)
				if !e.At.Equal(head.At) || head.Link("index") != s.doc(q, set, "resourcelist.xml") || head.Link("up") != m.list {
					t.Errorf("%s: in the index at %v, %+v", e.Loc, e.At, head)
				}
				tag := resp.Header.Get("ETag")
				// A page keeps its tag when jobs of other pages change.
				if changed := tags[e.Loc] != tag; changed != (round == 0 || n == 0 || n == len(index.entries)-1) {
					t.Errorf("round %d: %s changed: %v", round, e.Loc, changed)
				}
				tags[e.Loc] = tag
			}
			if round == 2 {
				m.baseline()
				m.compare(q)
			}
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
	s.consume(q, 500)
	if d := newMirror(s, "jobs", "pending").capability(sitemap.ResourceList); d.root != sitemap.URLSet || len(d.entries) != int(q.State().Pending) {
		t.Errorf("%d left: %s of %d", q.State().Pending, d.root, len(d.entries))
	}
}

func TestLongReferencesMakeShorterPages(t *testing.T) {
	t.Parallel()
	long := "http://source.test/" + strings.Repeat("x", 1000)
	s := newSource(t, publisher.Options{BaseURI: long, MaxBytes: 7_000_000}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 2200)
	m := newMirror(s, "jobs", "replica")
	index := m.capability(sitemap.ResourceList)
	if len(index.entries) < 2 {
		t.Fatalf("%d pages", len(index.entries))
	}
	for _, e := range index.entries {
		if n := len(s.body(e.Loc)); n > 7_000_000 {
			t.Errorf("%.20s…%s has %d octets", e.Loc, e.Loc[len(e.Loc)-30:], n)
		}
	}
	for _, e := range m.capability(sitemap.ChangeList).entries {
		if n := len(s.body(e.Loc)); n > 7_000_000 {
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
	readers, jobs := long.N(20, 50), long.N(200, 600)
	s := newSource(t, publisher.Options{MaxEntries: 1300}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 1100)
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
				switch {
				case round%3 == 0:
					starts[i], sinces[i] = readList(s, list)
				case round%3 == 1:
					var last uint64
					for _, e := range parse(t, s.body(changes)).entries {
						if last != 0 && e.Seq != last+1 {
							t.Errorf("after event %d comes %d", last, e.Seq)
						}
						last = e.Seq
					}
				default:
					parts := parse(t, s.body(index)).entries
					for j, e := range parts[1:] {
						if !parts[j].Until.Equal(e.From) {
							t.Errorf("gap between lists: until %v, from %v", parts[j].Until, e.From)
						}
					}
				}
			}
		})
	}
	clients.Wait()
	final := newMirror(s, "jobs", "pending")
	final.baseline()
	final.compare(q)
	for i := 0; i < readers; i += 5 {
		m := newMirror(s, "jobs", "pending")
		m.since = sinces[i].At
		if starts[i] == nil {
			continue // it never came to it
		}
		for name := range starts[i] {
			m.files[name] = final.files[name]
		}
		m.incremental(nil)
		m.compare(q)
	}
}

// readList returns the names in a Resource List, or in the pages of its index.
func readList(s *source, url string) (map[string]bool, sitemap.Head) {
	s.Helper()
	names := map[string]bool{}
	d := parse(s, s.body(url))
	lists := []document{d}
	if d.root == sitemap.SitemapIndex {
		lists = nil
		for _, e := range d.entries {
			lists = append(lists, parse(s, s.body(e.Loc)))
		}
	}
	for _, l := range lists {
		for _, e := range l.entries {
			names[e.Loc] = true
		}
	}
	return names, d.head
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
		for range 1000 {
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
	// How many documents are of one instant hangs on how fast jobs come. Once
	// none comes, all are.
	for _, set := range []string{"pending", "replica"} {
		for _, name := range []string{"resourcelist.xml", "resourcelist-000001.xml"} {
			resp := s.get(s.doc(q, set, name))
			if tag := resp.Header.Get("ETag"); tag == "" {
				t.Errorf("%s %s has no entity tag when nothing changes", set, name)
			}
			resp.Body.Close()
		}
	}
	t.Logf("%d with entity tag, %d without", tagged, untagged)
}
