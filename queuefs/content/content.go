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
	"hash"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/packs"
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
	Dir      *dir.Dir
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
	return r.Dir.JobFile(id, v.Status, make([]byte, 0, v.FileLength+512))
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
	path := r.Dir.Path(v.Status.String(), id.String())
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

// A LostError is an [ErrUnread] of a queue whose directory is missing or empty.
type LostError struct {
	Queue string // cleaned identifier
	Back  bool   // the directory is there again, since the home was opened
}

func (e *LostError) Error() string {
	return fmt.Sprintf("queue %s is not served: %s", e.Queue, e.Text())
}

// Text says what happened and what to do.
func (e *LostError) Text() string {
	if e.Back {
		return "its directory was lost and is there again: start the daemon again to serve it"
	}
	return fmt.Sprintf("its directory %s/%s is lost: put it back and start the daemon again, or remove the queue for good with cutie rmqueue --lost %s", home.QueuesDir, e.Queue, e.Queue)
}
func (e *LostError) Is(target error) bool { return target == ErrUnread }

// A ShutError is an [ErrUnread] of a queue that is shut.
type ShutError struct {
	Queue string // cleaned identifier
	Err   error  // of the reading
}

func (e *ShutError) Error() string {
	return fmt.Sprintf("queue %s is shut: %s cannot be read now: %v; look at the disk, the queue opens by itself once the file can be read", e.Queue, home.QueueInfoName, e.Err)
}
func (e *ShutError) Unwrap() error        { return e.Err }
func (e *ShutError) Is(target error) bool { return target == ErrUnread }

// fetchLimit is how many bytes of payloads come along with their jobs.
const fetchLimit = 256 << 10

// Fetch is Job for each of ids, and with payloads their payloads, as far as they are
// at hand: one that is empty is not nil.
func (r *Reader) Fetch(ids []job.ID, payloads bool) ([]job.Job, [][]byte, error) {
	jobs, data := make([]job.Job, len(ids)), make([][]byte, len(ids))
	left := int64(0)
	if payloads {
		left = fetchLimit
	}
	for i, id := range ids {
		var ok bool
		if jobs[i], data[i], ok = r.journaled(id, left); ok {
			left -= int64(len(data[i]))
			continue
		}
		if jobs[i], data[i], ok = r.packed(id); ok {
			continue
		}
		var err error
		if jobs[i], err = r.Job(id); err != nil {
			return nil, nil, err
		}
	}
	return jobs, data, nil
}

// journaled reads a job with one read from the journal, and a payload of up to limit
// bytes beside it. It returns false if that is not possible or does not verify.
func (r *Reader) journaled(id job.ID, limit int64) (j job.Job, payload []byte, ok bool) {
	v, ok := r.Ledger.View(id)
	if !ok || v.Journaled.File == 0 {
		return j, nil, false
	}
	beside := v.Journaled.Payload == v.Journaled.File && v.Size <= limit
	text, payload, err := r.Ledger.Parts(&v, beside)
	if err != nil || sha256.Sum256(text) != v.FileSHA256 {
		return j, nil, false
	}
	if j, err = parse(text, id); err != nil {
		return j, nil, false
	}
	r.complete(&j, &v)
	if len(payload) < len(text) {
		payload = bytes.Clone(payload) // the job file is not kept for its sake
	}
	return j, payload, true
}

// packed returns a pending job from its pack, with its payload.
func (r *Reader) packed(id job.ID) (j job.Job, payload []byte, ok bool) {
	c := r.Packs.Find(id)
	if c == nil {
		return j, nil, false
	}
	v, ok := r.Ledger.View(id)
	if !ok || !c.Matches(&v.Job) {
		return j, nil, false
	}
	j, err := parse(c.Text, id)
	if err != nil {
		return j, nil, false
	}
	r.complete(&j, &v)
	return j, c.Payload, true
}

// A Pass reads the jobs of a queue in their order, for a package: small pending ones from
// the packs of their pages, where there are some. Its methods are safe for concurrent use,
// by goroutines less than a page apart.
type Pass struct {
	of *Reader

	mu   sync.Mutex
	last [2]packs.Page // the last ones read
}

// Pass returns a new one.
func (r *Reader) Pass() *Pass { return &Pass{of: r} }

// JobFile is [Reader.JobFile].
func (p *Pass) JobFile(id job.ID, st job.Status) ([]byte, job.Facts, error) {
	if v, ok := p.of.Ledger.View(id); ok && st == job.Pending && v.Status == st && v.Journaled.File == 0 {
		if text := p.copyOf(id).File(v.FileSHA256); text != nil {
			return text, ledger.FileFacts(&v.Job), nil
		}
	}
	return p.of.JobFile(id, st)
}

