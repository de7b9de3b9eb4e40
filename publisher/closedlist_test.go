package publisher_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/publisher/names"
	"cutie/queuefs/job"
)

// onDisk returns the bytes of the lists, packages and dumps of a set on disk.
func (s *source) onDisk(queue, set string) (octets int64) {
	s.Helper()
	for _, pattern := range []string{"changelist-*", "*.zip"} {
		all, err := filepath.Glob(filepath.Join(s.dir, "resourcesync", queue, set, pattern))
		must(s, err)
		for _, name := range all {
			st, err := os.Stat(name)
			must(s, err)
			octets += st.Size()
		}
	}
	return octets
}

// listFiles returns the names of the files of lists of the queue jobs.
func listFiles(s *source) (all []string) {
	s.Helper()
	for _, set := range []string{"pending", "replica"} {
		for _, name := range filesLike(s, set, "changelist-*") {
			all = append(all, set+"/"+filepath.Base(name))
		}
	}
	return all
}

// compressed reports whether each set has one file of entries, and it is not of a list in gzip.
func compressed(s *source) bool {
	s.Helper()
	for _, set := range []string{"pending", "replica"} {
		open := filesLike(s, set, "changelist-*.entries")
		closed := filesLike(s, set, "changelist-*.gz")
		if len(open) != 1 || len(closed) < 2 || strings.TrimSuffix(open[0], ".entries") <= strings.TrimSuffix(closed[len(closed)-1], ".gz") {
			return false
		}
	}
	return true
}

// A list whose entries stand in gzip alone is the document it was before, in each coding and
// each part, with the same headers.
func TestCompressedListsAreTheDocumentsTheyWere(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 700}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 1500) // a list has several runs
	must(t, s.pub.Flush())
	type answer struct {
		status int
		header string
		octets string
	}
	ask := func(url string, headers ...string) answer {
		t.Helper()
		resp := s.get(url, headers...)
		text := read(t, resp)
		h := resp.Header.Clone()
		h.Del("Date")
		h.Del("Last-Modified") // stands two seconds later
		var header bytes.Buffer
		must(t, h.Write(&header))
		if strings.Contains(h.Get("Content-Type"), "multipart") { // its boundary is at random
			_, boundary, _ := strings.Cut(h.Get("Content-Type"), "boundary=")
			return answer{resp.StatusCode, "", strings.ReplaceAll(string(text), boundary, "")}
		}
		return answer{resp.StatusCode, header.String(), string(text)}
	}
	all := func() map[string]answer {
		t.Helper()
		answers := map[string]answer{}
		for _, set := range []string{"pending", "replica"} {
			for _, e := range s.document(s.doc(q, set, "changelist-index.xml")).entries {
				if e.Until.IsZero() {
					continue
				}
				for _, coding := range []string{"identity", "gzip", "zstd"} {
					for _, part := range []string{"", "bytes=0-0", "bytes=100-70000", "bytes=66000-66010", "bytes=150000-", "bytes=-300", "bytes=10-20,140000-140100"} {
						headers := []string{"Accept-Encoding", coding}
						if part != "" {
							headers = append(headers, "Range", part)
						}
						answers[e.Loc+" "+coding+" "+part] = ask(e.Loc, headers...)
					}
				}
			}
		}
		return answers
	}
	want := all()
	if len(want) < 4*3*7 {
		t.Fatalf("%d answers", len(want))
	}
	compare := func(when string) {
		t.Helper()
		for key, got := range all() {
			if got != want[key] {
				t.Errorf("%s: %s: got %d, %d octets, want %d, %d;\n%s\n%s", when, key, got.status, len(got.octets), want[key].status, len(want[key].octets), got.header, want[key].header)
			}
		}
	}
	s.settle()
	if !compressed(s) {
		t.Errorf("files of lists: %q", listFiles(s))
	}
	compare("compressed")
	s.reopen()
	q = s.queue("jobs")
	compare("opened again")

	// Excerpts begin anywhere.
	for after := job.Seq(1); after < 1300; after += 211 {
		entries, upto, more, err := s.pub.Excerpt(q, names.Pending, after, 5000)
		must(t, err)
		if first := bytes.Index(entries, fmt.Appendf(nil, `cut:seq="%d"`, after+1)); first < 0 || first > 800 || !more || upto.Seq <= after || upto.Seq > after+20 {
			t.Errorf("after %d: %d octets up to %v, %.300s", after, len(entries), upto, entries)
		}
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}
