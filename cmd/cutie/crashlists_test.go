package main_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"cutie/queuefs/job"
	"cutie/sitemap"
)

// A happening is an event as a Change List shows it.
type happening struct {
	seq  job.Seq
	kind string
	job  job.ID
	at   time.Time
	file string // replica: SHA-256 of the job file that the event left
}

// A follower reads the Change Lists of one set, what is new of them each time.
// What it has read once must never change, over all crashes.
type follower struct {
	set    string
	get    func(path string) ([]byte, error)
	seq    job.Seq // last event read
	first  job.Seq // first event of the list that was open then
	read   []byte  // its entries
	closed map[string][sha256.Size]byte
	seen   []byte // entries of an open list that someone else has read since
}

const published = ".well-known/resourcesync/jobs/"

// events returns what has happened since it was last called.
func (f *follower) events() (list []happening, err error) {
	index, err := f.get(published + f.set + "/changelist-index.xml")
	if err != nil {
		return nil, err
	}
	_, entries, err := parseList(index)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		loc := published + f.set + "/" + path.Base(e.Loc)
		if _, known := f.closed[loc]; known {
			continue
		}
		octets, err := f.get(loc)
		if err != nil {
			return nil, err
		}
		if !e.Until.IsZero() {
			f.closed[loc] = sha256.Sum256(octets)
		}
		part, err := f.list(loc, octets)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", loc, err)
		}
		list = append(list, part...)
	}
	if f.seen != nil {
		return nil, errors.New("entries that were published before the crash are in no list")
	}
	return list, nil
}

// list returns the new events of one list.
func (f *follower) list(loc string, octets []byte) ([]happening, error) {
	text := entriesOf(octets)
	if len(text) == 0 {
		return nil, nil
	}
	first, err := firstEvent(text)
	if err != nil {
		return nil, err
	}
	known := 0
	if first == f.first {
		if known = len(f.read); !bytes.HasPrefix(text, f.read) {
			return nil, errors.New("entries that were read once have changed")
		}
	}
	if f.seen != nil {
		if seen, err := firstEvent(f.seen); err != nil || seen == first {
			if err != nil || !bytes.HasPrefix(text, f.seen) {
				return nil, errors.New("entries that were published before the crash have changed")
			}
			f.seen = nil
		}
	}
	f.first, f.read = first, text
	head := octets[:bytes.Index(octets, text)]
	_, entries, err := parseList(bytes.Join([][]byte{head, text[known:], []byte("</urlset>")}, nil))
	if err != nil {
		return nil, err
	}
	var list []happening
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && entries[n].Seq == entries[0].Seq {
			n++
		}
		ev, err := f.event(entries[:n])
		if err != nil {
			return nil, err
		}
		if ev.seq != f.seq+1 {
			return nil, fmt.Errorf("event %d follows event %d", ev.seq, f.seq)
		}
		f.seq = ev.seq
		list = append(list, ev)
		entries = entries[n:]
	}
	return list, nil
}

// shapes are the changes that an event of a kind makes to the files of a job.
// A requeued job comes from either of two directories.
var shapes = map[string]map[string][]string{
	"pending": {
		"submit":  {"created payload"},
		"consume": {"deleted payload"},
		"delete":  {"deleted payload"},
		"requeue": {"created payload"},
	},
	"replica": {
		"submit":  {"created payload, created pending"},
		"consume": {"deleted pending, created consumed"},
		"delete":  {"deleted pending, created deleted"},
		"requeue": {"deleted consumed, created pending", "deleted deleted, created pending"},
	},
}

