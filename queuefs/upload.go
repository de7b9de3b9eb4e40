package queuefs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
	"cutie/queuefs/upload"
)

// An Upload is the payload of one job of a [Submission]. Small payloads are kept in
// memory. Payloads above 128 KiB, or beyond the limit of the whole submission, go
// to a temporary file on the way.
type Upload struct {
	sub  *Submission
	meta job.Meta
	up   upload.Upload
	rec  record.Record // see describe

	known bool // the job is in the queue already, by its key
}

// SetMeta replaces the metadata of the job, also after its payload was written.
func (d *Upload) SetMeta(m job.Meta) error {
	if err := m.Check(); err != nil {
		return err
	}
	d.meta = m
	return nil
}

// Meta returns the metadata of the job.
func (d *Upload) Meta() job.Meta { return d.meta }

// Size returns the octets written so far.
func (d *Upload) Size() int64 { return d.up.Size() }

// Write adds to the payload.
func (d *Upload) Write(p []byte) (int, error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	n, err := d.up.Write(p)
	return n, ledger.StorageError(err)
}

// ReadFrom adds the rest of src to the payload, read straight into its buffer and
// hashed in large pieces.
func (d *Upload) ReadFrom(src io.Reader) (int64, error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	n, err := d.up.ReadFrom(src)
	if d.up.Err() != nil {
		err = d.err()
	}
	return n, err
}

// begin prepares for more octets.
func (d *Upload) begin() error {
	if d.sub.done {
		return errOver
	}
	if err := d.err(); err != nil {
		return err
	}
	d.up.Hash(d.kinds)
	return nil
}

// err returns the error of storage that has ended the upload.
func (d *Upload) err() error { return ledger.StorageError(d.up.Err()) }

// Verify compares the complete payload with the digests from the submitter, if the
// queue verifies on write. Commit does so too; the error is ErrDigest.
func (d *Upload) Verify() error {
	if err := d.err(); err != nil {
		return err
	}
	_, err := d.digests()
	return err
}

// Reader returns a reader of the payload so far, for use before the end of the
// submission.
func (d *Upload) Reader() (io.Reader, error) {
	if d.sub.done {
		return nil, errOver
	}
	r, err := d.up.Reader()
	return r, ledger.StorageError(err)
}

// kinds returns the digests beside SHA-256: those of the queue, then others of the
// submitter.
func (d *Upload) kinds() []digest.Type {
	kinds := d.sub.digests.Types()
	for _, e := range d.meta.Expect {
		if e.Type != digest.SHA256 && !slices.Contains(kinds, e.Type) {
			kinds = append(kinds, e.Type)
		}
	}
	return kinds
}

// digests returns the digests of the payload, the SHA-256 first. The error is ErrDigest if
// the submitter gave another one.
func (d *Upload) digests() ([]digest.Value, error) {
	all, err := d.up.Digests(d.kinds(), d.meta.Expect)
	return all, ledger.StorageError(err)
}

// describe describes the job in j and in the record of the upload, both without the facts
// of its event.
func (d *Upload) describe(j *job.Job) error {
	if err := d.err(); err != nil {
		return err
	}
	digests, err := d.digests()
	if err != nil {
		return err
	}
	m, to := &d.meta, d.sub.to
	if !m.NotBefore.IsZero() && m.NotBefore.UnixMicro() <= to.svc.shared.Micro() {
		m.NotBefore = time.Time{} // its time has come
	}
	*j = m.Job()
	j.Queue, j.Size, j.Digests = to.ID(), d.up.Size(), digests
	d.rec = record.Record{Kind: job.Submit, To: job.Pending, Verify: d.sub.verify, Flags: record.Inline, Temp: d.up.Temp(),
		Payload: record.Payload{Size: j.Size, MediaType: m.MediaType, SHA256: d.up.SHA256(), MD5: j.MD5()}}
	if d.rec.Temp != "" {
		d.rec.Flags = record.InTemp
	}
	return nil
}

// readBack compares the payload with its temporary file, which is synced, on the disk.
func (d *Upload) readBack() error {
	r, err := d.up.Reader()
	if err != nil {
		return ledger.StorageError(err)
	}
	d.up.Uncache()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return ledger.StorageError(err)
	}
	if [sha256.Size]byte(h.Sum(nil)) != d.up.SHA256() {
		return fmt.Errorf("%s: %w", d.up.Temp(), errReadBack)
	}
	return nil
}

var errReadBack = errors.New("the payload was not stored as it came")

// keep puts the temporary file of an upload where the home is, before a record names it.
func (d *Upload) keep(ctx context.Context) error {
	name, err := d.sub.to.svc.stored.Keep(ctx, d.up.Temp(), d.up.SHA256())
	d.up.Named(name)
	d.rec.Temp = name
	return err
}

// dropTemp removes a temporary file. After a failed commit the journal may speak of it
// all the same; opening the home settles it.
func (s *Service) dropTemp(temp string) {
	if temp != "" && s.shared.Gate.Err() == nil {
		s.dirs.temp.Remove(temp)
	}
}
