package set

import (
	"cutie/publisher/names"
	"slices"
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
	for name, o := range map[string]OpenList{"empty": NewOpenList(9, at), "files": files, "deletions": open} {
		var want [names.Sets]Line
		for i := range want {
			want[i] = Line{Queue: "jobs", Set: names.Set(i), Open: o, SHA256: Unknown, List: 2, Files: Files{Lists: 1, Octets: 5}}
			if o.Entries > 0 {
				want[i].SHA256 = digest
			}
		}
		if got, err := LinesOf(&want).Parse(); err != nil || got != want {
			t.Errorf("%s: %q: got %+v, %v", name, LinesOf(&want), got, err)
		}
		text := string(printCursor(nil, "stamp", slices.Values([]Lines{LinesOf(&want)})))
		if got, err := parseCursor(text, "stamp"); err != nil || got["jobs"] != LinesOf(&want) {
			t.Errorf("%s: %q: got %q, %v", name, text, got, err)
		}
		for i := range text {
			if got, err := parseCursor(text[:i], "stamp"); err == nil {
				t.Fatalf("%q was read: %q", text[:i], got)
			}
		}
		if _, err := parseCursor(text, "other"); err == nil {
			t.Errorf("the cursor of another stamp was read")
		}
		for _, other := range [][2]string{{digest, Unknown}, {" 5\n", " 5 5\n"}, {" 5\n", " 5 -1\n"}, {"pending", "replica"}, {"jobs replica", "other replica"}, {"end 1", "end 2"}} {
			if bad := strings.ReplaceAll(text, other[0], other[1]); bad != text {
				if got, err := parseCursor(bad, "stamp"); err == nil {
					t.Errorf("%q was read: %q", bad, got)
				}
			}
		}
	}
}
