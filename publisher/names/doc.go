package names

import (
	"strconv"
	"strings"

	"cutie/queuefs/job"
)

// A Doc names one document of a set. N is a page, from 1, or a first event;
// Version is the last event before a Resource Dump was begun. Numbers a kind
// does not have are 0.
//
// The name of a document that never changes has a digest of what its bytes follow
// from, so that it never stands for others: caches keep it for good. Without the
// digest it is the name of a file, and an alias.
type Doc struct {
	Kind    Kind
	N       uint64
	Version uint64
	Sum     string // digestLength digits in hexadecimal, or ""
}

// digestLength is the length of Sum.
const digestLength = 8

// As returns the name with a digest in hexadecimal, without one if it is too short.
func (d Doc) As(digest string) Doc {
	if len(digest) >= digestLength {
		d.Sum = digest[:digestLength]
	}
	return d
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
	Sitemap
	SitemapPage
)

var docs = [...]struct {
	stem, suffix string
	digits       int  // of N
	versioned    bool // N is followed by Version
	final        bool // it never changes
}{
	CapabilityList:   {"capabilitylist", ".xml", 0, false, false},
	ResourceList:     {"resourcelist", ".xml", 0, false, false},
	ResourcePage:     {"resourcelist-", ".xml", 6, false, false},
	ChangeIndex:      {"changelist-index", ".xml", 0, false, false},
	OpenList:         {"changelist", ".xml", 0, false, false},
	ClosedList:       {"changelist-", ".xml", seqDigits, false, true},
	ChangeDump:       {"changedump", ".xml", 0, false, false},
	ChangePackage:    {"changedump-", ".zip", seqDigits, false, true},
	ChangeManifest:   {"changedump-", "-manifest.xml", seqDigits, false, true},
	ResourceDump:     {"resourcedump", ".xml", 0, false, false},
	ResourcePackage:  {"resourcedump-", ".zip", 6, true, true},
	ResourceManifest: {"resourcedump-", "-manifest.xml", 6, true, true},
	DumpPart:         {"resourcedump-", ".xml", 6, true, true},
	FormerDump:       {"resourcedump-", ".xml", seqDigits, false, true},
	FormerList:       {"resourcelist-", ".xml", seqDigits, false, true},
	FormerPage:       {"resourcelist-", ".xml", 6, true, true},
	FormerChanges:    {"changedump-", ".xml", seqDigits, false, true},

	ResourceListArchive:     {"resourcelist-archive", ".xml", 0, false, false},
	ResourceDumpArchive:     {"resourcedump-archive", ".xml", 0, false, false},
	ChangeListArchive:       {"changelist-archive", ".xml", 0, false, false},
	ChangeDumpArchive:       {"changedump-archive", ".xml", 0, false, false},
	ResourceListArchivePart: {"resourcelist-archive-", ".xml", 6, false, false},
	ResourceDumpArchivePart: {"resourcedump-archive-", ".xml", 6, false, false},
	ChangeListArchivePart:   {"changelist-archive-", ".xml", 6, false, false},
	ChangeDumpArchivePart:   {"changedump-archive-", ".xml", 6, false, false},

	// Without terms of ResourceSync.
	Sitemap:     {"sitemap", ".xml", 0, false, false},
	SitemapPage: {"sitemap-", ".xml", 6, false, false},
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
	if d.Sum != "" {
		s += "-" + d.Sum
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
		if f.final {
			numbers, d.Sum = cutDigest(numbers)
		}
		digits, version, _ := strings.Cut(numbers, "-")
		d.N, _ = strconv.ParseUint(digits, 10, 64)
		d.Version, _ = strconv.ParseUint(version, 10, 64)
		if d.String() == s && (d.N > 0) == (f.digits > 0) && (d.Version > 0) == f.versioned {
			return d, true
		}
	}
	return Doc{}, false
}

// cutDigest takes a digest off the end of the numbers in a name, if there is one.
func cutDigest(numbers string) (rest, digest string) {
	i := len(numbers) - digestLength
	if i < 1 || numbers[i-1] != '-' || strings.Trim(numbers[i:], "0123456789abcdef") != "" {
		return numbers, ""
	}
	return numbers[:i-1], numbers[i:]
}

// EntriesFile returns the name of the file with the entries of a Change List;
// first is its first event.
func EntriesFile(first job.Seq) string {
	return listStem + fixed(uint64(first), seqDigits) + ".entries"
}

// GzipFile returns the name of the same in gzip.
func GzipFile(first job.Seq) string { return listStem + fixed(uint64(first), seqDigits) + ".gz" }

// PackageFile returns the name of a package of changes.
func PackageFile(first job.Seq) string { return ChangePackage.Of(uint64(first)).String() }

const (
	openSuffix = ".open"
	listStem   = "changelist-"
)

// ListFile reads the output of EntriesFile and GzipFile.
func ListFile(name string) (first job.Seq, ok bool) {
	stem, suffix, _ := strings.Cut(name, ".")
	d, ok := ParseDoc(stem + ".xml")
	return job.Seq(d.N), ok && d.Kind == ClosedList && (suffix == "entries" || suffix == "gz")
}
