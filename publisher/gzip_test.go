package publisher_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"path/filepath"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/testdata/long"
)

// gunzip returns what a document in gzip holds, read as many clients do: they
// know one member only, and drop silently what follows it.
func gunzip(t testing.TB, octets []byte) []byte {
	t.Helper()
	in := bytes.NewReader(octets)
	z, err := gzip.NewReader(in)
	must(t, err)
	z.Multistream(false)
	text, err := io.ReadAll(z) // checks CRC-32 and length at the end
	must(t, err)
	if in.Len() > 0 {
		t.Errorf("%d of %d octets stand behind the first member", in.Len(), len(octets))
	}
	return text
}

// checkGzip compares the gzip form of a document with the document.
func (s *source) checkGzip(url string) {
	s.Helper()
	resp := s.get(url, "Accept-Encoding", "gzip")
	octets := read(s, resp)
	if got := resp.Header.Get("Content-Encoding"); got != "gzip" {
		s.Errorf("%s: %s, Content-Encoding %q", url, resp.Status, got)
		return
	}
	if got, want := gunzip(s, octets), s.body(url); !bytes.Equal(got, want) {
		s.Errorf("%s: gzip form has %d octets, want %d", url, len(got), len(want))
	}
}

func TestGzipFormIsOneMember(t *testing.T) {
	t.Parallel()
	s, urls := published(t)
	for _, dir := range []string{"", "/jobs/pending", "/jobs/replica"} {
		for _, name := range []string{"/about.html", "/about.json"} {
			urls = append(urls, base+"/.well-known/resourcesync"+dir+name)
		}
	}
	must(t, s.pub.Publish(context.Background()))
	for _, set := range []string{"pending", "replica"} {
		for url := range everything(s, set) { // checks each on the way
			urls = append(urls, url)
		}
	}
	for _, url := range urls {
		if filepath.Ext(url) != ".zip" {
			s.checkGzip(url)
		}
	}
}

// TestGzipFormOfAListThatGrows goes on appending to a Change List, over several
// of its blocks, then closes it.
func TestGzipFormOfAListThatGrows(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSource(t, publisher.Options{Period: time.Hour, Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	var urls, closed []string
	for _, set := range []string{"pending", "replica"} {
		urls = append(urls, s.doc(q, set, "changelist.xml"), s.doc(q, set, "resourcelist.xml"), s.doc(q, set, "resourcelist-000001.xml"))
		closed = append(closed, s.doc(q, set, "changelist-000000000001.xml"))
	}
	check := func(urls []string) {
		t.Helper()
		for _, url := range urls {
			s.checkGzip(url)
			checkRanges(s, url, read(t, s.get(url, "Accept-Encoding", "gzip")), "Accept-Encoding", "gzip")
		}
	}
	check(urls)
	for range long.N(3, 12) {
		s.submitN(q, 100)
		check(urls)
		s.consume(q, 70)
		check(urls)
	}
	s.reopen() // nothing is kept in memory
	check(urls)
	now = now.Add(2 * time.Hour)
	s.submitN(s.queue("jobs"), 1)
	must(t, s.pub.Flush())
	must(t, s.pub.CloseOld())
	check(append(urls, closed...)) // before it has a file
	before := read(t, s.get(closed[0], "Accept-Encoding", "gzip"))
	s.settle()
	check(append(urls, closed...))
	if after := read(t, s.get(closed[0], "Accept-Encoding", "gzip")); !bytes.Equal(after, before) {
		t.Errorf("the closed list has %d octets in gzip out of its file, and had %d", len(after), len(before))
	}
}