// Payload is [Reader.Payload].
func (p *Pass) Payload(id job.ID) (*dir.Payload, error) {
	if v, ok := p.of.Ledger.View(id); ok && v.Status == job.Pending && v.Journaled.Payload == 0 {
		if data := p.copyOf(id).Data(v.SHA256); data != nil {
			return dir.PayloadOf(data), nil
		}
	}
	return p.of.Payload(id)
}

// copyOf returns the copy of a job, nil without one.
func (p *Pass) copyOf(id job.ID) *packs.Copy {
	n := int(id / index.PageJobs)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.last {
		if p.last[i].Jobs != nil && p.last[i].Number == n {
			return p.last[i].Jobs[id]
		}
	}
	_, _, pending, _ := p.of.Ledger.PageVersion(n)
	p.last[0], p.last[1] = p.last[1], p.of.Packs.Page(n, pending)
	return p.last[1].Jobs[id]
}

// Payload opens the payload of a job of any status.
func (r *Reader) Payload(id job.ID) (*dir.Payload, error) {
	for range tries {
		v, ok := r.Ledger.View(id)
		if !ok {
			return nil, r.Ledger.NoJob()
		}
		p, err := r.payloadOf(id, &v)
		if err == nil {
			return p, nil
		}
		if !moved(err) {
			return nil, err
		}
		brought, e := r.bringPayload(id, &v)
		if e != nil {
			return nil, failure("payload", id, e)
		}
		if w, ok := r.Ledger.View(id); ok && w == v && !brought {
			return nil, err
		}
	}
	return nil, fmt.Errorf("payload of %s does not hold still", id)
}

// bringPayload brings a payload that the directory lacks.
func (r *Reader) bringPayload(id job.ID, v *ledger.View) (bool, error) {
	if brought, err := r.bring(id); brought || err != nil || r.Far == nil || v.Size <= Inline {
		return brought, err
	}
	return r.Far.Payload(id, v.SHA256)
}

// payloadOf opens a payload: a small one in memory, a large one in its file.
func (r *Reader) payloadOf(id job.ID, v *ledger.View) (*dir.Payload, error) {
	size := v.Size
	if size > Inline {
		f, err := r.Dir.OpenPayload(id, v.Temp)
		if err != nil {
			return nil, failure("payload", id, err)
		}
		if st, e := f.Stat(); e != nil || st.Size() != size {
			f.Close()
			if e != nil {
				return nil, failure("payload", id, e)
			}
			return nil, fmt.Errorf("payload of %s has %d octets instead of %d", id, st.Size(), size)
		}
		return dir.PayloadIn(f, size), nil
	}
	var data []byte
	var err error
	if v.Journaled.Payload != 0 {
		data, err = r.Ledger.Payload(v)
	} else {
		data, err = r.Dir.ReadPayload(id, v.Temp, make([]byte, 0, size+512), Inline)
	}
	switch {
	case err != nil:
		return nil, failure("payload", id, err)
	case int64(len(data)) != size:
		return nil, fmt.Errorf("payload of %s has %d octets instead of %d", id, len(data), size)
	}
	return dir.PayloadOf(data), nil
}

// Find looks, without reading, for the payload of a job in its original length. One in
// the journal or a pack is not looked for.
func (r *Reader) Find(id job.ID) error {
	for range tries {
		v, ok := r.Ledger.View(id)
		if !ok {
			return r.Ledger.NoJob()
		}
		if v.Journaled.Payload != 0 || r.Packs.Find(id).Matches(&v.Job) {
			return nil
		}
		st, err := r.Dir.StatPayload(id, v.Temp)
		switch {
		case err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
			return fmt.Errorf("payload of %v is not a regular file", id)
		case err == nil && st.Size != v.Size:
			return fmt.Errorf("payload of %v has %d octets instead of %d", id, st.Size, v.Size)
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return failure("payload", id, err)
		}
		brought, e := r.bringPayload(id, &v)
		if e != nil {
			return failure("payload", id, e)
		}
		if w, ok := r.Ledger.View(id); ok && w == v && !brought {
			return fmt.Errorf("payload of %v: %w", id, err)
		}
	}
	return fmt.Errorf("payload of %v does not hold still", id)
}

// Verify reads the payload of a job and compares it with the digest in the index.
func (r *Reader) Verify(id job.ID) error {
	v, ok := r.Ledger.View(id)
	if !ok {
		return ledger.ErrNoJob
	}
	p, err := r.Payload(id)
	if err != nil {
		return err
	}
	defer p.Close()
	d := digests.Get().(*digester)
	defer digests.Put(d)
	d.Reset()
	// Through the page cache: the consumer reads it again at once.
	if _, err := io.CopyBuffer(d, struct{ io.Reader }{p}, d.buf[:]); err != nil {
		return failure("payload", id, err)
	}
	if [32]byte(d.Sum(d.sum[:0])) != v.SHA256 {
		return fmt.Errorf("payload of %v has not its SHA-256 digest", id)
	}
	return nil
}

