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
	names  *names
	text   []byte // all text of an entry, so that it costs one allocation
	entry  sitemap.Entry
	hashes [2]sitemap.Hash
	links  [1]sitemap.Link
}

// listed appends what the Resource List of a set says of a job, and returns
// how many entries that is.
func (r *renderer) listed(dst []byte, s Set, e *queuefs.Entry) ([]byte, int) {
	switch {
	case s == Replica:
		dst = r.resource(dst, change{path: r.names.paths, job: e.Job, facts: &e.Payload})
		return r.resource(dst, change{path: r.names.jobs[e.Status], job: e.Job, facts: &e.File}), 2
	case e.Status == queuefs.Pending:
		return r.resource(dst, change{path: r.names.paths, job: e.Job, facts: &e.Payload, describedBy: r.names.jobs[e.Status]}), 1
	}
	return dst, 0
}

// changed appends what the Change List of a set says of an event, and returns
// how many entries that is. What changed follows from the status before and
// after, whatever the kind of event.
func (r *renderer) changed(dst []byte, s Set, ev *queuefs.Event) ([]byte, int) {
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
			add(change{path: paths, change: sitemap.Created, facts: &ev.Payload, describedBy: jobs[to]})
		case from == queuefs.Pending && to != queuefs.Pending:
			add(change{path: paths, change: sitemap.Deleted, describedBy: jobs[to]})
		}
		return dst, n
	}
	switch {
	case from == to && to != 0:
		add(change{path: jobs[to], change: sitemap.Updated, facts: &ev.File})
	case from != to:
		if from == 0 {
			add(change{path: paths, change: sitemap.Created, facts: &ev.Payload})
		} else {
			add(change{path: jobs[from], change: sitemap.Deleted})
		}
		if to == 0 {
			add(change{path: paths, change: sitemap.Deleted})
		} else {
			add(change{path: jobs[to], change: sitemap.Created, facts: &ev.File})
		}
	}
	return dst, n
}

// A change is one entry: the file of the job in the directory path, as facts
// say, or gone if there are none. In a Resource List event is nil.
type change struct {
	path        string
	job         queuefs.JobID
	change      sitemap.Change
	facts       *queuefs.Facts
	event       *queuefs.Event
	describedBy string // directory of the job file; "" if there is none
}

func (r *renderer) resource(dst []byte, c change) []byte {
	t := append(r.text[:0], c.path...)
	t = c.job.Append(t)
	loc := len(t)
	if c.describedBy != "" {
		t = append(t, c.describedBy...)
		t = c.job.Append(t)
	}
	link := len(t)
	if c.facts != nil {
		t = hex.AppendEncode(t, c.facts.SHA256[:])
		t = hex.AppendEncode(t, c.facts.MD5[:])
	}
	r.text = t
	text := string(t)

	e := &r.entry
	*e = sitemap.Entry{Loc: text[:loc], Change: c.change, Length: -1}
	if c.facts != nil {
		r.facts(c.facts, text[link:])
	}
	if c.event != nil {
		e.DateTime, e.Event, e.Seq = c.event.Time, c.event.Kind.String(), uint64(c.event.Seq)
		if c.facts == nil {
			e.LastMod = c.event.Time
		}
	}
	if link > loc {
		r.links[0] = sitemap.Link{Rel: sitemap.RelDescribedBy, Href: text[loc:link]}
		e.Links = r.links[:]
	}
	return sitemap.AppendEntry(dst, sitemap.URLSet, e)
}

// facts gives the entry what is known of a file; digests are in hexadecimal.
func (r *renderer) facts(f *queuefs.Facts, digests string) {
	r.hashes = [2]sitemap.Hash{{Alg: "sha-256", Value: digests[:64]}, {Alg: "md5", Value: digests[64:]}}
	r.entry.Hashes = r.hashes[:]
	r.entry.LastMod, r.entry.Length, r.entry.Type = f.Modified, f.Length, listedType(f.Type)
}

// info appends the entry of queue-info.txt.
func (r *renderer) info(dst []byte, f *queuefs.Facts) []byte {
	r.entry = sitemap.Entry{Loc: r.names.info}
	r.facts(f, hex.EncodeToString(f.SHA256[:])+hex.EncodeToString(f.MD5[:]))
	return sitemap.AppendEntry(dst, sitemap.URLSet, &r.entry)
}

// maxType bounds the media type in an entry, so that entries are bounded.
const maxType = 255

// listedType returns the media type, or nothing if it is beyond what a
// document page has room for when escaped.
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

// bound returns the most octets that one job adds to a Resource List.
func (r *renderer) bound(s Set) int {
	facts := queuefs.Facts{
		Length: 1<<63 - 1, Type: strings.Repeat("x", maxType),
		Modified: time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
	}
	for i := range facts.SHA256 {
		facts.SHA256[i] = 0xff
	}
	e := queuefs.Entry{Job: 1, Status: queuefs.Pending, Payload: facts, File: facts}
	if s == Replica {
		e.Status = queuefs.Consumed
	}
	dst, _ := r.listed(nil, s, &e)
	return len(dst)
}
