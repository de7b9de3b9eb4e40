package publisher

import (
	"errors"
	"io"

	"cutie/publisher/dump"
	"cutie/queuefs"
	"cutie/sitemap"
)

// A requeue removes results at any time, and nothing waits for a package. So small
// results are copied at once. A large one that goes before its package is written makes
// the package fail; the next try leaves it out.

// errReplaced is the error for a result that is gone, or another one by now.
var errReplaced = errors.New("result is not what it was")

// maxCopied is up to where a result is copied at once, in bytes.
const maxCopied = 1 << 20

// A packedResult is a large result in a package. Its number there is its index after
// the numbers of all jobs.
type packedResult struct {
	job  queuefs.JobID
	name string
}

// addResult adds the entry of a result with its file to a package. The error is
// errReplaced if the job has it no longer.
func (t *task) addResult(p *dump.Package, e *sitemap.Entry, id queuefs.JobID, want *queuefs.Result) error {
	f := dump.File{ID: uint64(queuefs.MaxJobID) + 1 + uint64(len(t.results)), Length: want.Size, SHA256: want.SHA256, Type: e.Type}
	is, in, err := t.q.Result(id, want.Name)
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
	if want.Size > maxCopied {
		t.results = append(t.results, packedResult{id, want.Name})
		return p.AddFile(e, f)
	}
	text := make([]byte, want.Size)
	if _, err := io.ReadFull(in, text); err != nil {
		return &dump.FileError{Loc: e.Loc, Err: err}
	}
	return p.AddText(e, f, text)
}

// openPacked opens a payload or a large result.
func (t *task) openPacked(id uint64) (io.ReadCloser, int64, error) {
	if n := id - uint64(queuefs.MaxJobID) - 1; id > uint64(queuefs.MaxJobID) {
		_, in, err := t.q.Result(t.results[n].job, t.results[n].name)
		if err != nil {
			return nil, 0, err
		}
		return in, in.Size(), nil
	}
	in, err := t.q.Payload(queuefs.JobID(id))
	if err != nil {
		return nil, 0, err
	}
	return in, in.Size(), nil
}

// packedLoc returns the reference of a payload or a large result.
func (t *task) packedLoc(id uint64) string {
	if id > uint64(queuefs.MaxJobID) {
		r := t.results[id-uint64(queuefs.MaxJobID)-1]
		return t.refs.Results + r.job.String() + "/" + r.name
	}
	return t.refs.Payloads + queuefs.JobID(id).String()
}