// A digester hashes payloads, one at a time.
type digester struct {
	hash.Hash
	sum [sha256.Size]byte
	buf [16 << 10]byte
}

var digests = sync.Pool{New: func() any { return &digester{Hash: sha256.New()} }}

// Sound is why a job is not to be handed out, nil if it is. A payload in a file that is
// shorter than [VerifiedBelow], and with all every payload, is read and compared with the
// digest in the index. Of the others the length is looked at; one in the journal was written
// a moment ago, and one in a pack is read from there.
func (r *Reader) Sound(id job.ID, all bool) error {
	if v, ok := r.Ledger.View(id); ok && (all || v.Size < VerifiedBelow && v.Journaled.Payload == 0 && !r.Packs.Find(id).Matches(&v.Job)) {
		return r.Verify(id)
	}
	return r.Find(id)
}

// VerifiedBelow is the length of the payloads that are not compared with their digest when
// they are handed out, unless their queue wants it: to read and hash a shorter one costs
// little beside handing it out.
const VerifiedBelow = 1 << 20

// MaxResults is how many results a job may have.
const MaxResults = job.MaxResults

// ErrNoResult is the error for a job without a result of the name.
var ErrNoResult = errors.New("result not found")

// ErrResultDamaged is the error for a result without its file, its length or its
// digest.
var ErrResultDamaged = errors.New("the result is lost or damaged; a requeue of the job makes it anew")

// Result opens a result of a job, to be closed after use. The error is
// [ErrNoResult] if the job has none of the name, and [ErrResultDamaged] if the file is
// not the one of the worker; that is reported.
func (r *Reader) Result(id job.ID, name string) (job.Result, *dir.Payload, error) {
	if err := job.CheckResultName(name); err != nil {
		return job.Result{}, nil, err
	}
	var err error
	for range tries {
		j, e := r.Job(id)
		if e != nil {
			return job.Result{}, nil, e
		}
		res, ok := j.Result(name)
		if !ok {
			return job.Result{}, nil, fmt.Errorf("%v: %s: %w", id, name, ErrNoResult)
		}
		f, e := r.Dir.OpenResult(id, name)
		if err = e; errors.Is(err, fs.ErrNotExist) {
			if r.Far != nil {
				if _, e := r.Far.Result(id, res); e != nil {
					return job.Result{}, nil, failure("result "+name, id, e)
				}
			}
			continue // taken back meanwhile, or just getting its name
		}
		if err != nil {
			break
		}
		if err = r.Verified.Check(f, res.Size, res.SHA256); err != nil {
			f.Close()
			break
		}
		return res, dir.PayloadIn(f, res.Size), nil
	}
	if durable.Lost(err) {
		r.Report(r.Dir.Path(dir.Results, id.String()+"/"+name), err.Error())
		err = errors.Join(ErrResultDamaged, err)
	}
	return job.Result{}, nil, failure("result "+name, id, err)
}

// CheckResult reads a result and compares it with the job file. It returns the octets
// of a good one.
func (r *Reader) CheckResult(id job.ID, want job.Result) (int64, error) {
	n, sum, err := r.Dir.SumResult(id, want.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, errors.New("result missing")
	case err != nil:
		return 0, err
	case n != want.Size || sum != want.SHA256:
		return 0, errors.New("result has not its size and SHA-256 digest")
	}
	return n, nil
}

// foundResults makes the results of a job without a job file from their files, without
// the damaged ones.
func (r *Reader) foundResults(id job.ID) (found []job.Result, err error) {
	note := func(e error) {
		if Transient(e) && err == nil {
			err = failure("results", id, e)
		}
	}
	note(r.Dir.ResultNames(id, func(name string) {
		if job.CheckResultName(name) != nil || len(found) == MaxResults {
			return
		}
		res := job.Result{Name: name}
		var e error
		if res.Size, res.SHA256, e = r.Dir.SumResult(id, name); e == nil {
			found = append(found, res)
		}
		note(e)
	}))
	slices.SortFunc(found, func(a, b job.Result) int { return strings.Compare(a.Name, b.Name) })
	return found, err
}

// AddResults gives entries the results of their jobs, from the job files. A job with
// later events has the results of now, and one that is gone or cannot be read has none.
func (r *Reader) AddResults(entries []ledger.Entry) {
	for i := range entries {
		if e := &entries[i]; e.HasResults {
			if j, err := r.Job(e.Job); err == nil {
				e.Results = j.Results
			}
		}
	}
}
