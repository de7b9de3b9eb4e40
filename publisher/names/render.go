package names

import (
	"cmp"
	"encoding/hex"
	"strings"
	"time"

	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/sitemap"
)

// A Renderer prints entries about the jobs of one queue. It is for one
// goroutine.
type Renderer struct {
	Refs    *Queue
	Dialect sitemap.Dialect
	Plain   bool     // of a plain Sitemap
	Mirrors []string // base URIs of copies, the best first
	Via     string   // base URI of the origin; "" without one

	Files int64 // bytes of the files that entries in Change Lists stand for, so far

	text   []byte // all text of an entry: one allocation
	entry  sitemap.Entry
	hashes [2]sitemap.Hash
	links  []sitemap.Link
}

// Listed appends the entries of a job in the Resource List of a set, and returns
// their number.
func (r *Renderer) Listed(dst []byte, s Set, e *ledger.Entry) ([]byte, int) {
	if s == Pending && e.Status != job.Pending {
		return dst, 0
	}
	dst = r.append(dst, r.Payload(s, e))
	if s == Pending {
		return dst, 1
	}
	dst = r.append(dst, r.JobFile(e))
	for i := range e.Results {
		dst = r.append(dst, r.Result(e, &e.Results[i]))
	}
	return dst, 2 + len(e.Results)
}

// Payload returns the entry of the payload of a job. It is valid until the next
// call.
func (r *Renderer) Payload(s Set, e *ledger.Entry) *sitemap.Entry {
	return r.build(e.Job, r.payload(s, &e.Payload))
}

// JobFile returns the entry of a job file, valid until the next call.
func (r *Renderer) JobFile(e *ledger.Entry) *sitemap.Entry {
	return r.build(e.Job, r.jobFile(e.Status, &e.File))
}

// Result returns the entry of a result of a job, valid until the next call. No file
// has the date of a result.
func (r *Renderer) Result(e *ledger.Entry, res *job.Result) *sitemap.Entry {
	facts := resultFacts(res, time.Time{})
	return r.build(e.Job, r.result(res.Name, &facts))
}

func resultFacts(res *job.Result, at time.Time) job.Facts {
	return job.Facts{Length: res.Size, SHA256: res.SHA256, Type: cmp.Or(res.MediaType, job.DefaultMediaType), Modified: at}
}

// Info returns the entry of queue-info.txt, valid until the next call.
func (r *Renderer) Info(f *job.Facts) *sitemap.Entry {
	r.entry = sitemap.Entry{Loc: r.Refs.Info, Links: r.links[:0]}
	r.copies()
	r.links = r.entry.Links
	r.facts(f, hex.EncodeToString(f.SHA256[:]))
	return &r.entry
}

func (r *Renderer) append(dst []byte, e *sitemap.Entry) []byte {
	if r.Plain {
		return sitemap.AppendPlainEntry(dst, sitemap.URLSet, e)
	}
	return r.Dialect.AppendEntry(dst, sitemap.URLSet, e)
}

// AppendInfo appends the entry of queue-info.txt.
func (r *Renderer) AppendInfo(dst []byte, f *job.Facts) []byte { return r.append(dst, r.Info(f)) }

// Begun appends the entry of queue-info.txt in the Change List of [Replica],
// created with the first event of the queue: so all Change Lists together lead to
// the Resource List.
func (r *Renderer) Begun(dst []byte, first *job.Event, f *job.Facts) []byte {
	return r.infoChanged(dst, sitemap.Created, first, f)
}

// infoChanged appends the entry of queue-info.txt in a Change List.
func (r *Renderer) infoChanged(dst []byte, c sitemap.Change, ev *job.Event, f *job.Facts) []byte {
	e := r.Info(f)
	e.Change, e.DateTime, e.Event, e.Seq = c, ev.Time, ev.Kind.String(), uint64(ev.Seq)
	r.Files += f.Length
	return r.append(dst, e)
}

