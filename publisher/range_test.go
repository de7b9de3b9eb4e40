package publisher_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
)

const listFoot = len("</urlset>\n")

// A part is the beginning of an open Change List, as a client has it.
type part struct {
	body []byte
	tag  string
}

func open(s *source, url string) part {
	s.Helper()
	resp := s.get(url)
	return part{read(s, resp), resp.Header.Get("ETag")}
}

// rest asks for what follows the entries that the client has.
func (p part) rest(s *source, url string, header ...string) (*http.Response, []byte) {
	s.Helper()
	resp := s.get(url, append(header, "Range", fmt.Sprintf("bytes=%d-", len(p.body)-listFoot), "If-Range", p.tag)...)
	return resp, read(s, resp)
}

func TestAClientFetchesOnlyWhatWasAppended(t *testing.T) {
	for _, d := range []sitemap.Dialect{sitemap.V11, sitemap.V10} {
		s := newSource(t, publisher.Options{Dialect: d}, "jobs")
		q := s.queue("jobs")
		url := s.doc(q, "replica", "changelist.xml")
		have := open(s, url)
		for round := range 12 {
			if round%3 == 1 {
				s.crash()
				q = s.queue("jobs")
			}
			activity(s, q, round)
			resp, rest := have.rest(s, url)
			if resp.StatusCode != http.StatusPartialContent {
				t.Fatal(resp.Status)
			}
			have = part{append(have.body[:len(have.body)-listFoot], rest...), resp.Header.Get("ETag")}
			if want := open(s, url); !bytes.Equal(have.body, want.body) || have.tag != want.tag {
				t.Fatalf("round %d: put together it has %d octets, not %d", round, len(have.body), len(want.body))
			}
		}
		if resp, _ := have.rest(s, url, "If-None-Match", have.tag); resp.StatusCode != http.StatusNotModified {
			t.Errorf("nothing new: %s", resp.Status)
		}
	}
}

// A longer list in the place of the one a client knows must not be taken for its
// end.
func TestARangeNeverComesFromAnotherList(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 20}, "jobs", "twice")
	q := s.queue("jobs")
	url := s.doc(q, "pending", "changelist.xml")
	s.submitN(q, 3)
	first := open(s, url)
	s.submitN(q, 18)
	s.submitN(q, 12) // the next list is longer than the first one was
	if now := open(s, url); len(now.body) <= len(first.body) {
		t.Fatalf("the next list has %d octets of %d", len(now.body), len(first.body))
	}
	whole := func(name string, p part, header ...string) {
		t.Helper()
		header = append(header, "Range", fmt.Sprintf("bytes=%d-", len(p.body)-listFoot))
		if resp := s.get(url, header...); resp.StatusCode != http.StatusOK || !bytes.Equal(read(t, resp), s.body(url)) {
			t.Errorf("%s: got %s, want the whole list", name, resp.Status)
		}
	}
	whole("without a validator", first)
	whole("with the tag of the first list", first, "If-Range", first.tag)
	whole("with a date", first, "If-Range", "Sun, 01 Mar 2026 12:00:00 GMT")

	second := open(s, url)
	s.submitN(q, 1)
	whole("within the foot that there was", part{append(second.body, "more"...), second.tag}, "If-Range", second.tag)
	gzip := s.get(url, "Accept-Encoding", "gzip").Header.Get("ETag")
	s.submitN(q, 1)
	whole("with the tag of another form", second, "If-Range", gzip)
	if resp, _ := second.rest(s, url); resp.StatusCode != http.StatusPartialContent {
		t.Errorf("of the same list: %s", resp.Status)
	}
	if resp, _ := second.rest(s, url, "Accept-Encoding", "gzip"); resp.StatusCode != http.StatusOK {
		t.Errorf("compressed: %s", resp.Status)
	}
}

// An older copy of a home grows again with other events.
func TestARangeNeverComesFromAnotherHistory(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	s.submitN(s.queue("jobs"), 3)
	s.close()
	older := s.newDir()
	must(t, os.CopyFS(older, os.DirFS(s.dir)))
	s.open()
	url := s.doc(s.queue("jobs"), "pending", "changelist.xml")
	s.submitN(s.queue("jobs"), 2)
	have := open(s, url)
	s.close()
	s.dir = older
	s.open()
	s.submitN(s.queue("jobs"), 9)
	resp, body := have.rest(s, url)
	if resp.StatusCode != http.StatusOK || !bytes.Equal(body, s.body(url)) {
		t.Errorf("got %s, want the whole list", resp.Status)
	}
}

func TestARangeOfTheOldestVersionIsOfOneState(t *testing.T) {
	s := newSource(t, publisher.Options{Dialect: sitemap.V09}, "jobs")
	q := s.queue("jobs")
	url := s.doc(q, "pending", "changelist.xml")
	s.submitN(q, 3)
	have := open(s, url)
	s.submitN(q, 3) // until, in the head, moves
	resp, body := have.rest(s, url)
	if resp.StatusCode != http.StatusOK || !bytes.Equal(body, s.body(url)) {
		t.Errorf("got %s, want the whole list", resp.Status)
	}
}
