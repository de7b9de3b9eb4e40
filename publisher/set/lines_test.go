package set

import (
	"strings"
	"testing"
	"time"

	"cutie/publisher/names"
)

func TestLinesAreWhatWasPacked(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)
	full := Line{
		Open: OpenList{First: 3, Read: 1 << 40, From: at, Until: at.Add(time.Hour), Since: at.Add(time.Microsecond), Changed: at.Add(time.Minute), Entries: 300, Length: 1 << 33,
			Files: 77},
		SHA256: strings.Repeat("0af9", 16), List: 2, Package: 1, Dump: 127,
		Files: Files{Lists: 128, Packages: 16384, Dumps: 2, Left: 1, Octets: 1<<62 + 1},
	}
	fresh := Line{Open: NewOpenList(0, at), SHA256: Unknown}
	without := full
	without.Open.Files = 77
	early := Line{Open: NewOpenList(5, time.Unix(-1, 0).UTC()), SHA256: Unknown}
	for _, of := range [][names.Sets]Line{{full, full}, {full, fresh}, {fresh, full}, {without, full}, {fresh, early}, {{SHA256: Unknown}, fresh}} {
		for i := range of {
			of[i].Queue, of[i].Set = "jobs", names.Set(i)
		}
		if got := Pack(&of).Of("jobs"); got != of {
			t.Errorf("got  %+v\nwant %+v", got, of)
		}
		if got := Pack(&of).Open(); got != [names.Sets]OpenList{of[0].Open, of[1].Open} {
			t.Errorf("got  %+v\nwant those of %+v", got, of)
		}
	}
}
