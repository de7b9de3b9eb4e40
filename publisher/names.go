package publisher

import (
	"net/url"
	"strconv"
	"strings"

	"cutie/queuefs"
	"cutie/wellknown"
)

// A Set is one of the two sets of resources of a queue.
type Set uint8

const (
	// Pending has one resource for each pending job: its payload.
	Pending Set = iota

	// Replica has every file of the queue directory. Copied into a directory
	// it is a queue.
	Replica

	numSets = 2
)

var setNames = [numSets]string{"pending", "replica"}

// String returns the name of the set in URLs.
func (s Set) String() string { return setNames[s] }

// parseSet accepts what String prints.
func parseSet(name string) (Set, bool) {
	for i, n := range setNames {
		if n == name {
			return Set(i), true
		}
	}
	return 0, false
}

// size returns how many entries the Resource List has for a queue, or a page of
// it, without queue-info.txt.
func (s Set) size(pending, total int) int {
	if s == Pending {
		return pending
	}
	return 2 * total
}

// perJob is the most entries of the Resource List for one job.
func (s Set) perJob() int { return s.size(1, 1) }

// A site is the base URI without a final slash.
type site string

func (s site) description() string { return string(s) + wellknown.Path }

// names are the references of one queue. Directories end with a slash.
type names struct {
	site   string                      // the base URI
	queue  string                      // state of the queue
	states string                      // directory of the states of jobs
	files  string                      // queue directory
	info   string                      // queue-info.txt
	jobs   [queuefs.Deleted + 1]string // directory of job files by status
	paths  string                      // directory of payloads
	docs   [numSets]string             // directory of documents by set
}

func (s site) queue(id string) *names {
	n := &names{site: string(s), queue: string(s) + "/state/" + escape(id), files: string(s) + "/queues/" + escape(id) + "/"}
	n.states = n.queue + "/"
	n.info = n.files + "queue-info.txt"
	n.paths = n.files + "payload/"
	for st := queuefs.Pending; st <= queuefs.Deleted; st++ {
		n.jobs[st] = n.files + st.String() + "/"
	}
	for i := range n.docs {
		n.docs[i] = s.description() + "/" + escape(id) + "/" + setNames[i] + "/"
	}
	return n
}

// escape makes a cleaned queue identifier a path segment.
func escape(id string) string { return (&url.URL{Path: "/" + id}).EscapedPath()[1:] }

// BaseURI returns the beginning of all published references, without a slash
// at the end.
func (p *Publisher) BaseURI() string { return string(p.site) }

// CapabilityList returns the URI of the Capability List of a set; queue is
// the cleaned identifier of the queue.
func (p *Publisher) CapabilityList(queue string, s Set) string {
	return p.site.queue(queue).docs[s] + docName{kind: capabilityList}.String()
}

// ResourceLists returns the URIs of the Resource Lists of both sets of a queue;
// queue is its cleaned identifier.
func (p *Publisher) ResourceLists(queue string) []string {
	var uris []string
	for _, docs := range p.site.queue(queue).docs {
		uris = append(uris, docs+docName{kind: resourceList}.String())
	}
	return uris
}

// A file is a resource of the set replica: one of the files of a queue.
type file struct {
	payload bool
	job     queuefs.JobID  // 0: queue-info.txt
	status  queuefs.Status // of a job file
}

// file parses a reference to a file of the queue.
func (n *names) file(loc string) (file, bool) {
	if loc == n.info {
		return file{}, true
	}
	path, ok := strings.CutPrefix(loc, n.files)
	dir, name, _ := strings.Cut(path, "/")
	id, err := queuefs.ParseJobID(name)
	if !ok || err != nil {
		return file{}, false
	}
	if dir == "payload" {
		return file{payload: true, job: id}, true
	}
	st, err := queuefs.ParseStatus(dir)
	return file{job: id, status: st}, err == nil
}

// A docName names one document of a set. n is a page, from 1, or a first event;
// version is the event after which a Resource Dump was begun. Numbers a kind
// does not have are 0.
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

// String returns the name in URLs.
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

// Names of the files of the Change List, and of the package, from an event on.
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
