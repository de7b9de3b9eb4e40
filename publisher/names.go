package publisher

import (
	"net/url"
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
