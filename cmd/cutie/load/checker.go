package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Checker compares a payload that came back with what was sent. A payload that
// no [Payload] made has no stamp and is taken as it is. It is not safe for
// concurrent use.
type Checker struct {
	p       *Payload
	n       int64
	stamp   [stampSize]byte
	differs int64 // first octet that is not what was sent; -1
	buf     []byte
}

// ErrPayload is wrapped by every complaint about the octets of a payload.
var ErrPayload = errors.New("payload is not what was sent")

// Checker returns a checker for one client.
func (p *Payload) Checker() *Checker {
	return &Checker{p: p, differs: -1}
}

// Reset begins a payload.
func (c *Checker) Reset() { c.n, c.differs = 0, -1 }

// Write takes the next octets of the payload. It never fails.
func (c *Checker) Write(b []byte) (int, error) {
	all := len(b)
	if c.n < stampSize {
		k := copy(c.stamp[c.n:], b)
		c.n += int64(k)
		b = b[k:]
	}
	if len(b) == 0 {
		return all, nil
	}
	at := c.n
	c.n += int64(len(b))
	if size, offset, ok := c.sent(); ok && c.differs < 0 {
		if c.n > size {
			c.differs = size
		} else if end := offset + c.n; end <= int64(len(c.p.pool)) && !bytes.Equal(b, c.p.pool[offset+at:end]) {
			c.differs = at
		}
	}
	return all, nil
}

// sent reads the stamp: what the payload was when it was sent.
func (c *Checker) sent() (size, offset int64, ok bool) {
	size = int64(binary.BigEndian.Uint32(c.stamp[4:]))
	offset = int64(binary.BigEndian.Uint32(c.stamp[8:]))
	return size, offset, bytes.HasPrefix(c.stamp[:], stampMagic)
}

// End says whether the payload was complete and unchanged.
func (c *Checker) End() error {
	if c.n < stampSize {
		return nil // of another maker, or too short to tell
	}
	size, _, ok := c.sent()
	switch {
	case !ok:
		return nil
	case c.differs >= 0:
		return fmt.Errorf("%w: differs at octet %d or behind", ErrPayload, c.differs)
	case c.n != size:
		return fmt.Errorf("%w: %d of %d octets", ErrPayload, c.n, size)
	}
	return nil
}

// Copy checks one payload of n octets that stands next in r, or all of r if n
// is negative. An error that does not wrap [ErrPayload] is r's.
func (c *Checker) Copy(r io.Reader, n int64) error {
	if c.buf == nil {
		c.buf = make([]byte, 64<<10)
	}
	c.Reset()
	for n != 0 {
		b := c.buf
		if n > 0 && n < int64(len(b)) {
			b = b[:n]
		}
		k, err := r.Read(b)
		c.Write(b[:k])
		if n > 0 {
			n -= int64(k)
		}
		if err == io.EOF && n < 0 {
			break
		}
		if err == io.EOF && n > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && n != 0 {
			return err
		}
	}
	return c.End()
}