// event turns the entries of one event into it.
func (f *follower) event(entries []sitemap.Entry) (ev happening, err error) {
	var shape []string
	if f.set == "replica" && entries[0].Seq == 1 { // the queue begins
		first := entries[0]
		if entries = entries[1:]; first.Change != sitemap.Created || path.Base(first.Loc) != "queue-info.txt" || len(entries) == 0 ||
			first.Event != entries[0].Event || !first.DateTime.Equal(entries[0].DateTime) {
			return ev, fmt.Errorf("the first event begins with %+v", first)
		}
	}
	for i, e := range entries {
		dir, name := path.Split(e.Loc)
		id, err := job.ParseID(name)
		if err != nil {
			return ev, err
		}
		if i > 0 && (id != ev.job || e.Event != ev.kind || !e.DateTime.Equal(ev.at)) {
			return ev, fmt.Errorf("event %d is of %s and %s", e.Seq, ev.job, id)
		}
		ev = happening{job.Seq(e.Seq), e.Event, id, e.DateTime, ""}
		shape = append(shape, string(e.Change)+" "+path.Base(dir))
		for _, h := range e.Hashes {
			if h.Alg == "sha-256" {
				ev.file = h.Value
			}
		}
	}
	got := strings.Join(shape, ", ")
	for _, want := range shapes[f.set][ev.kind] {
		if got == want {
			return ev, nil
		}
	}
	return ev, fmt.Errorf("event %d, %s of %s: %s", ev.seq, ev.kind, ev.job, got)
}

// unchanged reads all closed lists again.
func (f *follower) unchanged() error {
	for loc, want := range f.closed {
		octets, err := f.get(loc)
		if err != nil {
			return err
		}
		if sha256.Sum256(octets) != want {
			return fmt.Errorf("%s: a closed list has changed", loc)
		}
	}
	return nil
}

// entriesOf returns what stands between head and foot.
func entriesOf(octets []byte) []byte {
	from, to := bytes.Index(octets, []byte("<url>")), bytes.LastIndex(octets, []byte("</urlset>"))
	if from < 0 || to < from {
		return nil
	}
	return octets[from:to]
}

func firstEvent(entries []byte) (n job.Seq, err error) {
	_, rest, _ := bytes.Cut(entries[:min(len(entries), 4096)], []byte(`cut:seq="`))
	_, err = fmt.Sscanf(string(rest[:min(len(rest), 20)]), "%d", &n)
	return n, err
}

func parseList(octets []byte) (head sitemap.Head, entries []sitemap.Entry, err error) {
	r := sitemap.NewReader(bytes.NewReader(octets))
	if _, head, err = r.ReadHead(); err != nil {
		return head, nil, err
	}
	for {
		e, err := r.Read()
		if err == io.EOF {
			return head, entries, nil
		}
		if err != nil {
			return head, nil, err
		}
		entries = append(entries, e)
	}
}

// A baseline is a Resource List of the set pending: SHA-256 by job.
type baseline struct {
	at   time.Time // changes after that are to be replayed
	jobs map[job.ID]string
}

// parseBaseline reads a Resource List, or the pages of one.
func parseBaseline(pages [][]byte) (b baseline, err error) {
	b.jobs = map[job.ID]string{}
	for _, octets := range pages {
		head, entries, err := parseList(octets)
		if err != nil {
			return b, err
		}
		if b.at.IsZero() || head.At.Before(b.at) {
			b.at = head.At
		}
		for _, e := range entries {
			id, err := job.ParseID(path.Base(e.Loc))
			if err != nil || len(e.Hashes) == 0 {
				return b, fmt.Errorf("resource list: %s with %d hashes: %v", e.Loc, len(e.Hashes), err)
			}
			b.jobs[id] = e.Hashes[0].Value
		}
	}
	return b, nil
}

// fetchBaseline returns the Resource List, or its pages.
func fetchBaseline(get func(path string) ([]byte, error)) ([][]byte, error) {
	octets, err := get(published + "pending/resourcelist.xml")
	if err != nil || !bytes.Contains(octets[:min(len(octets), 500)], []byte("<sitemapindex")) {
		return [][]byte{octets}, err
	}
	_, parts, err := parseList(octets)
	if err != nil {
		return nil, err
	}
	var pages [][]byte
	for _, p := range parts {
		page, err := get(published + "pending/" + path.Base(p.Loc))
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
	}
	return pages, nil
}

