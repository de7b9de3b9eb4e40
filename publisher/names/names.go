// Package names has the names of everything a Source publishes: sets of
// resources, references, documents, and the files they are served from. Parsers
// accept a name in its printed form only. It also prints jobs and events as entries
// of Resource Lists and Change Lists (Z39.99-2017, 10 and 12), a line each, and finds
// events in Change Lists. It is pure: the same jobs and events give the same bytes.
package names

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"cutie/queuefs/job"
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

	// Sets is how many sets a queue has.
	Sets = 2
)

var setNames = [Sets]string{"pending", "replica"}

// String returns the name of the set in URLs.
func (s Set) String() string { return setNames[s] }

// ParseSet reads the output of String, and nothing else.
func ParseSet(name string) (Set, bool) {
	for i, n := range setNames {
		if n == name {
			return Set(i), true
		}
	}
	return 0, false
}

// Size returns how many entries the Resource List has for a queue, or a page of
// it, without queue-info.txt and results.
func (s Set) Size(pending, total int) int {
	if s == Pending {
		return pending
	}
	return 2 * total
}

// PerJob is the most entries of the Resource List for one job without results.
func (s Set) PerJob() int { return s.Size(1, 1) }

// A Site is a base URI without a final slash.
type Site string

// Description returns the URI of the Source Description.
func (s Site) Description() string { return string(s) + wellknown.Path }

// A Queue has the references of one queue. Directories end with a slash.
type Queue struct {
	Site     Site
	State    string                  // state of the queue
	States   string                  // directory of the states of jobs
	Dir      string                  // queue directory
	Info     string                  // queue-info.txt
	Jobs     [job.Deleted + 1]string // directory of job files by status
	Payloads string                  // directory of payloads
	Results  string                  // directory of the directories of results, one for each job
	Docs     [Sets]string            // directory of documents by set
}

// Queue returns the references of a queue; id is its cleaned identifier.
func (s Site) Queue(id string) *Queue {
	n := &Queue{Site: s, State: string(s) + "/state/" + Escape(id), Dir: string(s) + "/queues/" + Escape(id) + "/"}
	n.States = n.State + "/"
	n.Info = n.Dir + "queue-info.txt"
	n.Payloads, n.Results = n.Dir+"payload/", n.Dir+"result/"
	for st := job.Pending; st <= job.Deleted; st++ {
		n.Jobs[st] = n.Dir + st.String() + "/"
	}
	for i := range n.Docs {
		n.Docs[i] = s.Description() + "/" + Escape(id) + "/" + setNames[i] + "/"
	}
	return n
}

// Escape makes a cleaned queue identifier a path segment.
func Escape(id string) string { return (&url.URL{Path: "/" + id}).EscapedPath()[1:] }

// Doc returns the URI of a document of a set.
func (n *Queue) Doc(s Set, d Doc) string { return n.Docs[s] + d.String() }

// A File is a resource of the set Replica: one of the files of a queue.
type File struct {
	Payload bool
	Job     job.ID     // 0: queue-info.txt
	Status  job.Status // of a job file
	Result  string     // name of a result; "" of other files
}

// File parses a reference to a file of the queue.
func (n *Queue) File(loc string) (File, bool) {
	if loc == n.Info {
		return File{}, true
	}
	path, ok := strings.CutPrefix(loc, n.Dir)
	dir, name, _ := strings.Cut(path, "/")
	name, result, isResult := strings.Cut(name, "/")
	id, err := job.ParseID(name)
	if !ok || err != nil {
		return File{}, false
	}
	if isResult || dir == "result" {
		return File{Job: id, Result: result}, dir == "result" && job.CheckResultName(result) == nil
	}
	if dir == "payload" {
		return File{Payload: true, Job: id}, true
	}
	st, err := job.ParseStatus(dir)
	return File{Job: id, Status: st}, err == nil
}

// Parts of a Source Description too large for one document.
const (
	partStem   = "description-"
	partDigits = 6
)

// Part returns the name of part n of the Source Description, from 1.
func Part(n int) string { return partStem + fixed(uint64(n), partDigits) + ".xml" }

// ParsePart reads the output of Part, and nothing else.
func ParsePart(s string) (int, bool) {
	digits := strings.TrimSuffix(strings.TrimPrefix(s, partStem), ".xml")
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0 && Part(n) == s
}

// Salt returns a short digest of values, for entity tags and names.
func Salt(values ...any) string {
	const format = 1 // raise it when the same state gets other bytes
	sum := sha256.Sum256(fmt.Append(nil, append(values, format)...))
	return fmt.Sprintf("%x", sum[:6])
}

// fixed returns n with leading zeros.
func fixed(n uint64, digits int) string {
	s := strconv.FormatUint(n, 10)
	return strings.Repeat("0", max(0, digits-len(s))) + s
}
