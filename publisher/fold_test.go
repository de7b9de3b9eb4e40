package publisher_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cutie/publisher"
	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// onDisk returns the bytes of the lists, packages and dumps of a set on disk.
func (s *source) onDisk(queue, set string) (octets int64) {
	s.Helper()
	for _, pattern := range []string{"changelist-*", "*.zip", "*.zip.open"} {
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

// unfold makes the files of the closed lists of the queue jobs what they were before they were
// folded. The Source is closed.
func (s *source) unfold() {
	s.Helper()
	for _, set := range []string{"pending", "replica"} {
		for _, name := range filesLike(s, set, "changelist-*.gz") {
			octets, err := os.ReadFile(name)
			must(s, err)
			in := bytes.NewReader(octets)
			z, err := gzip.NewReader(in)
			must(s, err)
			z.Multistream(false)
			text, err := io.ReadAll(z)
			must(s, err)
			must(s, os.WriteFile(strings.TrimSuffix(name, ".gz")+".entries", text, 0o600))
			must(s, os.Remove(name))
		}
	}
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

// folded reports whether each set has one file of entries, and it is not of a list in gzip.
func folded(s *source) bool {
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

// homeWithLists has closed lists with packages, and its journal.
func homeWithLists(t testing.TB) *source {
	t.Helper()
	s := newSource(t, publisher.Options{MaxEntries: 20}, "jobs")
	for round := range 4 {
		activity(s, s.queue("jobs"), round)
		must(t, s.pub.Flush())
	}
	s.settle()
	if !folded(s) {
		t.Fatalf("files of lists: %q", listFiles(s))
	}
	return s
}

// A list whose entries stand in gzip alone is the document it was before, in each coding and
// each part, with the same headers.
func TestFoldedListsAreTheDocumentsTheyWere(t *testing.T) {
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
	if !folded(s) {
		t.Errorf("files of lists: %q", listFiles(s))
	}
	compare("folded")
	s.reopen()
	q = s.queue("jobs")
	compare("opened again")

	// Excerpts begin anywhere.
	v, err := s.pub.View("jobs", names.Pending)
	must(t, err)
	for after := queuefs.Seq(1); after < 1300; after += 211 {
		x, err := v.Excerpt(entries.Position{Seq: after, At: v.Position().At}, 5000)
		must(t, err)
		if first := bytes.Index(x.Entries, fmt.Appendf(nil, `cut:seq="%d"`, after+1)); first < 0 || first > 800 || !x.More || x.Upto.Seq <= after || x.Upto.Seq > after+20 {
			t.Errorf("after %d: %d octets up to %v, %.300s", after, len(x.Entries), x.Upto, x.Entries)
		}
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// Lists that were being folded at a crash are folded by Ticks. Damage of one of two files
// costs nothing.
func TestListsWithBothFilesAreFolded(t *testing.T) {
	t.Parallel()
	template := homeWithLists(t)
	template.close()
	flip := func(name string) { edit(t, name, func(b []byte) []byte { b[len(b)/2] ^= 4; return b }) }
	for _, c := range []struct {
		name    string
		pattern string
		damage  func(name string)
		told    bool
	}{
		{name: "both files"},
		{name: "entries alone", pattern: "changelist-*.gz", damage: func(name string) { must(t, os.Remove(name)) }},
		{name: "damaged gzip", pattern: "changelist-*.gz", damage: flip, told: true},
		{name: "damaged entries", pattern: "changelist-*.entries", damage: flip, told: true},
		{name: "cut entries", pattern: "changelist-*.entries", damage: func(name string) { edit(t, name, func(b []byte) []byte { return b[:len(b)/2] }) }, told: true},
	} {
		s := template.copied(t)
		want := s.documentsNow()
		files := map[string]string{}
		for _, set := range []string{"pending", "replica"} {
			for _, name := range filesLike(s, set, "changelist-*.gz") {
				octets, err := os.ReadFile(name)
				must(t, err)
				files[name] = string(octets)
			}
		}
		s.close()
		open := openLists(s)
		s.unfold()
		for name, octets := range files {
			must(t, os.WriteFile(name, []byte(octets), 0o600))
		}
		if c.damage != nil {
			for _, set := range []string{"pending", "replica"} {
				for _, name := range filesLike(s, set, c.pattern) {
					if !open[name] {
						c.damage(name)
					}
				}
			}
		}
		s.open()
		s.neverWrong(want)
		s.settle()
		sameDocuments(t, s.documentsNow(), want)
		if !folded(s) {
			t.Errorf("%s: files of lists: %q", c.name, listFiles(s))
		}
		for name, octets := range files {
			if got, err := os.ReadFile(name); err != nil || string(got) != octets {
				t.Errorf("%s: %s has %d octets, had %d; %v", c.name, name, len(got), len(octets), err)
			}
		}
		if (len(s.problems) > 0) != c.told || s.pub.Care().Lost != 0 {
			t.Errorf("%s: problems: %q", c.name, s.problems)
		}
		s.problems = nil
		s.reopen()
		must(t, s.pub.Verify(context.Background()))
		sameDocuments(t, s.documentsNow(), want)
		if len(s.problems) > 0 {
			t.Errorf("%s: problems later: %q", c.name, s.problems)
		}
	}
}

// TestAListReadOtherwiseIsNotFolded changes the entries of closed lists in the memory of the
// system: the file looks as it was left, and other octets are read.
func TestAListReadOtherwiseIsNotFolded(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 20}, "jobs")
	for round := range 4 {
		activity(s, s.queue("jobs"), round)
		must(t, s.pub.Flush())
	}
	lists := func() map[string]string {
		all := s.documentsNow()
		maps.DeleteFunc(all, func(url, _ string) bool { return !strings.Contains(url, "/changelist") })
		return all
	}
	want := lists()
	for _, set := range []string{"pending", "replica"} {
		closed := filesLike(s, set, "changelist-*.entries")
		for _, name := range closed[:len(closed)-1] {
			file, err := os.OpenFile(name, os.O_RDWR, 0)
			must(t, err)
			st, err := file.Stat()
			must(t, err)
			octets, err := unix.Mmap(int(file.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			must(t, err)
			octets[len(octets)/2] ^= 1
			must(t, unix.Munmap(octets))
			must(t, file.Close())
		}
	}
	s.settle()
	sameDocuments(t, lists(), want)
	if !folded(s) || len(s.problems) < 5 || s.pub.Care().Lost != 0 {
		t.Errorf("files of lists: %q; problems: %q", listFiles(s), s.problems)
	}
	for _, p := range s.problems {
		if !strings.Contains(p, "made again from") {
			t.Errorf("problem: %s", p)
		}
	}
}

// openLists are the files with entries now: of open lists.
func openLists(s *source) map[string]bool {
	s.Helper()
	open := map[string]bool{}
	for _, set := range []string{"pending", "replica"} {
		for _, name := range filesLike(s, set, "changelist-*.entries") {
			open[name] = true
		}
	}
	return open
}

// TestEveryStepOfFoldingMayFail fails each step, or dies at it; either way no list is lost, and
// in the end all are folded.
func TestEveryStepOfFoldingMayFail(t *testing.T) {
	t.Parallel()
	template := homeWithLists(t)
	want := template.documentsNow()
	template.close()
	template.unfold()
	var s *source
	var opened bool
	play := func(fault durable.Fault) {
		s = template.copied(t)
		must(t, s.pub.Close())
		s.opts.Fault = fault
		pub, err := publisher.New(s.svc, s.opts)
		if errors.Is(err, errFault) { // it died while it was opened, or tries again
			pub, err = publisher.New(s.svc, s.opts)
		}
		if opened = err == nil; !opened {
			return
		}
		s.pub = pub
		s.svc.Follow(pub)
		for range 3 {
			if err := s.pub.Tick(context.Background()); err != nil && !errors.Is(err, errFault) && !errors.Is(err, queuefs.ErrFailed) {
				t.Fatal(err)
			}
		}
	}
	for _, dies := range []bool{false, true} {
		steps := eachStep(play, dies, func(step string, fault durable.Fault) {
			play(fault)
			for url, octets := range want {
				if !opened {
					break
				}
				resp := s.get(url)
				if got := read(t, resp); resp.StatusCode == http.StatusOK && final(url) && string(got) != octets {
					t.Errorf("%s: %s has other octets", step, url)
				}
			}
			s.opts.Fault = nil
			s.crash()
			s.settle()
			sameDocuments(t, s.documentsNow(), want)
			if !folded(s) || len(s.problems) > 0 || t.Failed() {
				t.Fatalf("%s: problems %q, files of lists %q", step, s.problems, listFiles(s))
			}
			s.close()
			must(t, os.RemoveAll(s.dir))
		})
		if len(steps) < 10 {
			t.Errorf("steps: %q", steps)
		}
	}
}
