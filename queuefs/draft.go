package queuefs

import (
	"crypto/sha256"
	"hash"
	"io"
	"slices"
	"sync"

	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
)

// A Draft is the payload of one job of a [Submission]. Small payloads are kept in
// memory. Payloads above 128 KiB, or beyond the limit of the whole submission, go
// to a temporary file on the way.
type Draft struct {
	sub   *Submission
	meta  Meta
	sum   *sum
	extra []extra // digests beside SHA-256, computed on the way
	began bool
	buf   []byte
	file  *durable.Spool
	size  int64
	err   error
}

// A sum is the SHA-256 of a payload, with a buffer; both are reused.
type sum struct {
	hash.Hash
	buf []byte
}

var sumPool = sync.Pool{New: func() any { return &sum{Hash: sha256.New()} }}

type extra struct {
	digest.Type
	hash.Hash
}

// SetMeta replaces the metadata of the job, also after its payload was written.
func (d *Draft) SetMeta(m Meta) error {
	if err := m.Check(); err != nil {
		return err
	}
	d.meta = m
	return nil
}

// Meta returns the metadata of the job.
func (d *Draft) Meta() Meta { return d.meta }

// Size returns the octets written so far.
func (d *Draft) Size() int64 { return d.size }

// Write adds to the payload.
func (d *Draft) Write(p []byte) (int, error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	if d.file == nil && len(p) > d.spare() {
		if d.err = d.spill(); d.err != nil {
			return 0, d.err
		}
	}
	if d.file != nil {
		if _, err := d.file.Write(p); err != nil {
			d.err = storageError(err)
			return 0, d.err
		}
	} else {
		d.buf = append(d.buf, p...)
		d.sub.budget -= len(p)
	}
	d.digest(p)
	return len(p), nil
}

// ReadFrom adds the rest of src to the payload, read straight into its buffer and
// hashed in large pieces.
func (d *Draft) ReadFrom(src io.Reader) (int64, error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	before := d.size
	more, err := true, error(nil)
	if d.file == nil {
		more, err = d.readInline(src)
	}
	for more && err == nil {
		more, err = d.readPiece(src)
	}
	return d.size - before, err
}

// scratches are first buffers: most payloads fit.
var scratches = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// readInline reads src into memory, up to the limit. With more to come it moves
// the payload to a file and returns true.
func (d *Draft) readInline(src io.Reader) (more bool, err error) {
	start := len(d.buf)
	most := start + d.spare()
	scratch := scratches.Get().(*[4 << 10]byte)
	n, err := readFull(src, scratch[:min(len(scratch), most-start+1)])
	d.buf = append(d.buf, scratch[:n]...)
	scratches.Put(scratch)
	for err == nil && len(d.buf) <= most { // one byte more shows that it is too much
		if len(d.buf) == cap(d.buf) {
			d.buf = slices.Grow(d.buf, min(max(16<<10, len(d.buf)), most+1-len(d.buf)))
		}
		n, err = src.Read(d.buf[len(d.buf):min(cap(d.buf), most+1)])
		d.buf = d.buf[:len(d.buf)+n]
	}
	piece := d.buf[start:]
	if d.digest(piece); len(d.buf) > most {
		d.buf = d.buf[:start]
		if d.err = d.spill(); d.err != nil {
			return false, d.err
		}
		if _, d.err = d.file.Write(piece); d.err != nil {
			d.err = storageError(d.err)
			return false, d.err
		}
	} else {
		d.sub.budget -= len(piece)
	}
	if err == io.EOF {
		return false, nil
	}
	return true, err
}

// readPiece fills the buffer of the file from src, and reports whether more is to
// come.
func (d *Draft) readPiece(src io.Reader) (more bool, err error) {
	room, err := d.file.Room()
	if err != nil {
		d.err = storageError(err)
		return false, d.err
	}
	n, err := readFull(src, room)
	d.file.Filled(n)
	d.digest(room[:n])
	if err == io.EOF {
		return false, nil
	}
	return true, err
}

// readFull fills p from src. Unlike [io.ReadFull] it returns the error of src,
// because io.ErrUnexpectedEOF is the error of a connection cut off.
func readFull(src io.Reader, p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		var k int
		k, err = src.Read(p[n:])
		n += k
	}
	return n, err
}

// begin prepares for more octets.
func (d *Draft) begin() error {
	switch {
	case d.sub.done:
		return errOver
	case d.err != nil:
		return d.err
	case d.began:
		return nil
	}
	d.began = true
	for _, t := range d.kinds() {
		d.extra = append(d.extra, extra{t, t.New()})
	}
	return nil
}

// spare returns the bytes still free in memory.
func (d *Draft) spare() int {
	return max(0, min(d.sub.q.svc.inline-len(d.buf), d.sub.budget))
}

// digest counts and hashes bytes of the payload.
func (d *Draft) digest(p []byte) {
	d.size += int64(len(p))
	d.sum.Write(p)
	for _, x := range d.extra {
		x.Write(p)
	}
}

// end gives back unused memory at the end of the payload, also spare capacity if
// the submission has many jobs.
func (d *Draft) end(many bool) error {
	if d.file != nil {
		return storageError(d.file.Park())
	}
	if many && cap(d.buf) > 2*len(d.buf) {
		d.buf, d.sum.buf = slices.Clone(d.buf), nil
	}
	return nil
}

// spill moves the payload to a temporary file.
func (d *Draft) spill() error {
	f, err := d.sub.q.svc.spool()
	if err != nil {
		return storageError(err)
	}
	d.file = f
	if _, err := f.Write(d.buf); err != nil {
		return storageError(err)
	}
	d.sub.budget += len(d.buf)
	d.buf = d.buf[:0]
	if len(d.sub.drafts) > 8 { // many would add up
		d.buf, d.sum.buf = nil, nil
	}
	return nil
}

// kinds returns the digests beside SHA-256: those of the queue, then others of the
// submitter.
func (d *Draft) kinds() []digest.Type {
	kinds := d.sub.digests.Types()
	for _, e := range d.meta.Expect {
		if e.Type != digest.SHA256 && !slices.Contains(kinds, e.Type) {
			kinds = append(kinds, e.Type)
		}
	}
	return kinds
}

// digests returns the digests of the payload, the SHA-256 first. The error is
// ErrDigest if the submitter gave another one.
func (d *Draft) digests() ([]digest.Value, error) {
	var sha [sha256.Size]byte
	kinds := d.kinds()
	all := append(make([]digest.Value, 0, 1+len(kinds)), digest.NewValue(digest.SHA256, d.sum.Sum(sha[:0])))
	for _, t := range kinds {
		v, err := d.digestOf(t)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	for _, want := range d.meta.Expect {
		i := slices.IndexFunc(all, func(v digest.Value) bool { return v.Type == want.Type })
		if err := want.Check(all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// digestOf returns a digest computed on the way, or else computes it now.
func (d *Draft) digestOf(t digest.Type) (digest.Value, error) {
	for _, x := range d.extra {
		if x.Type == t {
			return digest.NewValue(t, x.Sum(nil)), nil
		}
	}
	h := t.New()
	r, err := d.Reader()
	if err == nil {
		_, err = io.Copy(h, r)
	}
	return digest.NewValue(t, h.Sum(nil)), err
}