// Changed appends the entries of an event in the Change List of a set, and
// returns their number. They follow from the status before and after, whatever
// the kind of event.
func (r *Renderer) Changed(dst []byte, s Set, ev *job.Event) ([]byte, int) {
	n := 0
	add := func(c sitemap.Change, of resource) {
		e := r.build(ev.Job, of)
		if of.facts == nil {
			e.LastMod = ev.Time
		} else {
			r.Files += of.facts.Length
		}
		e.Change, e.DateTime, e.Event, e.Seq = c, ev.Time, ev.Kind.String(), uint64(ev.Seq)
		dst = r.append(dst, e)
		n++
	}
	from, to := ev.From, ev.To
	if s == Replica && ev.Results != nil {
		for i := range ev.Results.Came {
			res := &ev.Results.Came[i]
			facts := resultFacts(res, ev.Time)
			add(sitemap.Created, r.result(res.Name, &facts))
		}
		for _, name := range ev.Results.Went {
			add(sitemap.Deleted, resource{dir: r.Refs.Results, name: name})
		}
	}
	switch {
	case ev.Kind == job.Phase, ev.Job == 0 && s == Pending: // no resource shows it
	case ev.Job == 0: // queue-info.txt
		return r.infoChanged(dst, sitemap.Updated, ev, &ev.File), 1
	case from == to && to != 0:
		if s == Replica {
			add(sitemap.Updated, r.jobFile(to, &ev.File))
		}
	case s == Pending && to == job.Pending && ev.Payload.SHA256 == [32]byte{}: // gone, and not known any more
	case s == Pending && to == job.Pending:
		add(sitemap.Created, r.payload(s, &ev.Payload))
	case s == Pending && from == job.Pending:
		of := r.payload(s, nil)
		if to == 0 {
			of.linked = "" // the job has no state any more
		}
		add(sitemap.Deleted, of)
	case s == Replica && from != to:
		if from == 0 {
			add(sitemap.Created, r.payload(s, &ev.Payload))
		} else {
			add(sitemap.Deleted, resource{dir: r.Refs.Jobs[from]})
		}
		if to == 0 {
			add(sitemap.Deleted, resource{dir: r.Refs.Payloads})
		} else {
			add(sitemap.Created, r.jobFile(to, &ev.File))
		}
	}
	return dst, n
}

// A resource is the file of a job in the directory dir.
type resource struct {
	dir    string
	name   string     // of a result; "" of other files
	facts  *job.Facts // nil for a file that is gone
	rel    string     // relation of what is of the job in the directory linked
	linked string     // "" without a link
	state  string     // directory of the states of jobs; "" without a link
	of     string     // collection of the resource; "" without a link
}

// payload returns the payload of a job. It is described by the state of the job: the job
// file moves with each change. In Pending it names its queue; in Replica the path does.
func (r *Renderer) payload(s Set, facts *job.Facts) resource {
	of := ""
	if s == Pending && facts != nil {
		of = r.Refs.State
	}
	return resource{dir: r.Refs.Payloads, facts: facts, rel: sitemap.RelDescribedBy, linked: r.Refs.States, of: of}
}

// result returns a result, described as a payload is.
func (r *Renderer) result(name string, facts *job.Facts) resource {
	return resource{dir: r.Refs.Results, name: name, facts: facts, rel: sitemap.RelDescribedBy, linked: r.Refs.States}
}

// jobFile returns the job file; it describes the payload.
func (r *Renderer) jobFile(st job.Status, facts *job.Facts) resource {
	return resource{dir: r.Refs.Jobs[st], facts: facts, rel: sitemap.RelDescribes, linked: r.Refs.Payloads, state: r.Refs.States}
}

