// Package lanes computes the MD5 (RFC 1321) and the SHA-256 (FIPS 180-4) of
// several streams at once.
//
// One stream cannot be hashed faster than the processor goes from step to step
// of it, and that leaves most of the processor idle. So writers who are at work
// at the same time form a team: one of them hashes the octets of all, while the
// others wait. The MD5 of eight streams is computed in the lanes of the vector
// registers (AVX2), the SHA-256 of two by turns (SHA-NI). A stream that is
// alone, small pieces, and what the processor has no instructions for are left
// to the standard library.
package lanes

import (
	"crypto/md5"
	"crypto/sha256"
	"hash"
	"sync"
)

// least is from how many octets on a piece is worth waiting for others.
const least = 8 << 10

// blockSize is that of both digests, in octets.
const blockSize = 64

// Sums computes both digests of what is written to it. Its Write may wait for
// those of others, and they for it. It is for one goroutine, like a
// [hash.Hash].
type Sums struct {
	md5, sha hash.Hash // of all that was written, between calls
	odd      int       // octets in the block that is not full
	rest     []byte    // whole blocks of the piece that are still to be hashed
	state    [maxState]byte
	turn     sync.Mutex // locked until it is the stream's turn to go on
	leads    bool       // then: its piece is not done, it leads the team
}

// New returns Sums of nothing.
func New() *Sums { return &Sums{md5: md5.New(), sha: sha256.New()} }

// Reset begins anew.
func (s *Sums) Reset() {
	s.md5.Reset()
	s.sha.Reset()
	s.odd = 0
}

// Write adds p to the stream. It never fails.
func (s *Sums) Write(p []byte) (int, error) {
	n := len(p)
	if n >= least && vectors {
		if s.odd > 0 {
			k := blockSize - s.odd
			s.write(p[:k])
			p = p[k:]
		}
		k := len(p) / blockSize * blockSize
		if !shaNI {
			s.sha.Write(p[:k])
		}
		s.rest, p = p[:k], p[k:]
		join(s)
		s.rest = nil
	}
	s.write(p)
	return n, nil
}

// write hashes p alone.
func (s *Sums) write(p []byte) {
	s.md5.Write(p)
	s.sha.Write(p)
	s.odd = (s.odd + len(p)) % blockSize
}

// MD5 appends the MD5 of what was written to dst, 16 octets.
func (s *Sums) MD5(dst []byte) []byte { return s.md5.Sum(dst) }

// SHA256 appends the SHA-256 of what was written to dst, 32 octets.
func (s *Sums) SHA256(dst []byte) []byte { return s.sha.Sum(dst) }
