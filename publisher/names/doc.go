package names

import (
	"strconv"
	"strings"

	"cutie/queuefs"
)

// A Doc names one document of a set. N is a page, from 1, or a first event;
// Version is the last event before a Resource Dump was begun. Numbers a kind
// does not have are 0.
type Doc struct {
	Kind    Kind
	N       uint64
	Version uint64
}

// A Kind is that of a document.
type Kind uint8

const (
	CapabilityList Kind = iota
	ResourceList
	ResourcePage
	ChangeIndex
	OpenList
	ClosedList
	ChangeDump
	ChangePackage
	ChangeManifest
	ResourceDump
	ResourcePackage
	ResourceManifest
	DumpPart
	FormerDump
	FormerList
	FormerPage
	FormerChanges
	ResourceListArchive
	ResourceDumpArchive
	ChangeListArchive
	ChangeDumpArchive
	ResourceListArchivePart
	ResourceDumpArchivePart
	ChangeListArchivePart
	ChangeDumpArchivePart
)

var docs = [...]struct {
	stem, suffix string
	digits       int  // of N
	versioned    bool // N is followed by Version
}{
	CapabilityList:   {"capabilitylist", ".xml", 0, false},
	ResourceList:     {"resourcelist", ".xml", 0, false},
	ResourcePage:     {"resourcelist-", ".xml", 6, false},
	ChangeIndex:      {"changelist-index", ".xml", 0, false},
	OpenList:         {"changelist", ".xml", 0, false},
	ClosedList:       {"changelist-", ".xml", seqDigits, false},
	ChangeDump:       {"changedump", ".xml", 0, false},
	ChangePackage:    {"changedump-", ".zip", seqDigits, false},
	ChangeManifest:   {"changedump-", "-manifest.xml", seqDigits, false},
	ResourceDump:     {"resourcedump", ".xml", 0, false},
	ResourcePackage:  {"resourcedump-", ".zip", 6, true},
	ResourceManifest: {"resourcedump-", "-manifest.xml", 6, true},
	DumpPart:         {"resourcedump-", ".xml", 6, true},
	FormerDump:       {"resourcedump-", ".xml", seqDigits, false},
	FormerList:       {"resourcelist-", ".xml", seqDigits, false},
	FormerPage:       {"resourcelist-", ".xml", 6, true},
	FormerChanges:    {"changedump-", ".xml", seqDigits, false},

	ResourceListArchive:     {"resourcelist-archive", ".xml", 0, false},
	ResourceDumpArchive:     {"resourcedump-archive", ".xml", 0, false},
	ChangeListArchive:       {"changelist-archive", ".xml", 0, false},
	ChangeDumpArchive:       {"changedump-archive", ".xml", 0, false},
	ResourceListArchivePart: {"resourcelist-archive-", ".xml", 6, false},
	ResourceDumpArchivePart: {"resourcedump-archive-", ".xml", 6, false},
	ChangeListArchivePart:   {"changelist-archive-", ".xml", 6, false},
	ChangeDumpArchivePart:   {"changedump-archive-", ".xml", 6, false},
}

// seqDigits is the number of digits of an event.
const seqDigits = 12

// Of returns the name of a document: numbers are N and Version, as far as the
// kind has them.
func (k Kind) Of(numbers ...uint64) Doc {
	d := Doc{Kind: k}
	if len(numbers) > 0 {
		d.N = numbers[0]
	}
	if len(numbers) > 1 {
		d.Version = numbers[1]
	}
	return d
}

// String returns the name in URLs.
func (d Doc) String() string {
	f := docs[d.Kind]
	s := f.stem
	if f.digits > 0 {
		s += fixed(d.N, f.digits)
	}
	if f.versioned {
		s += "-" + fixed(d.Version, seqDigits)
	}
	return s + f.suffix
}

// ParseDoc reads the output of String, and nothing else.
func ParseDoc(s string) (Doc, bool) {
	for kind, f := range docs {
		rest, ok := strings.CutPrefix(s, f.stem)
		numbers, ok2 := strings.CutSuffix(rest, f.suffix)
		if !ok || !ok2 {
			continue
		}
		d := Doc{Kind: Kind(kind)}
		digits, version, _ := strings.Cut(numbers, "-")
		d.N, _ = strconv.ParseUint(digits, 10, 64)
		d.Version, _ = strconv.ParseUint(version, 10, 64)
		if d.String() == s && (d.N > 0) == (f.digits > 0) && (d.Version > 0) == f.versioned {
			return d, true
		}
	}
	return Doc{}, false
}

// EntriesFile returns the name of the file with the entries of a Change List;
// first is its first event.
func EntriesFile(first queuefs.Seq) string {
	return listStem + fixed(uint64(first), seqDigits) + ".entries"
}

// GzipFile returns the name of the same in gzip.
func GzipFile(first queuefs.Seq) string { return listStem + fixed(uint64(first), seqDigits) + ".gz" }

// PackageFile returns the name of a package of changes.
func PackageFile(first queuefs.Seq) string { return ChangePackage.Of(uint64(first)).String() }

const (
	listStem   = "changelist-"
	dumpStem   = "resourcedump-"
	dumpSuffix = ".dump"
)

// ListFile reads the output of EntriesFile and GzipFile.
func ListFile(name string) (first queuefs.Seq, ok bool) {
	stem, suffix, _ := strings.Cut(name, ".")
	d, ok := ParseDoc(stem + ".xml")
	return queuefs.Seq(d.N), ok && d.Kind == ClosedList && (suffix == "entries" || suffix == "gz")
}

// DumpFile returns the name of the file of a Resource Dump; seq is the last event
// before it was begun.
func DumpFile(seq queuefs.Seq) string { return dumpStem + fixed(uint64(seq), seqDigits) + dumpSuffix }

// ParseDumpFile reads the output of DumpFile, and nothing else.
func ParseDumpFile(name string) (queuefs.Seq, bool) {
	digits, ok := strings.CutSuffix(strings.TrimPrefix(name, dumpStem), dumpSuffix)
	n, err := strconv.ParseUint(digits, 10, 64)
	return queuefs.Seq(n), ok && err == nil && n > 0 && DumpFile(queuefs.Seq(n)) == name
}
