// Package md5lanes computes the MD5 (RFC 1321) of several streams at once.
//
// One stream cannot be hashed faster than the processor goes from step to step
// of it, and that leaves most of the processor idle. So writers who are at work
// at the same time form a team: one of them hashes the octets of all, a stream
// in each lane of the vector registers, while the others wait. A stream that is
// alone, small pieces, and processors without AVX2 are left to crypto/md5.
package md5lanes

import (
	"crypto/md5"
	"encoding"
	"encoding/binary"
	"hash"
	"sync"
)

const (
	// least is from how many octets on a piece is worth waiting for others.
	least = 8 << 10

	// What crypto/md5 writes of its state: the name of the format, four words,
	// the block that is not full yet, the octets so far.
	wordsAt  = 4
	lengthAt = wordsAt + md5.Size + md5.BlockSize
	stateLen = lengthAt + 8
)

// New returns a hash that computes the digests that the one of [md5.New] does.
// Its Write may wait for those of other hashes, and they for it.
func New() hash.Hash {
	if !vectors {
		return md5.New()
	}
	return &stream{Hash: md5.New()}
}

// A stream is a hash whose large pieces are computed in a team.
type stream struct {
	hash.Hash        // all that was written, between calls
	odd       int    // octets in the block that is not full
	rest      []byte // whole blocks of the piece that are still to be hashed
	state     [stateLen]byte
	turn      sync.Mutex // locked until it is the stream's turn to go on
	leads     bool       // then: its piece is not done, it leads the team
}

func (s *stream) Reset() {
	s.Hash.Reset()
	s.odd = 0
}

func (s *stream) Write(p []byte) (int, error) {
	n := len(p)
	if n >= least {
		if s.odd > 0 {
			k := md5.BlockSize - s.odd
			s.Hash.Write(p[:k])
			p = p[k:]
		}
		k := len(p) / md5.BlockSize * md5.BlockSize
		s.rest, p = p[:k], p[k:]
		join(s)
		s.rest = nil
		s.odd = 0
	}
	s.Hash.Write(p)
	s.odd = (s.odd + len(p)) % md5.BlockSize
	return n, nil
}

// load returns the four words of the state, which is at the end of a block.
func (s *stream) load() (words [4]uint32) {
	if _, err := s.Hash.(encoding.BinaryAppender).AppendBinary(s.state[:0]); err != nil {
		panic(err) // crypto/md5 knows no error
	}
	for i := range words {
		words[i] = binary.BigEndian.Uint32(s.state[wordsAt+4*i:])
	}
	return words
}

// store puts back what load returned, after n more octets.
func (s *stream) store(words [4]uint32, n int) {
	for i, w := range words {
		binary.BigEndian.PutUint32(s.state[wordsAt+4*i:], w)
	}
	length := s.state[lengthAt:]
	binary.BigEndian.PutUint64(length, binary.BigEndian.Uint64(length)+uint64(n))
	if err := s.Hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(s.state[:]); err != nil {
		panic(err)
	}
}
