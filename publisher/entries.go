package publisher

import (
	"encoding/hex"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/sitemap"
)

// A renderer prints entries about the jobs of one queue. It is for one
// goroutine.
type renderer struct {
	names   *names
	dialect sitemap.Dialect
	mirrors []string
	via     string
	text    []byte // all text of an entry: one allocation
	entry   sitemap.Entry
	hashes  [2]sitemap.Hash
	links   []sitemap.Link
}

func (f *subject) renderer() renderer {
	return renderer{names: f.names, dialect: f.p.Dialect, mirrors: f.p.mirrors, via: f.p.via}
}

// listed appends the entries of a job in the Resource List of a set, and returns
// their number.
func (r *renderer) listed(dst []byte, s Set, e *queuefs.Entry) ([]byte, int) {
	switch {
	case s == Replica:
		dst = r.resource(dst, r.names.payload(s, e))
		return r.resource(dst, r.names.jobFile(e)), 2
	case e.Status == queuefs.Pending:
		return r.resource(dst, r.names.payload(s, e)), 1
	}
	return dst, 0
}

// payload returns the payload of a job, described by its job file. In Pending it
// names its queue; in Replica the path does.
func (n *names) payload(s Set, e *queuefs.Entry) change {
	c := change{path: n.paths, job: e.Job, facts: &e.Payload, rel: sitemap.RelDescribedBy, linked: n.jobs[e.Status]}
	if s == Pending {
		c.of = n.queue
	}
	return c
}

// jobFile returns the job file; it describes the payload.
func (n *names) jobFile(e *queuefs.Entry) change {
	return change{path: n.jobs[e.Status], job: e.Job, facts: &e.File, rel: sitemap.RelDescribes, linked: n.paths, state: n.states}
}

// changed appends the entries of an event in the Change List of a set, and
// returns their number. They follow from the status before and after, whatever
// the kind of event.
func (r *renderer) changed(dst []byte, s Set, ev *queuefs.Event) ([]byte, int) {
	switch {
	case ev.Kind == queuefs.Phase: // it has no file here
		return dst, 0
	case ev.Job == 0 && s == Pending: // queue-info.txt
		return dst, 0
	case ev.Job == 0:
		r.buildInfo(&ev.File)
		e := &r.entry
		e.Change, e.DateTime, e.Event, e.Seq = sitemap.Updated, ev.Time, ev.Kind.String(), uint64(ev.Seq)
		return r.dialect.AppendEntry(dst, sitemap.URLSet, e), 1
	}
	n := 0
	add := func(c change) {
		c.job, c.event = ev.Job, ev
		dst = r.resource(dst, c)
		n++
	}
	from, to := ev.From, ev.To
	paths, jobs := r.names.paths, &r.names.jobs
	if s == Pending {
		switch {
		case to == queuefs.Pending && from != queuefs.Pending:
			add(change{path: paths, change: sitemap.Created, facts: &ev.Payload, rel: sitemap.RelDescribedBy, linked: jobs[to], of: r.names.queue})
		case from == queuefs.Pending && to != queuefs.Pending:
			add(change{path: paths, change: sitemap.Deleted, rel: sitemap.RelDescribedBy, linked: jobs[to]})
		}
		return dst, n
	}
	switch {
	case from == to && to != 0:
		add(change{path: jobs[to], change: sitemap.Updated, facts: &ev.File, rel: sitemap.RelDescribes, linked: paths, state: r.names.states})
	case from != to:
		if from == 0 {
			add(change{path: paths, change: sitemap.Created, facts: &ev.Payload, rel: sitemap.RelDescribedBy, linked: jobs[to]})
		} else {
			add(change{path: jobs[from], change: sitemap.Deleted})
		}
		if to == 0 {
			add(change{path: paths, change: sitemap.Deleted})
		} else {
			add(change{path: jobs[to], change: sitemap.Created, facts: &ev.File, rel: sitemap.RelDescribes, linked: paths, state: r.names.states})
		}
	}
	return dst, n
}

// A change is one entry: the file of a job in the directory path.
type change struct {
	path   string
	job    queuefs.JobID
	change sitemap.Change
	facts  *queuefs.Facts // nil for a file that is gone
	event  *queuefs.Event // nil in a Resource List
	rel    string         // relation of the job's file in the directory linked
	linked string         // "" without a link
	state  string         // directory of the states of jobs; "" without a link
	of     string         // collection of the resource; "" without a link
}

