package set

import (
	"errors"
	"io"

	"cutie/publisher/dump"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// A requeue removes results at any time, and nothing waits for a package. So small
// results are copied at once. A large one that goes before its package is written makes
// the package fail; the next try leaves it out.

// errReplaced is the error for a file that is gone, or another one by now.
var errReplaced = errors.New("a later event has replaced it")

// maxCopied is up to where a result is copied at once, in bytes.
const maxCopied = 1 << 20

// A largeResult is a result in a package. Its number there is its index after the
// numbers of all jobs.
type largeResult struct {
	job  queuefs.JobID
	name string
}

// firstLarge is the number of the first large result in a package.
const firstLarge = uint64(job.MaxID) + 1

// result returns a small result of a job, nil for a large one. The error is errReplaced
// if the job has it no longer.
func (p *gathering) result(e *sitemap.Entry, id queuefs.JobID, want *queuefs.Result) ([]byte, error) {
	is, in, err := p.q.Result(id, want.Name)
	if errors.Is(err, queuefs.ErrNoResult) || errors.Is(err, queuefs.ErrNoJob) || err == nil && (is.SHA256 != want.SHA256 || is.Size != want.Size) {
		err = errors.Join(errReplaced, err)
	} else if err != nil {
		err = &dump.FileError{Loc: e.Loc, Err: err}
	}
	if in != nil {
		defer in.Close()
	}
	if err != nil || want.Size > maxCopied {
		return nil, err
	}
	text := make([]byte, want.Size)
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, &dump.FileError{Loc: e.Loc, Err: err}
	}
	return text, nil
}

// listed adds the entry of a result with its file. The error is errReplaced if the job has
// it no longer.
func (p *gathering) listed(e *sitemap.Entry, id queuefs.JobID, want *queuefs.Result) error {
	text, err := p.result(e, id, want)
	if err != nil {
		return err
	}
	f := dump.File{Length: want.Size, SHA256: want.SHA256, Type: e.Type}
	if text != nil {
		return p.AddText(e, f, text)
	}
	return p.large(e, f, id, want.Name)
}

// large adds the entry of a large result.
func (p *gathering) large(e *sitemap.Entry, f dump.File, id queuefs.JobID, name string) error {
	f.ID = firstLarge + uint64(len(p.results))
	p.results = append(p.results, largeResult{id, name})
	return p.AddFile(e, f)
}

// readText reads a file of a queue and closes it; nil if it cannot be read whole.
func readText(in *queuefs.Payload, length int64) []byte {
	defer in.Close()
	text := make([]byte, length)
	if _, err := io.ReadFull(in, text); err != nil || in.Size() != length {
		return nil
	}
	return text
}

// open opens a payload or a large result.
func (p *gathering) open(id uint64) (io.ReadCloser, int64, error) {
	var in *queuefs.Payload
	var err error
	if id >= firstLarge {
		r := p.results[id-firstLarge]
		_, in, err = p.q.Result(r.job, r.name)
	} else if p.pass != nil {
		in, err = p.pass.Payload(queuefs.JobID(id))
	} else {
		in, err = p.q.Payload(queuefs.JobID(id))
	}
	if err != nil {
		return nil, 0, err
	}
	return in, in.Size(), nil
}

// loc returns the reference of a payload or a large result.
func (p *gathering) loc(id uint64) string {
	refs := p.render.Refs
	if id >= firstLarge {
		r := p.results[id-firstLarge]
		return refs.Results + r.job.String() + "/" + r.name
	}
	return refs.Payloads + queuefs.JobID(id).String()
}

// lateFile opens the payload or the result of an entry, if it is one that a package gets at
// its end; nil if it is another file, or cannot be opened.
func lateFile(q Queue, refs *names.Queue, e *sitemap.Entry) (f dump.File, in *queuefs.Payload, err error) {
	of, f, err := fileOfEntry(refs, e)
	switch {
	case err != nil:
	case of.Payload && f.Length > dump.Late:
		in, err = q.Payload(of.Job)
	case of.Result != "" && f.Length > maxCopied:
		_, in, err = q.Result(of.Job, of.Result)
	}
	return f, in, err
}
