// Package content reads jobs: the job file, the payload and the results, from the
// place that has them now. A part is in the journal as long as its file is behind,
// later in the directory of the queue, and perhaps in a pack. Readers never see
// the lag of the files.
//
// A file may move while it is read. Then the reader looks again; if the index has
// not changed meanwhile, the file is lost or damaged.
package content

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/packs"
	"cutie/queuefs/tree"
)

// Inline is up to where a payload may travel in the journal, in bytes.
const Inline = 128 << 10

// SmallResult is up to where a result travels in the journal, and in the image of a home in
// a store beside its job file, in bytes. The image has it again when its page has changed, so
// it is less than Inline.
const SmallResult = 16 << 10

// MaxJobFile bounds a job file: a sidecar with every octet escaped, and the rest.
const MaxJobFile = 3*job.MaxSidecar + 256<<10

// tries is how often a reader looks again when a file moves.
const tries = 100

// A Reader reads the jobs of a queue. Its methods are safe for concurrent use.
type Reader struct {
	Ledger   *ledger.Ledger
	Tree     *tree.Tree
	Packs    *packs.Packs
	Verified *durable.Verified       // results
	Far      Far                     // nil: the directory has all files
	Report   func(path, text string) // called with damage found
}

// Far has files of jobs that the directory lacks. Its methods bring them there, and report
// whether they brought any.
type Far interface {
	Page(id job.ID) (bool, error) // all small ones of the jobs in the page of one
	Payload(id job.ID, sum [32]byte) (bool, error)
	Result(id job.ID, r job.Result) (bool, error)
}

// bring is [Far.Page].
func (r *Reader) bring(id job.ID) (bool, error) {
	if r.Far == nil {
		return false, nil
	}
	return r.Far.Page(id)
}

// A farError is about files that are not in the directory: the store cannot be asked now.
type farError struct{ error }

func (e farError) Unwrap() error        { return e.error }
func (e farError) Is(target error) bool { return target == ErrUnread }

// Away marks an error of a store that may pass.
func Away(err error) error { return farError{err} }

// Text returns the job file as the index knows it. The error is [ledger.ErrNoJob] if
// there is none. A file edited by other hands is returned as it is.
func (r *Reader) Text(id job.ID) ([]byte, ledger.View, error) {
	var last []byte
	for range tries {
		v, ok := r.Ledger.View(id)
		if !ok {
			return nil, v, r.Ledger.NoJob()
		}
		text, err := r.textOf(id, &v)
		switch {
		case err == nil && sha256.Sum256(text) == v.FileSHA256:
			return text, v, nil
		case err == nil && last != nil && bytes.Equal(last, text):
			// It does not move: somebody edited the file.
			return text, v, nil
		case err == nil:
			last = text
		case moved(err):
			brought, e := r.bring(id)
			if e != nil {
				return nil, v, failure("job file", id, e)
			}
			if w, ok := r.Ledger.View(id); ok && w == v && !brought {
				return nil, v, failure("job file", id, err)
			}
		default:
			return nil, v, failure("job file", id, err)
		}
	}
	return nil, ledger.View{}, fmt.Errorf("job file of %s does not hold still", id)
}

// JobFile is Text of a job in a status, with the facts of the file. The error for a job of
// another status is [ledger.ErrNoJob].
func (r *Reader) JobFile(id job.ID, st job.Status) ([]byte, job.Facts, error) {
	text, v, err := r.Text(id)
	switch {
	case err != nil:
		return nil, job.Facts{}, err
	case v.Status != st:
		return nil, job.Facts{}, ledger.ErrNoJob
	}
	return text, ledger.FileFacts(&v.Job), nil
}

func (r *Reader) textOf(id job.ID, v *ledger.View) ([]byte, error) {
	if v.Journaled.File != 0 {
		text, _, err := r.Ledger.Parts(v, false)
		return text, err
	}
	return r.Tree.JobFile(id, v.Status, make([]byte, 0, v.FileLength+512))
}

// moved reports whether a part is somewhere else by now, or lost.
func moved(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, journal.ErrReleased)
}

