package store

import (
	"strings"
	"testing"
	"time"
)

// TestLinesOfTheCursor reads lines as they are printed, and as former versions did.
func TestLinesOfTheCursor(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)
	open := OpenList{First: 3, Read: 9, From: at, Until: at, Since: at, Changed: at, Entries: 7, Length: 700}
	grows, lacks, gaveUp := open, open, open
	grows.Pack = Package{Files: 5, Octets: 50, Length: 500}
	lacks.Pack.Length = NoPackage
	gaveUp.Pack = Package{Files: 5, Octets: 50, Length: NoPackage}
	deletions := open // a package grows, and has nothing yet
	parse := func(line string) (l Line, err error) {
		rest, _ := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "jobs pending ")
		l.Queue = "jobs"
		return l, l.parse(words{left: rest})
	}
	for name, o := range map[string]OpenList{"empty": NewOpenList(9, at), "grows": grows, "lacks": lacks, "gave up": gaveUp, "deletions": deletions} {
		want := Line{Queue: "jobs", Open: o, SHA256: Unknown, List: 2, Files: Files{Lists: 1, Octets: 5}}
		line := string(want.append(nil))
		if got, err := parse(line); err != nil || got != want {
			t.Errorf("%s: %q: got %+v, %v", name, line, got, err)
		}
		for i := range strings.Fields(line) {
			cut := strings.Join(strings.Fields(line)[:i], " ")
			if got, err := parse(cut); err == nil && got.Open.Entries > 0 && got.Open.Pack.Length != NoPackage {
				t.Errorf("%s: %q: a package grows: %+v", name, cut, got)
			}
		}
	}
	was := "jobs pending " + strings.TrimPrefix(string((&Line{Queue: "jobs", Open: lacks}).append(nil)), "jobs pending ")
	if n := len(strings.Fields(was)); n != 19 {
		t.Errorf("a list without a growing package has %d words: a former version reads no more", n)
	}
	for _, end := range []string{" 5 50", " 5 50 -2", " -1 50 500", " 5 50 500 1"} {
		if got, err := parse(strings.TrimSuffix(was, "\n") + end); err == nil {
			t.Errorf("%q was read: %+v", end, got)
		}
	}
}
