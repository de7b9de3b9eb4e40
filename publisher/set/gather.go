package set

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"cutie/publisher/dump"
	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// Files of one queue are put into packages of a Dump: the files of changes,
// as a Change List has them, and the files of jobs, as an engine page has them. Each
// file is compared with the length and digest of its entry.
//
//	entries of a list ──▶ Change ──┐
//	queue-info.txt ─────▶ Info ────┼──▶ dump.Package
//	jobs of a page ─────▶ Job ─────┘
//
// A file may be gone or replaced by now. It is left out if a later event says so: then
// that event follows in this package or a later one. Else the error is a
// [dump.FileError], and there is no package.
//
// Small texts are copied at once, since job files move with each change. Payloads stay,
// and are opened when the package is written. Results are between both, see
// gathering.result.

// A gathering puts files of a queue into a package. It is for one goroutine.
type gathering struct {
	*dump.Package
	q       Queue
	set     names.Set
	render  entries.Renderer
	results []largeResult // large ones
	pass    queuefs.Pass  // of Job; nil: the files are of changes, in no order of jobs

	Grown *dump.Growing // has files of the changes already; may be nil
}

// newGathering returns an empty package for a set, with temporary files in dir.
func newGathering(dir *durable.Dir, q Queue, set names.Set, render entries.Renderer) (*gathering, error) {
	of, err := dump.New(dir)
	if err != nil {
		return nil, err
	}
	p := &gathering{Package: of, q: q, set: set, render: render}
	p.Dialect, p.Loc, p.Open = render.Dialect, p.loc, p.open
	return p, nil
}

// errChanged says that a file is another one by now.
var errChanged = errors.New("file is not what it was")

// Change adds an entry of a Change List, with its file unless it is a deletion. The file
// is taken from Grown, from the queue, or from the journal. If none has it, a job file or
// queue-info.txt replaced since is left out, and so are the files of a culled job.
func (p *gathering) Change(e *sitemap.Entry) error {
	if e.Change == sitemap.Deleted {
		return p.Add(e)
	}
	of, f, err := p.file(e)
	if err != nil {
		return &dump.FileError{Loc: e.Loc, Err: err}
	}
	if p.Grown != nil {
		if text, ok := p.Grown.Read(p.Number()); ok && f.Is(text) {
			return p.AddText(e, f, text)
		}
	}
	text, err := p.find(e, of, f)
	if err != nil {
		if text := p.journaled(e, of); text != nil && f.Is(text) {
			return p.AddText(e, f, text)
		}
	}
	switch {
	case errors.Is(err, errReplaced):
		p.Skip()
		return nil
	case err != nil:
		return err
	case text != nil:
		return p.AddText(e, f, text)
	case of.Result != "":
		return p.large(e, f, of.Job, of.Result)
	}
	return p.AddFile(e, f)
}

// replaced reports whether a package leaves out the entry of a Change List: a later event
// says that its file is another one by now, or gone.
func replaced(q Queue, refs *names.Queue, e *sitemap.Entry) bool {
	of, f, err := fileOfEntry(refs, e)
	if err == nil {
		p := &gathering{q: q, render: entries.Renderer{Refs: refs}}
		_, err = p.find(e, of, f)
	}
	return errors.Is(err, errReplaced)
}

// find returns the small file of an entry, nil for one to be opened later. The error is
// errReplaced if a later event says that it is another one by now, or gone.
func (p *gathering) find(e *sitemap.Entry, of names.File, f dump.File) (text []byte, err error) {
	if culled(p.q, p.render.Refs, e.Loc) {
		return nil, errReplaced
	}
	if of.Payload {
		return nil, nil
	}
	if of.Result != "" {
		return p.result(e, of.Job, &queuefs.Result{Name: of.Result, Size: f.Length, SHA256: f.SHA256}) // a later event removes it
	}
	var facts queuefs.Facts
	if of.Job == 0 {
		text, facts = p.q.InfoFile()
	} else {
		text, facts, err = p.q.JobFile(of.Job, of.Status)
	}
	switch {
	case err == nil && f.Is(text):
		return text, nil
	case errors.Is(err, queuefs.ErrNoJob), err == nil && facts.Modified.After(e.Changed()), of.Job == 0:
		return nil, errReplaced // the next event has its new state
	case err == nil:
		err = errChanged
	}
	return nil, &dump.FileError{Loc: e.Loc, Err: err}
}

