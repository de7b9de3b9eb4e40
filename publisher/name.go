package publisher

import (
	"strconv"
	"strings"

	"cutie/queuefs"
)

// A docName names one document of a set. Numbers are those of pages, from 1,
// or of first events.
type docName struct {
	kind docKind
	n    uint64
}

type docKind uint8

const (
	capabilityList docKind = iota
	resourceList
	resourcePage
	changeIndex
	openList
	closedList
	changeDump
	changePackage
)

var docNames = [...]struct {
	stem, suffix string
	digits       int
}{
	capabilityList: {"capabilitylist", ".xml", 0},
	resourceList:   {"resourcelist", ".xml", 0},
	resourcePage:   {"resourcelist-", ".xml", 6},
	changeIndex:    {"changelist-index", ".xml", 0},
	openList:       {"changelist", ".xml", 0},
	closedList:     {"changelist-", ".xml", 12},
	changeDump:     {"changedump", ".xml", 0},
	changePackage:  {"changedump-", ".zip", 12},
}

// String returns the name as it stands in URLs.
func (d docName) String() string {
	f := docNames[d.kind]
	if f.digits == 0 {
		return f.stem + f.suffix
	}
	return f.stem + fixed(d.n, f.digits) + f.suffix
}

// parseDocName accepts only what String prints.
func parseDocName(s string) (docName, bool) {
	for kind, f := range docNames {
		rest, ok := strings.CutPrefix(s, f.stem)
		digits, ok2 := strings.CutSuffix(rest, f.suffix)
		if !ok || !ok2 || len(digits) != f.digits {
			continue
		}
		d := docName{kind: docKind(kind)}
		if f.digits > 0 {
			d.n, _ = strconv.ParseUint(digits, 10, 64)
		}
		if d.String() == s && (f.digits == 0 || d.n > 0) {
			return d, true
		}
	}
	return docName{}, false
}

// Parts of a Source Description with more than MaxEntries sets.
const (
	partStem   = "description-"
	partDigits = 6
)

func partName(n int) string { return partStem + fixed(uint64(n), partDigits) + ".xml" }

// parsePartName accepts only what partName prints.
func parsePartName(s string) (int, bool) {
	digits := strings.TrimSuffix(strings.TrimPrefix(s, partStem), ".xml")
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0 && partName(n) == s
}

// Names of the files of the Change List, and package, that begins with first.
func entriesFile(first queuefs.Seq) string {
	return "changelist-" + fixed(uint64(first), 12) + ".entries"
}
func gzipFile(first queuefs.Seq) string { return "changelist-" + fixed(uint64(first), 12) + ".gz" }

// fixed returns n with leading zeros.
func fixed(n uint64, digits int) string {
	s := strconv.FormatUint(n, 10)
	return strings.Repeat("0", max(0, digits-len(s))) + s
}
