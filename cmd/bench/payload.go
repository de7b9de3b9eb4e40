package main

import (
	"bytes"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
)

// payloads makes the payloads of a run and recognises them again. A payload is
// a stamp of its own and a stretch of one block of random bytes: it costs nothing
// and does not compress.
type payloads struct {
	size int
	pool []byte // the same bytes in every run
	run  [8]byte
}

// poolSlack is how many different offsets into the pool are used.
const poolSlack = 1 << 16

// A stamp is the magic, the size, the offset into the pool of the first byte, if
// the stamp did not replace it, the client, a counter, the run: 4, 4, 4, 4, 8 and
// 8 bytes. A shorter payload is the end of the counter.
const stampSize = 32

var stampMagic = []byte("\xc5cut")

// newPayloads prepares payloads of size bytes.
func newPayloads(size int) *payloads {
	p := &payloads{size: size, pool: make([]byte, size+poolSlack)}
	rand.NewChaCha8([32]byte([]byte("cutie load: the pool of payloads"))).Read(p.pool)
	crand.Read(p.run[:])
	return p
}

// source makes and checks payloads for one client.
type source struct {
	*payloads
	client  uint32
	counter uint64
	buf     []byte
}

func (p *payloads) source(client int) *source {
	return &source{payloads: p, client: uint32(client)}
}

// next returns the next payload: its stamp, in memory of its own, and the rest.
func (s *source) next() (stamp, rest []byte) {
	s.counter++
	offset := int(s.counter*40503+uint64(s.client)*977) % poolSlack
	stamp = append(make([]byte, 0, stampSize), stampMagic...)
	stamp = binary.BigEndian.AppendUint32(stamp, uint32(s.size))
	stamp = binary.BigEndian.AppendUint32(stamp, uint32(offset))
	stamp = binary.BigEndian.AppendUint32(stamp, s.client)
	stamp = binary.BigEndian.AppendUint64(stamp, s.counter)
	stamp = append(stamp, s.run[:]...)
	if s.size < stampSize {
		return stamp[max(24-s.size, 0):][:s.size], nil
	}
	return stamp, s.pool[offset+stampSize : offset+s.size]
}

// errPayload is wrapped by every complaint about the bytes of a payload.
var errPayload = errors.New("payload is not what was sent")

// check reads one payload to the end of r and compares it with the one sent.
// Payloads without a stamp of ours are taken as they are. An error without
// errPayload is r's.
func (s *source) check(r io.Reader) error {
	if s.buf == nil {
		s.buf = make([]byte, 64<<10)
	}
	n, err := io.ReadFull(r, s.buf[:stampSize])
	if err == io.EOF || err == io.ErrUnexpectedEOF && n < stampSize {
		return ended(r) // too short to tell
	}
	if err != nil {
		return err
	}
	sent := bytes.HasPrefix(s.buf, stampMagic)
	size := int(binary.BigEndian.Uint32(s.buf[4:]))
	offset := int(binary.BigEndian.Uint32(s.buf[8:]))
	differs := -1
	for err == nil {
		at := n
		var k int
		k, err = r.Read(s.buf)
		n += k
		if end := offset + n; differs < 0 && end <= len(s.pool) && !bytes.Equal(s.buf[:k], s.pool[offset+at:end]) {
			differs = at
		}
	}
	switch {
	case err != io.EOF:
		return err
	case sent && n != size:
		return fmt.Errorf("%w: %d of %d bytes", errPayload, n, size)
	case sent && differs >= 0:
		return fmt.Errorf("%w: differs at byte %d or later", errPayload, differs)
	}
	return nil
}

// ended tells the end of r from an early one.
func ended(r io.Reader) error {
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		return err
	}
	return nil
}
