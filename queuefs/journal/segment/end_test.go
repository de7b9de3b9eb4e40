package segment_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs/journal"
)

// reopened opens a copy of a journal that was closed in order with the record before end,
// adds a record, and opens it once more. It returns the records of the first time and
// all of the second one.
func reopened(t *testing.T, files map[string]string, end journal.LSN) (found, all []entry, reports []string) {
	t.Helper()
	path := place(t, files)
	j := &ledger{TB: t}
	j.options.End = end
	if err := j.open(path, 0, nil); err != nil {
		t.Fatal(err)
	}
	found, reports = j.found, j.reports
	j.put("one more")
	j.close()
	again := open(t, path, 0, nil)
	defer again.close()
	return found, again.found, reports
}

// A journal that is not read behind its end is the same journal, wherever it ended and
// whatever was damaged before that.
func TestTheEndOfAJournalIsKnown(t *testing.T) {
	for _, n := range []int{1, 2, 5, 9, 30} {
		files, written, places := sample(t, func(n int) int { return 10 + n%7*3000 }, n)
		end := written[n-1].at + 1
		check := func(files map[string]string, end journal.LSN) {
			t.Helper()
			found, all, reports := reopened(t, files, end)
			wantFound, wantAll, wantReports := reopened(t, files, 0)
			if !slices.Equal(found, wantFound) || !slices.Equal(all, wantAll) || !slices.Equal(reports, wantReports) {
				t.Errorf("%d records, end %d: found %d of %d records, then %d of %d; reported %q, not %q", n, end, len(found), len(wantFound), len(all), len(wantAll), reports, wantReports)
			}
		}
		for end := range end + 2 { // the journal may go on behind an end that is told
			check(files, end)
		}
		for _, p := range places {
			name := fmt.Sprintf("%016x.log", p.segment)
			for _, with := range []string{"\x00", "\xff"} {
				c := maps.Clone(files)
				at := p.off &^ 4095
				c[name] = c[name][:at] + strings.Repeat(with, 4096) + c[name][at+4096:]
				check(c, end)
			}
		}
	}
}

// What lies behind the end is not looked at; a batch begun there is told of.
func TestNothingIsReadBehindTheEnd(t *testing.T) {
	files, written, places := sample(t, func(int) int { return 100 }, 5)
	name := fmt.Sprintf("%016x.log", places[0].segment)
	block := func(i int) int { return (places[i].off - 28) &^ 4095 }
	stray := maps.Clone(files)
	stray[name] = files[name][:block(3)] + strings.Repeat("\x00", 4096) + files[name][block(4):]
	found, _, reports := reopened(t, stray, written[2].at+1)
	if !slices.Equal(found, written[:3]) || len(reports) > 0 {
		t.Errorf("a batch without the one before it: found %d records, reported %q", len(found), reports)
	}
	if found, _, reports = reopened(t, stray, 0); len(found) != 4 || len(reports) != 1 {
		t.Errorf("where the end is not known: found %d records, reported %q", len(found), reports)
	}
	torn := maps.Clone(files)
	torn[name] = files[name][:places[3].off+50] + strings.Repeat("\xff", 50) + files[name][places[3].off+100:]
	if found, _, reports = reopened(t, torn, written[2].at+1); len(found) != 4 || len(reports) != 1 {
		t.Errorf("a damaged batch at the end: found %d records, reported %q", len(found), reports)
	}
}
