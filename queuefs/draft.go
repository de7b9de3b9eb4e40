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

// A Draft is the payload of one job of a [Submission]. Small payloads are
// kept in memory; what is above 128 KiB, or beyond what the whole submission
// may keep, goes to a temporary file as it comes.
type Draft struct {
	sub   *Submission
	meta  Meta
	sum   *sum
	extra []extra // the digests beside SHA-256 that are computed on the way
	began bool
	buf   []byte
	file  *durable.Spool
	size  int64
	err   error
}

// A sum is the digest that every payload gets, with a buffer; both are reused.
type sum struct {
	hash.Hash
	buf []byte
}

var sumPool = sync.Pool{New: func() any { return &sum{Hash: sha256.New()} }}

type extra struct {
	digest.Type
	hash.Hash
}

// SetMeta replaces what is said of the job, also after its payload was
// written.
func (d *Draft) SetMeta(m Meta) error {
	if err := m.check(); err != nil {
		return err
	}
	d.meta = m
	return nil
}

// Meta returns what is said of the job so far.
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

// ReadFrom adds the rest of src to the payload. The octets are read to where
// they stay, and digested many at a time.
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

// scratches are what a payload is read to first: most are as small.
var scratches = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// readInline reads src into memory and tells whether there is more: then it was
// more than may be kept, and what came is in a file.
func (d *Draft) readInline(src io.Reader) (more bool, err error) {
	start := len(d.buf)
	most := start + d.spare()
	scratch := scratches.Get().(*[4 << 10]byte)
	n, err := readFull(src, scratch[:min(len(scratch), most-start+1)])
	d.buf = append(d.buf, scratch[:n]...)
	scratches.Put(scratch)
	for err == nil && len(d.buf) <= most { // one octet more tells that it is too much
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

// readPiece fills the buffer of the file from src and tells whether there is
// more.
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

// readFull fills p from src. Other than that of [io.ReadFull] its error is the
// one of src, for a connection that is cut off ends with io.ErrUnexpectedEOF.
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

// spare returns how many octets more may be kept in memory.
func (d *Draft) spare() int {
	return max(0, min(d.sub.q.svc.inline-len(d.buf), d.sub.budget))
}

// digest counts octets of the payload and adds them to its digests.
func (d *Draft) digest(p []byte) {
	d.size += int64(len(p))
	d.sum.Write(p)
	for _, x := range d.extra {
		x.Write(p)
	}
}

// end gives back what no further octets will need. Of a draft that is one of
// many that is also the room beyond the payload, which would add up.
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
	if len(d.sub.drafts) > 8 { // many that are kept to the end would add up
		d.buf, d.sum.buf = nil, nil
	}
	return nil
}

// kinds returns the digests beside SHA-256: those the queue asks for, then the
// others that the submitter gave.
func (d *Draft) kinds() []digest.Type {
	kinds := d.sub.digests.Types()
	for _, e := range d.meta.Expect {
		if e.Type != digest.SHA256 && !slices.Contains(kinds, e.Type) {
			kinds = append(kinds, e.Type)
		}
	}
	return kinds
}

// digests returns those of the payload, the SHA-256 first. If the submitter gave
// another one the error is ErrDigest.
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

// digestOf returns a digest that was computed on the way or, if the submitter
// named it after the payload, is computed now.
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
