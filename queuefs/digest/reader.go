package digest

import (
	"hash"
	"io"
)

// A Reader computes digests of the octets read through it.
type Reader struct {
	in     io.Reader
	expect []Value
	sums   []hash.Hash
}

// NewReader returns a Reader of in for the types of the expected digests.
func NewReader(in io.Reader, expect []Value) *Reader {
	r := &Reader{in: in, expect: expect}
	for _, v := range expect {
		r.sums = append(r.sums, v.Type.New())
	}
	return r
}

func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	for _, h := range r.sums {
		h.Write(p[:n])
	}
	return n, err
}

// Verify returns an [ErrMismatch] if a digest of the octets read so far is not
// the expected one.
func (r *Reader) Verify() error {
	for i, v := range r.expect {
		if err := v.Check(NewValue(v.Type, r.sums[i].Sum(nil))); err != nil {
			return err
		}
	}
	return nil
}
