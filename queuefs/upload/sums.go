package upload

import (
	"crypto/sha256"
	"hash"
	"io"
	"slices"
	"sync"

	"cutie/queuefs/digest"
)

// sums are the digests of a payload, computed on the way. The SHA-256 and the buffer
// are reused for other uploads.
type sums struct {
	sha  hash.Hash
	more []sum // beside SHA-256
	buf  []byte
}

type sum struct {
	digest.Type
	hash.Hash
}

var sumsPool = sync.Pool{New: func() any { return &sums{sha: sha256.New()} }}

func newSums() *sums {
	s := sumsPool.Get().(*sums)
	s.sha.Reset()
	return s
}

func (s *sums) free() {
	s.more = nil
	sumsPool.Put(s)
}

func (s *sums) add(kinds []digest.Type) {
	for _, t := range kinds {
		s.more = append(s.more, sum{t, t.New()})
	}
}

func (s *sums) write(p []byte) {
	s.sha.Write(p)
	for _, x := range s.more {
		x.Write(p)
	}
}

// SHA256 returns the digest of the payload so far.
func (u *Upload) SHA256() (sum [sha256.Size]byte) {
	u.sums.sha.Sum(sum[:0])
	return sum
}

// Digests returns the digests of the payload: the SHA-256, then those of kinds. The
// error is [digest.ErrMismatch] if one of expect, all of them of these kinds, is
// another.
func (u *Upload) Digests(kinds []digest.Type, expect []digest.Value) ([]digest.Value, error) {
	sha := u.SHA256()
	all := append(make([]digest.Value, 0, 1+len(kinds)), digest.NewValue(digest.SHA256, sha[:]))
	for _, t := range kinds {
		v, err := u.digest(t)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	for _, want := range expect {
		i := slices.IndexFunc(all, func(v digest.Value) bool { return v.Type == want.Type })
		if err := want.Check(all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// digest returns a digest computed on the way, or else computes it now.
func (u *Upload) digest(t digest.Type) (digest.Value, error) {
	for _, x := range u.sums.more {
		if x.Type == t {
			return digest.NewValue(t, x.Sum(nil)), nil
		}
	}
	h := t.New()
	r, err := u.Reader()
	if err == nil {
		_, err = io.Copy(h, r)
	}
	return digest.NewValue(t, h.Sum(nil)), err
}
