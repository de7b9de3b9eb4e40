package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
)

// A payload is a stamp and a stretch of one block of random bytes: it costs nothing to
// make, does not compress, and can be recognised. The stamp has the offset of the stretch
// in the block and a counter, so that payloads differ.
const (
	stampSize = 16
	offsets   = 1 << 16
)

// payloads makes and checks the payloads of one server, and remembers which jobs came.
type payloads struct {
	size  int
	block []byte

	mu   sync.Mutex
	n    uint64
	came []uint64 // a bit for each job number
}

func newPayloads(size int) *payloads {
	p := &payloads{size: size, block: make([]byte, size+offsets)}
	rand.NewChaCha8([32]byte([]byte("cutie bench: the random payloads"))).Read(p.block)
	return p
}

// next returns the two parts of the next payload.
func (p *payloads) next() (stamp, rest []byte) {
	p.mu.Lock()
	p.n++
	n := p.n
	p.mu.Unlock()
	offset := n * 40503 % offsets
	stamp = binary.BigEndian.AppendUint64(make([]byte, 0, stampSize), offset)
	stamp = binary.BigEndian.AppendUint64(stamp, n)
	if p.size < stampSize {
		return stamp[stampSize-p.size:], nil
	}
	return stamp, p.block[offset+stampSize:][:p.size-stampSize]
}

var errPayload = errors.New("payload is not what was submitted")

// check reads a payload into buf, which is made larger if need be, and compares it.
func (p *payloads) check(r io.Reader, buf *[]byte) error {
	if len(*buf) <= p.size {
		*buf = make([]byte, p.size+1)
	}
	n, err := io.ReadFull(r, *buf)
	if err == nil {
		return fmt.Errorf("%w: more than %d bytes", errPayload, p.size)
	}
	if err != io.ErrUnexpectedEOF && err != io.EOF {
		return err
	}
	if n != p.size {
		return fmt.Errorf("%w: %d of %d bytes", errPayload, n, p.size)
	}
	if n < stampSize {
		return nil
	}
	got := (*buf)[:n]
	offset := binary.BigEndian.Uint64(got)
	if offset >= offsets || !bytes.Equal(got[stampSize:], p.block[offset+stampSize:][:n-stampSize]) {
		return errPayload
	}
	return nil
}

// once reports a job that came without a name, or for the second time.
func (p *payloads) once(location string) error {
	digits := location[max(0, len(location)-12):]
	n, err := strconv.ParseUint(digits, 10, 40)
	if err != nil {
		return fmt.Errorf("job came with the name %.80q", location)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for uint64(len(p.came)) <= n/64 {
		p.came = append(p.came, make([]uint64, 1+len(p.came))...)
	}
	bit := uint64(1) << (n % 64)
	if p.came[n/64]&bit != 0 {
		return fmt.Errorf("job %s came twice", location)
	}
	p.came[n/64] |= bit
	return nil
}