// getter returns a function that fetches what must be there.
func getter(c *http.Client, base string) func(path string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		resp, err := c.Get(base + path)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: %s", path, resp.Status)
		}
		return io.ReadAll(resp.Body)
	}
}

// packages compares the packages of the Change Dump with the closed lists: a package has
// every entry of its list, and every file. It returns how many there are; wanted is
// whether each closed list must have one.
func (f *follower) packages(wanted bool) (n int, err error) {
	dir := published + f.set + "/"
	read := func(name string) ([]sitemap.Entry, error) {
		octets, err := f.get(dir + name)
		if err != nil {
			return nil, err
		}
		_, entries, err := parseList(octets)
		return entries, err
	}
	lists, err := read("changelist-index.xml")
	if err != nil {
		return 0, err
	}
	offered, err := read("capabilitylist.xml")
	if err != nil {
		return 0, err
	}
	var packages []sitemap.Entry
	if offersChangeDump(offered) {
		if packages, err = read("changedump.xml"); err != nil {
			return 0, err
		}
	}
	closed := map[string]sitemap.Entry{}
	for _, l := range lists {
		if !l.Until.IsZero() {
			closed[l.Until.String()] = l
		}
	}
	if wanted && len(packages) != len(closed) {
		return 0, fmt.Errorf("%d packages of %d closed lists", len(packages), len(closed))
	}
	for _, p := range packages {
		list, ok := closed[p.Until.String()]
		if !ok || !list.From.Equal(p.From) {
			return n, fmt.Errorf("%s is of no list", p.Loc)
		}
		want, err := read(path.Base(list.Loc))
		if err != nil {
			return n, err
		}
		octets, err := f.get(dir + path.Base(p.Loc))
		if err == nil {
			err = agrees(octets, want)
		}
		if err != nil {
			return n, fmt.Errorf("%s: %w", p.Loc, err)
		}
		n++
	}
	return n, nil
}

// Longer files come into a package at its end, if they are there still.
const latePayload = 128 << 10

// mayLack reports whether a package may lack the file of an entry: a late one may be gone by
// then, and so may be the payload of a job that comes back and is culled.
func mayLack(e *sitemap.Entry) bool {
	switch {
	case e.Change == sitemap.Deleted:
		return false
	case strings.Contains(e.Loc, "/payload/"):
		return e.Length > latePayload || e.Event != "submit"
	}
	return strings.Contains(e.Loc, "/result/")
}

// agrees compares a package with the entries of its list.
func agrees(octets []byte, list []sitemap.Entry) error {
	got, files, err := readPackage(octets)
	if err != nil {
		return err
	}
	for i := range list {
		w := &list[i]
		if len(got) == 0 || got[0].Loc != w.Loc || got[0].Seq != w.Seq || got[0].Change != w.Change {
			if !mayLack(w) {
				return fmt.Errorf("%s of event %d, %d octets, is not in the package", w.Loc, w.Seq, w.Length)
			}
			continue
		}
		g := got[0]
		got = got[1:]
		if g.Change == sitemap.Deleted {
			continue
		}
		text, ok := files[strings.TrimPrefix(g.Path, "/")]
		if !ok || int64(len(text)) != w.Length || hexSum(text) != w.Hashes[0].Value {
			return fmt.Errorf("%s of event %d is not in the package as it was: %.60q", g.Loc, g.Seq, text)
		}
	}
	if len(got) > 0 {
		return fmt.Errorf("%d entries are not of the list: %s", len(got), got[0].Loc)
	}
	return nil
}

// offersChangeDump reports whether a Capability List names a Change Dump: there is none
// without a package.
func offersChangeDump(capabilities []sitemap.Entry) bool {
	return slices.ContainsFunc(capabilities, func(e sitemap.Entry) bool { return e.Capability == sitemap.ChangeDump })
}