// build makes the entry of a resource. The file of job is in each directory.
func (r *Renderer) build(job job.ID, of resource) *sitemap.Entry {
	t := job.Append(append(r.text[:0], of.dir...))
	if of.name != "" {
		t = append(append(t, '/'), of.name...)
	}
	loc := len(t)
	if of.linked != "" {
		t = job.Append(append(t, of.linked...))
	}
	link := len(t)
	if of.state != "" {
		t = job.Append(append(t, of.state...))
	}
	state := len(t)
	if of.facts != nil {
		t = hex.AppendEncode(t, of.facts.SHA256[:])
		if of.facts.MD5 != ([16]byte{}) {
			t = hex.AppendEncode(t, of.facts.MD5[:])
		}
	}
	r.text = t
	text := string(t)

	e := &r.entry
	*e = sitemap.Entry{Loc: text[:loc], Length: -1, Links: r.links[:0]}
	if link > loc {
		e.Links = append(e.Links, sitemap.Link{Rel: of.rel, Href: text[loc:link]})
	}
	if state > link {
		e.Links = append(e.Links, sitemap.Link{Rel: sitemap.RelAlternate, Href: text[link:state]})
	}
	if of.of != "" {
		e.Links = append(e.Links, sitemap.Link{Rel: sitemap.RelCollection, Href: of.of})
	}
	if of.facts != nil {
		r.facts(of.facts, text[state:])
		r.copies()
	}
	r.links = e.Links
	return e
}

// copies adds the mirrors and the origin of the resource (Z39.99-2017, 14).
func (r *Renderer) copies() {
	path := strings.TrimPrefix(r.entry.Loc, string(r.Refs.Site))
	for i, m := range r.Mirrors {
		r.entry.Links = append(r.entry.Links, sitemap.Link{Rel: sitemap.RelDuplicate, Href: m + path, Pri: i + 1})
	}
	if r.Via != "" {
		r.entry.Links = append(r.entry.Links, sitemap.Link{Rel: sitemap.RelVia, Href: r.Via + path})
	}
}

// facts adds the facts of a file. digests is its SHA-256 in hexadecimal and, if
// known, its MD5.
func (r *Renderer) facts(f *job.Facts, digests string) {
	r.hashes = [2]sitemap.Hash{{Alg: "sha-256", Value: digests[:64]}, {Alg: "md5", Value: digests[64:]}}
	r.entry.Hashes = r.hashes[:]
	if len(digests) == 64 {
		r.entry.Hashes = r.hashes[:1]
	}
	r.entry.LastMod, r.entry.Length, r.entry.Type = f.Modified, f.Length, listedType(f.Type)
}

// maxType bounds the bytes of a media type in an entry.
const maxType = 255

// listedType returns the media type, or nothing if it is too long when escaped.
func listedType(t string) string {
	n := len(t)
	if n > maxType/6 {
		for i := range len(t) {
			if c := t[i]; c == '"' || c == '&' || c == '<' || c == '>' || c < ' ' {
				n += 5
			}
		}
	}
	if n > maxType {
		return ""
	}
	return t
}

// Bound returns the most bytes that one job adds to a Resource List. Each of its results
// adds at most its share of that.
func (r *Renderer) Bound(s Set) int {
	facts := job.Facts{
		Length: 1<<63 - 1, Type: strings.Repeat("x", maxType),
		Modified: time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
	}
	for i := range facts.SHA256 {
		facts.SHA256[i] = 0xff
	}
	e := ledger.Entry{Job: 1, Status: job.Pending, Payload: facts, File: facts}
	e.Payload.MD5[0] = 0xff
	if s == Replica {
		e.Status = job.Consumed
	}
	dst, n := r.Listed(nil, s, &e)
	if s == Pending {
		return len(dst)
	}
	e.Results = []job.Result{{Name: strings.Repeat("x", job.MaxResultName), MediaType: facts.Type, Size: facts.Length}}
	with, _ := r.Listed(nil, s, &e)
	return max(len(dst), n*(len(with)-len(dst)))
}
