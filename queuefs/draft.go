package queuefs

import (
	"hash"
	"io"
	"slices"
	"sync"

	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/lanes"
)

// A Draft is the payload of one job of a [Submission]. Small payloads are
// kept in memory; what is above 128 KiB, or beyond what the whole submission
// may keep, goes to a temporary file as it comes.
type Draft struct {
	sub   *Submission
	meta  Meta
	sums  *sums
	extra []hash.Hash // of kinds; nil where sums has it
	kinds []digest.Type
	began bool
	buf   []byte
	file  *durable.Spool
	size  int64
	err   error
}

// sums are the digests every payload gets, with a buffer; they are reused.
type sums struct {
	*lanes.Sums
	buf []byte
}

var sumsPool = sync.Pool{New: func() any { return &sums{Sums: lanes.New()} }}

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
	for _, e := range d.meta.Expect {
		var h hash.Hash
		if e.Type != digest.SHA256 && e.Type != digest.MD5 {
			h = e.Type.New()
		}
		d.extra, d.kinds = append(d.extra, h), append(d.kinds, e.Type)
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
	d.sums.Write(p)
	for _, h := range d.extra {
		if h != nil {
			h.Write(p)
		}
	}
}

// end gives back what no further octets will need. Of a draft that is one of
// many that is also the room beyond the payload, which would add up.
func (d *Draft) end(many bool) error {
	if d.file != nil {
		return storageError(d.file.Park())
	}
	if many && cap(d.buf) > 2*len(d.buf) {
		d.buf, d.sums.buf = slices.Clone(d.buf), nil
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
		d.buf, d.sums.buf = nil, nil
	}
	return nil
}

// verify compares the payload with the digests the submitter gave.
func (d *Draft) verify(got []digest.Value) ([]digest.Value, error) {
	for i, want := range d.meta.Expect {
		var have digest.Value
		switch {
		case want.Type == digest.SHA256:
			have = got[0]
		case want.Type == digest.MD5:
			have = got[1]
		case i < len(d.extra) && d.kinds[i] == want.Type:
			have = digest.NewValue(want.Type, d.extra[i].Sum(nil))
		default: // it was named after the payload had come
			h := want.Type.New()
			if d.file != nil {
				f, err := d.file.File()
				if err != nil {
					return nil, storageError(err)
				}
				if _, err := io.Copy(h, io.NewSectionReader(f, 0, d.size)); err != nil {
					return nil, err
				}
			} else {
				h.Write(d.buf)
			}
			have = digest.NewValue(want.Type, h.Sum(nil))
		}
		if err := want.Check(have); err != nil {
			return nil, err
		}
		if want.Type != digest.SHA256 && want.Type != digest.MD5 {
			got = append(got, have)
		}
	}
	return got, nil
}