// Job returns a job of any status. The error is [ledger.ErrNoJob] if there is none. If
// other hands have lost or damaged its file, it is reported, and the job has the facts
// in the index: see [job.Job.Lost].
func (r *Reader) Job(id job.ID) (job.Job, error) {
	text, v, err := r.Text(id)
	if errors.Is(err, ledger.ErrNoJob) || Transient(err) {
		return job.Job{}, err
	}
	var j job.Job
	if err == nil {
		j, err = parse(text, id)
	}
	if err == nil {
		err = Same(&j, &v.Job)
	}
	path := r.Tree.Path(v.Status.String(), id.String())
	switch {
	case err != nil && v.Job == (index.Job{}):
		return job.Job{}, err
	case err != nil:
		r.Report(path, err.Error())
		if j, err = r.Restored(id, &v); err != nil {
			return job.Job{}, err
		}
	case sha256.Sum256(text) != v.FileSHA256:
		r.Report(path, "job file was edited; it is used as it is")
	}
	r.complete(&j, &v)
	return j, nil
}

// Same refuses a job file that names another payload than the index does: it is of
// another job.
func Same(j *job.Job, known *index.Job) error {
	if is := j.Digest(digest.SHA256).Hex; is != "" && is != hex.EncodeToString(known.SHA256[:]) {
		return errors.New("job file names another payload")
	}
	return nil
}

// parse reads the job file of a job.
func parse(text []byte, id job.ID) (job.Job, error) {
	j, err := job.Parse(text)
	if err == nil && j.ID != id {
		err = fmt.Errorf("it speaks of %s", j.ID)
	}
	return j, err
}

// complete gives the job the facts of the index: the directory decides on the status,
// not the line in the file, and the size is that of the payload as it is served.
func (r *Reader) complete(j *job.Job, v *ledger.View) {
	j.Queue, j.Status, j.Size = r.Ledger.ID(), v.Status, v.Size
}

// Filed reads a job file where it stands in the directory, without the index.
func (r *Reader) Filed(id job.ID, st job.Status) (job.Job, []byte, error) {
	text, err := r.Tree.JobFile(id, st, nil)
	if err != nil {
		return job.Job{}, nil, err
	}
	j, err := parse(text, id)
	return j, text, err
}

// Restored returns a job made from the index and the files of its results, without
// its job file. An error says that the results cannot be read now.
func (r *Reader) Restored(id job.ID, v *ledger.View) (j job.Job, err error) {
	j = v.Restored(id)
	if v.Results {
		j.Results, err = r.foundResults(id)
	}
	return j, err
}

// Unread returns a job as far as the index knows it, for lists, after its job file could
// not be read for the reason why.
func (r *Reader) Unread(id job.ID, why error) (job.Job, error) {
	v, ok := r.Ledger.View(id)
	if !ok {
		return job.Job{}, fmt.Errorf("%v: %w", id, ledger.ErrNoJob)
	}
	j := v.Restored(id)
	j.Extra = anvl.Record{{Name: "note", Value: job.UnreadNote + durable.Bare(why).Error()}}
	r.complete(&j, &v)
	return j, nil
}

// ErrUnread: a file of a job cannot be read now. The file may be whole.
var ErrUnread = errors.New("storage cannot be read now, try again later")

// An UnreadError is an [ErrUnread] of a job.
type UnreadError struct {
	Job  job.ID
	What string // the part of the job
	Err  error
}

func (e *UnreadError) Error() string        { return fmt.Sprintf("%s of %v: %v", e.What, e.Job, e.Err) }
func (e *UnreadError) Unwrap() error        { return e.Err }
func (e *UnreadError) Is(target error) bool { return target == ErrUnread }

// Lost returns the jobs without their job files.
func Lost(jobs []job.Job) (lost []job.ID) {
	for i := range jobs {
		if jobs[i].Lost() {
			lost = append(lost, jobs[i].ID)
		}
	}
	return lost
}

// Reason returns the reason of a hold after an error of a payload, without the path of
// the home: job files are public.
func Reason(id job.ID, err error) string {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return fmt.Sprintf("payload of %v: %v", id, p.Err)
	}
	return err.Error()
}

// failure adds the part of a job to the error of its reading.
func failure(what string, id job.ID, err error) error {
	if Transient(err) && !Exhausted(err) {
		return &UnreadError{id, what, err}
	}
	return fmt.Errorf("%s of %v: %w", what, id, ledger.StorageError(err))
}

// Transient reports whether err says nothing of the file it came from: the file may
// be whole, and nothing must be written in its place. Every error of the system is,
// unless it says that there is no such file, or none that can be read at all.
func Transient(err error) bool {
	if errors.Is(err, ErrUnread) || Exhausted(err) {
		return true
	}
	var no syscall.Errno
	return errors.As(err, &no) && !durable.Lost(no)
}

// Exhausted reports whether err is about this process or service, not about the data.
func Exhausted(err error) bool {
	return isOne(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN, fs.ErrClosed, ledger.ErrClosed, ledger.ErrFailed)
}

func isOne(err error, of ...error) bool {
	for _, e := range of {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
