package set

import (
	"strings"
	"testing"
	"time"
)

// TestLinesOfTheCursor reads lines as they are printed, and no others.
func TestLinesOfTheCursor(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)
	open := OpenList{First: 3, Read: 9, From: at, Until: at, Since: at, Changed: at, Entries: 7, Length: 700}
	files := open
	files.Files = 50
	digest := strings.Repeat("0af9", 16)
	parse := func(line string) (l Line, err error) {
		rest, _ := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "jobs pending ")
		l.Queue = "jobs"
		return l, l.parse(words{left: rest})
	}
	for name, o := range map[string]OpenList{"empty": NewOpenList(9, at), "files": files, "deletions": open} {
		want := Line{Queue: "jobs", Open: o, SHA256: Unknown, List: 2, Files: Files{Lists: 1, Octets: 5}}
		if o.Entries > 0 {
			want.SHA256 = digest
		}
		line := string(want.append(nil))
		if got, err := parse(line); err != nil || got != want {
			t.Errorf("%s: %q: got %+v, %v", name, line, got, err)
		}
	}
	was := string((&Line{Queue: "jobs", Open: files, SHA256: digest}).append(nil))
	if _, err := parse(strings.Replace(was, digest, Unknown, 1)); err == nil {
		t.Errorf("entries without their digest were read")
	}
	for _, end := range []string{" 5", " -1"} {
		if got, err := parse(strings.TrimSuffix(was, "\n") + end); err == nil {
			t.Errorf("%q was read: %+v", end, got)
		}
	}
}