// journaled returns the file of an entry from the record of its event, if the journal has
// it still; else nil.
func (p *gathering) journaled(e *sitemap.Entry, of names.File) []byte {
	if e.Seq == 0 || of.Result != "" {
		return nil
	}
	events, err := p.q.Journaled(queuefs.Seq(e.Seq)-1, 1, 1)
	switch {
	case err != nil || len(events) == 0 || events[0].Seq != queuefs.Seq(e.Seq):
		return nil
	case of.Payload:
		return events[0].Payload
	}
	return events[0].Text
}

// culled reports whether the job of a file is gone.
func culled(q Queue, refs *names.Queue, loc string) bool {
	f, ok := refs.File(loc)
	if !ok || f.Job == 0 {
		return false
	}
	st, _ := q.Status(f.Job)
	return st == 0
}

// Info adds queue-info.txt.
func (p *gathering) Info(text []byte, facts *queuefs.Facts) error {
	return p.AddText(p.render.Info(facts), fileFor(0, facts), text)
}

// Job adds the files of a job as its page had it at a version. A missing job file is
// left out if an event has touched the page since: the changes after the package lead
// to the state of now.
func (p *gathering) Job(page int, version queuefs.Seq, e *queuefs.Entry) error {
	if p.set == names.Pending && e.Status != queuefs.Pending {
		return nil
	}
	if p.pass == nil {
		p.pass = p.q.Pass()
	}
	payload := p.render.Payload(p.set, e)
	if err := p.AddFile(payload, fileFor(e.Job, &e.Payload)); err != nil || p.set == names.Pending {
		return err
	}
	touched := func() bool {
		now, _, _, _ := p.q.PageVersion(page)
		return now != version
	}
	entry := p.render.JobFile(e)
	text, _, err := p.pass.JobFile(e.Job, e.Status)
	if err == nil && sha256.Sum256(text) != e.File.SHA256 {
		err = errChanged
	}
	switch {
	case err == nil:
		err = p.AddText(entry, fileFor(e.Job, &e.File), text)
	case touched():
		err = nil // its results stay, and no later change may name them
	default:
		err = &dump.FileError{Loc: entry.Loc, Err: err}
	}
	if err != nil {
		return err
	}
	for i := range e.Results {
		entry := p.render.Result(e, &e.Results[i])
		err := p.listed(entry, e.Job, &e.Results[i])
		if errors.Is(err, errReplaced) {
			if touched() {
				continue
			}
			return &dump.FileError{Loc: entry.Loc, Err: err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// SizeOf returns the bytes of the files that Job adds for jobs, and their number.
func (p *gathering) SizeOf(jobs []queuefs.Entry) (octets int64, files int) {
	for i := range jobs {
		switch e := &jobs[i]; {
		case p.set == names.Replica:
			octets, files = octets+e.Payload.Length+e.File.Length, files+2+len(e.Results)
			for _, r := range e.Results {
				octets += r.Size
			}
		case e.Status == queuefs.Pending:
			octets, files = octets+e.Payload.Length, files+1
		}
	}
	return octets, files
}

// file returns the file of an entry, as it stands in a package.
func (p *gathering) file(e *sitemap.Entry) (of names.File, f dump.File, err error) {
	return fileOfEntry(p.render.Refs, e)
}

func fileOfEntry(refs *names.Queue, e *sitemap.Entry) (of names.File, f dump.File, err error) {
	of, ok := refs.File(e.Loc)
	if !ok {
		return of, f, errors.New("not a file of the queue")
	}
	f = dump.File{ID: uint64(of.Job), Length: e.Length, Type: e.Type}
	for _, h := range e.Hashes {
		if h.Alg == "sha-256" && len(h.Value) == 2*sha256.Size {
			_, err = hex.Decode(f.SHA256[:], []byte(h.Value))
		}
	}
	if f.SHA256 == ([sha256.Size]byte{}) || e.Length < 0 {
		err = errors.Join(err, errors.New("no digest or length"))
	}
	return of, f, err
}

// fileFor returns a file of a job as it stands in a package.
func fileFor(id queuefs.JobID, facts *queuefs.Facts) dump.File {
	return dump.File{ID: uint64(id), Length: facts.Length, SHA256: facts.SHA256, Type: facts.Type}
}
