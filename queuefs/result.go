package queuefs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cutie/queuefs/content"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
	"cutie/queuefs/upload"
)

// MaxResults is how many results a job may have.
const MaxResults = content.MaxResults

// maxResultType is the most octets of the media type of a result: all of a
// job's results stand in its job file.
const maxResultType = 255

// A ResultUpload is a result on its way: written, then committed or discarded.
// It is for one goroutine.
type ResultUpload struct {
	q      *Queue
	id     job.ID
	token  string
	result job.Result
	expect []digest.Value
	up     *upload.Upload
	temp   string // the file with the contents
	done   bool
}

var errResultOver = errors.New("result is over")

// NewResult begins a result of a job under the caller's lease, or for some time after its
// abort. It must have the digests in expect. Errors are ErrLease, ErrResultExists,
// ErrBadName or ErrTooBig; call Commit or Discard in the end.
func (q *Queue) NewResult(ctx context.Context, id job.ID, token, name, mediaType string, expect []digest.Value) (*ResultUpload, error) {
	if err := q.changeable(ctx); err != nil {
		return nil, err
	}
	if err := job.CheckResultName(name); err != nil {
		return nil, err
	}
	if mediaType = job.CleanLabel(mediaType); len(mediaType) > maxResultType {
		return nil, fmt.Errorf("media type of result %s: %w: more than %d octets", name, job.ErrTooBig, maxResultType)
	}
	d := &ResultUpload{q: q, id: id, token: token, result: job.Result{Name: name, MediaType: mediaType}, expect: expect}
	for _, e := range expect {
		if !e.Type.Valid() {
			return nil, fmt.Errorf("%w: digest of result %s is of no known kind", job.ErrBadName, name)
		}
	}
	if err := q.svc.shared.Gate.Usable(); err != nil {
		return nil, err
	}
	j, err := q.content.Job(id)
	if err != nil {
		return nil, err
	}
	// Asked again when it is committed; this spares a long upload for nothing.
	if err := d.allowed(&j); err != nil {
		return nil, err
	}
	most := min(content.SmallResult, q.svc.shared.Inline)
	d.up = upload.New(&upload.Budget{Inline: most, Free: most, Spool: q.svc.spool})
	d.up.Hash(d.kinds)
	return d, nil
}

// allowed tells whether the job may have the result.
func (d *ResultUpload) allowed(j *job.Job) error {
	if !j.MayAdd(d.token, d.q.svc.shared.Now()) {
		return fmt.Errorf("%v: %w", j.ID, ErrLease)
	}
	if _, ok := j.Result(d.result.Name); ok {
		return fmt.Errorf("%v: %s: %w", j.ID, d.result.Name, ErrResultExists)
	}
	if len(j.Results) >= MaxResults {
		return fmt.Errorf("%v: %w: more than %d results", j.ID, job.ErrTooBig, MaxResults)
	}
	return nil
}

// Write adds to the result.
func (d *ResultUpload) Write(p []byte) (int, error) {
	if d.done {
		return 0, errResultOver
	}
	n, err := d.up.Write(p)
	return n, ledger.StorageError(err)
}

// kinds returns the digests to be computed beside SHA-256.
func (d *ResultUpload) kinds() (kinds []digest.Type) {
	for _, e := range d.expect {
		if e.Type != digest.SHA256 {
			kinds = append(kinds, e.Type)
		}
	}
	return kinds
}

// Commit adds the result to the job; the job keeps its lease. It is on stable
// storage when Commit returns. Errors are those of NewResult, ErrDigest,
// ErrNoSpace, ErrFailed, ErrClosed, or that of ctx; then there is no result.
func (d *ResultUpload) Commit(ctx context.Context) (job.Result, error) {
	if d.done {
		return job.Result{}, errResultOver
	}
	err := d.commit(ctx)
	d.discard(err != nil)
	if err != nil {
		return job.Result{}, err
	}
	return d.result, nil
}

func (d *ResultUpload) commit(ctx context.Context) error {
	q := d.q
	if err := d.up.Err(); err != nil {
		return ledger.StorageError(err)
	}
	if _, err := d.up.Digests(d.kinds(), d.expect); err != nil {
		return ledger.StorageError(err)
	}
	d.result.Size, d.result.SHA256 = d.up.Size(), d.up.SHA256()
	small, err := d.place(ctx)
	if err != nil {
		return ledger.StorageError(err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := q.svc.makeFit(1, d.result.Size); err != nil {
		return err
	}
	if _, err := q.ledger.Claim(ctx, d.id, 0); err != nil {
		return err
	}
	from, err := q.content.Job(d.id)
	if err == nil {
		// With the record the result is there; its file gets its name like
		// other files behind the journal.
		err = q.commit(func(b *ledger.Batch) error {
			j := from
			if err := d.allowed(&j); err != nil {
				return err
			}
			seq, us := b.Next()
			j.Seq = seq
			j.Results = append(slices.Clip(j.Results), d.result)
			r := b.Job(&j, job.Conclude, from.Status, us)
			r.Flags |= record.Result
			r.Temp, r.Result = d.temp+"/"+d.result.Name, small
			return nil
		})
	}
	if err != nil {
		q.ledger.Release(d.id)
		return err
	}
	q.assist(1)
	return nil
}

// place gives the result its file, for a record to name. The record has the contents of a
// small one, and these are returned: then the file needs no sync, since a replay writes it
// again. A large one is on stable storage when place returns.
func (d *ResultUpload) place(ctx context.Context) (small []byte, err error) {
	q := d.q
	if d.temp = d.up.Temp(); d.temp == "" {
		small = append([]byte{}, d.up.Data()...)
		d.temp, err = q.svc.dirs.temp.Stage(d.result.Name, small)
		return small, err
	}
	if err := d.up.Sync(); err != nil {
		return nil, err
	}
	if err := q.svc.dirs.temp.Sync(); err != nil {
		return nil, err
	}
	d.temp, err = q.svc.stored.Keep(ctx, d.temp, d.result.SHA256)
	d.up.Named(d.temp)
	return nil, err
}

// Discard lets go of the upload. After Commit it does nothing.
func (d *ResultUpload) Discard() { d.discard(true) }

func (d *ResultUpload) discard(remove bool) {
	if d.done {
		return
	}
	d.done = true
	if d.temp == "" {
		d.temp = d.up.Temp()
	}
	d.up.Close()
	if remove {
		d.q.svc.dropTemp(d.temp)
	}
}
