package gather

import (
	"errors"
	"io"

	"cutie/publisher/dump"
	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// A requeue removes results at any time, and nothing waits for a package. So small
// results are copied at once. A large one that goes before its package is written makes
// the package fail; the next try leaves it out.

// errReplaced is the error for a file that is gone, or another one by now.
var errReplaced = errors.New("a later event has replaced it")

// MaxCopied is up to where a result is copied at once, in bytes.
const MaxCopied = 1 << 20

// A result is a large result in a package. Its number there is its index after the
// numbers of all jobs.
type result struct {
	job  queuefs.JobID
	name string
}

// firstResult is the number of the first large result in a package.
const firstResult = uint64(job.MaxID) + 1

// result adds the entry of a result with its file. The error is errReplaced if the job
// has it no longer.
func (p *Package) result(e *sitemap.Entry, id queuefs.JobID, want *queuefs.Result) error {
	f := dump.File{ID: firstResult + uint64(len(p.results)), Length: want.Size, SHA256: want.SHA256, Type: e.Type}
	is, in, err := p.q.Result(id, want.Name)
	if errors.Is(err, queuefs.ErrNoResult) || errors.Is(err, queuefs.ErrNoJob) || err == nil && (is.SHA256 != want.SHA256 || is.Size != want.Size) {
		err = errors.Join(errReplaced, err)
	} else if err != nil {
		err = &dump.FileError{Loc: e.Loc, Err: err}
	}
	if in != nil {
		defer in.Close()
	}
	if err != nil {
		return err
	}
	if want.Size > MaxCopied {
		p.results = append(p.results, result{id, want.Name})
		return p.AddFile(e, f)
	}
	text := make([]byte, want.Size)
	if _, err := io.ReadFull(in, text); err != nil {
		return &dump.FileError{Loc: e.Loc, Err: err}
	}
	return p.AddText(e, f, text)
}

// open opens a payload or a large result.
func (p *Package) open(id uint64) (io.ReadCloser, int64, error) {
	var in *queuefs.Payload
	var err error
	if id >= firstResult {
		r := p.results[id-firstResult]
		_, in, err = p.q.Result(r.job, r.name)
	} else {
		in, err = p.q.Payload(queuefs.JobID(id))
	}
	if err != nil {
		return nil, 0, err
	}
	return in, in.Size(), nil
}

// loc returns the reference of a payload or a large result.
func (p *Package) loc(id uint64) string {
	refs := p.render.Refs
	if id >= firstResult {
		r := p.results[id-firstResult]
		return refs.Results + r.job.String() + "/" + r.name
	}
	return refs.Payloads + queuefs.JobID(id).String()
}
