package publisher

import (
	"strconv"
	"strings"

	"cutie/queuefs"
)

// A docName names one document of a set. The number n is that of a page, from
// 1, or of a first event; version is the event that a Resource Dump was begun
// after. What a kind does not have is 0.
type docName struct {
	kind    docKind
	n       uint64
	version uint64
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
	changeManifest
	resourceDump
	resourcePackage
	resourceManifest
	dumpPart
	formerDump
	formerList
	formerPage
	formerChanges
	resourceListArchive
	resourceDumpArchive
	changeListArchive
	changeDumpArchive
	resourceListArchivePart
	resourceDumpArchivePart
	changeListArchivePart
	changeDumpArchivePart
)

var docNames = [...]struct {
	stem, suffix string
	digits       int  // of n
	versioned    bool // n is followed by a version
}{
	capabilityList:   {"capabilitylist", ".xml", 0, false},
	resourceList:     {"resourcelist", ".xml", 0, false},
	resourcePage:     {"resourcelist-", ".xml", 6, false},
	changeIndex:      {"changelist-index", ".xml", 0, false},
	openList:         {"changelist", ".xml", 0, false},
	closedList:       {"changelist-", ".xml", 12, false},
	changeDump:       {"changedump", ".xml", 0, false},
	changePackage:    {"changedump-", ".zip", 12, false},
	changeManifest:   {"changedump-", "-manifest.xml", 12, false},
	resourceDump:     {"resourcedump", ".xml", 0, false},
	resourcePackage:  {"resourcedump-", ".zip", 6, true},
	resourceManifest: {"resourcedump-", "-manifest.xml", 6, true},
	dumpPart:         {"resourcedump-", ".xml", 6, true},
	formerDump:       {"resourcedump-", ".xml", versionDigits, false},
	formerList:       {"resourcelist-", ".xml", versionDigits, false},
	formerPage:       {"resourcelist-", ".xml", 6, true},
	formerChanges:    {"changedump-", ".xml", 12, false},

	resourceListArchive:     {"resourcelist-archive", ".xml", 0, false},
	resourceDumpArchive:     {"resourcedump-archive", ".xml", 0, false},
	changeListArchive:       {"changelist-archive", ".xml", 0, false},
	changeDumpArchive:       {"changedump-archive", ".xml", 0, false},
	resourceListArchivePart: {"resourcelist-archive-", ".xml", 6, false},
	resourceDumpArchivePart: {"resourcedump-archive-", ".xml", 6, false},
	changeListArchivePart:   {"changelist-archive-", ".xml", 6, false},
	changeDumpArchivePart:   {"changedump-archive-", ".xml", 6, false},
}

const versionDigits = 12

// String returns the name as it stands in URLs.
func (d docName) String() string {
	f := docNames[d.kind]
	s := f.stem
	if f.digits > 0 {
		s += fixed(d.n, f.digits)
	}
	if f.versioned {
		s += "-" + fixed(d.version, versionDigits)
	}
	return s + f.suffix
}

// parseDocName accepts only what String prints.
func parseDocName(s string) (docName, bool) {
	for kind, f := range docNames {
		rest, ok := strings.CutPrefix(s, f.stem)
		numbers, ok2 := strings.CutSuffix(rest, f.suffix)
		if !ok || !ok2 {
			continue
		}
		d := docName{kind: docKind(kind)}
		digits, version, _ := strings.Cut(numbers, "-")
		d.n, _ = strconv.ParseUint(digits, 10, 64)
		d.version, _ = strconv.ParseUint(version, 10, 64)
		if d.String() == s && (d.n > 0) == (f.digits > 0) && (d.version > 0) == f.versioned {
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
func changePackageFile(first queuefs.Seq) string {
	return docName{kind: changePackage, n: uint64(first)}.String()
}

// fixed returns n with leading zeros.
func fixed(n uint64, digits int) string {
	s := strconv.FormatUint(n, 10)
	return strings.Repeat("0", max(0, digits-len(s))) + s
}