func (r *renderer) resource(dst []byte, c change) []byte {
	r.build(c)
	return r.dialect.AppendEntry(dst, sitemap.URLSet, &r.entry)
}

// build makes the entry.
func (r *renderer) build(c change) {
	t := append(r.text[:0], c.path...)
	t = c.job.Append(t)
	loc := len(t)
	if c.linked != "" {
		t = append(t, c.linked...)
		t = c.job.Append(t)
	}
	link := len(t)
	if c.state != "" {
		t = append(t, c.state...)
		t = c.job.Append(t)
	}
	state := len(t)
	if c.facts != nil {
		t = hex.AppendEncode(t, c.facts.SHA256[:])
		if c.facts.MD5 != ([16]byte{}) {
			t = hex.AppendEncode(t, c.facts.MD5[:])
		}
	}
	r.text = t
	text := string(t)

	e := &r.entry
	*e = sitemap.Entry{Loc: text[:loc], Change: c.change, Length: -1}
	if c.facts != nil {
		r.facts(c.facts, text[state:])
	}
	if c.event != nil {
		e.DateTime, e.Event, e.Seq = c.event.Time, c.event.Kind.String(), uint64(c.event.Seq)
		if c.facts == nil {
			e.LastMod = c.event.Time
		}
	}
	e.Links = r.links[:0]
	if link > loc {
		e.Links = append(e.Links, sitemap.Link{Rel: c.rel, Href: text[loc:link]})
	}
	if state > link {
		e.Links = append(e.Links, sitemap.Link{Rel: sitemap.RelAlternate, Href: text[link:state]})
	}
	if c.of != "" {
		e.Links = append(e.Links, sitemap.Link{Rel: sitemap.RelCollection, Href: c.of})
	}
	if c.facts != nil {
		r.copies()
	}
	r.links = e.Links
}

// copies adds the mirrors and the origin of the resource (Z39.99-2017, 14).
func (r *renderer) copies() {
	path := strings.TrimPrefix(r.entry.Loc, r.names.site)
	for i, m := range r.mirrors {
		r.entry.Links = append(r.entry.Links, sitemap.Link{Rel: sitemap.RelDuplicate, Href: m + path, Pri: i + 1})
	}
	if r.via != "" {
		r.entry.Links = append(r.entry.Links, sitemap.Link{Rel: sitemap.RelVia, Href: r.via + path})
	}
}

// facts adds the facts of a file. digests is its SHA-256 in hexadecimal and, if
// known, its MD5.
func (r *renderer) facts(f *queuefs.Facts, digests string) {
	r.hashes = [2]sitemap.Hash{{Alg: "sha-256", Value: digests[:64]}, {Alg: "md5", Value: digests[64:]}}
	r.entry.Hashes = r.hashes[:]
	if len(digests) == 64 {
		r.entry.Hashes = r.hashes[:1]
	}
	r.entry.LastMod, r.entry.Length, r.entry.Type = f.Modified, f.Length, listedType(f.Type)
}

// info appends the entry of queue-info.txt.
func (r *renderer) info(dst []byte, f *queuefs.Facts) []byte {
	r.buildInfo(f)
	return r.dialect.AppendEntry(dst, sitemap.URLSet, &r.entry)
}

// buildInfo makes the entry of queue-info.txt.
func (r *renderer) buildInfo(f *queuefs.Facts) {
	r.entry = sitemap.Entry{Loc: r.names.info, Links: r.links[:0]}
	r.copies()
	r.links = r.entry.Links
	r.facts(f, hex.EncodeToString(f.SHA256[:]))
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

// bound returns the most bytes that one job adds to a Resource List.
func (r *renderer) bound(s Set) int {
	facts := queuefs.Facts{
		Length: 1<<63 - 1, Type: strings.Repeat("x", maxType),
		Modified: time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
	}
	for i := range facts.SHA256 {
		facts.SHA256[i] = 0xff
	}
	e := queuefs.Entry{Job: 1, Status: queuefs.Pending, Payload: facts, File: facts}
	e.Payload.MD5[0] = 0xff
	if s == Replica {
		e.Status = queuefs.Consumed
	}
	dst, _ := r.listed(nil, s, &e)
	return len(dst)
}
