package load

import (
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// Payload makes the payloads of a run and recognises them again. A payload is a
// stretch of one block of random octets, so that making it costs nothing and
// no compressor gains by it, behind a stamp that makes it differ from all
// others, of this run or another. It is safe for concurrent use.
type Payload struct {
	size int
	pool []byte // the same octets in every run, as far as they reach
	run  [8]byte
}

// MaxSize is the largest payload that NewPayload makes, in octets.
const MaxSize = 1 << 30

// poolSlack is how many different offsets into the pool are used.
const poolSlack = 1 << 16

// A stamp is the magic, the size, the offset into the pool of the octet that
// the payload would begin with if it had no stamp, the client, a counter, the
// run: 4, 4, 4, 4, 8 and 8 octets. A payload shorter than that is a part of
// the stamp that has the counter in it, as far as there is room.
const stampSize = 32

var stampMagic = []byte("\xc5cut")

// NewPayload prepares payloads of size octets, 0 to [MaxSize].
func NewPayload(size int) (*Payload, error) {
	if size < 0 || size > MaxSize {
		return nil, fmt.Errorf("size %d: not in 0 to %d octets", size, MaxSize)
	}
	p := &Payload{size: size, pool: make([]byte, size+poolSlack)}
	rand.NewChaCha8([32]byte([]byte("cutie load: the pool of payloads"))).Read(p.pool)
	crand.Read(p.run[:])
	return p, nil
}

// Size returns the octets of one payload.
func (p *Payload) Size() int { return p.size }

// Source makes payloads for one client, which has a number of its own. It is
// not safe for concurrent use.
type Source struct {
	p       *Payload
	client  uint32
	counter uint64
}

// Source returns the source for the given client.
func (p *Payload) Source(client int) *Source {
	return &Source{p: p, client: uint32(client)}
}

// next returns the stamp of the next payload and what follows it.
func (s *Source) next() (stamp [stampSize]byte, rest []byte) {
	s.counter++
	offset := int(s.counter*40503+uint64(s.client)*977) % poolSlack
	copy(stamp[:], stampMagic)
	binary.BigEndian.PutUint32(stamp[4:], uint32(s.p.size))
	binary.BigEndian.PutUint32(stamp[8:], uint32(offset))
	binary.BigEndian.PutUint32(stamp[12:], s.client)
	binary.BigEndian.PutUint64(stamp[16:], s.counter)
	copy(stamp[24:], s.p.run[:])
	if s.p.size <= stampSize {
		return stamp, nil
	}
	return stamp, s.p.pool[offset+stampSize : offset+s.p.size]
}
