package local

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"cutie/sitemap"
)

// ErrDiffers says that content is not the one described by its Source.
var ErrDiffers = errors.New("differs")

// kinds are the digests we can compute.
var kinds = map[string]func() hash.Hash{"sha-256": sha256.New, "sha-1": sha1.New, "md5": md5.New}

// Sums compare the octets written to them with the length and the digests that a Source
// gives (Z39.99-2017, 7: md5, sha-1 and sha-256). Digests of other types, and what is no
// digest of its type in hexadecimal digits, are passed over.
type Sums struct {
	length int64 // wanted; -1 for any
	want   []sitemap.Hash
	got    []hash.Hash
	n      int64
}

// NewSums returns Sums for content of a length, -1 if it is not known, with digests.
func NewSums(length int64, want []sitemap.Hash) *Sums {
	s := &Sums{length: length}
	for _, h := range want {
		kind := kinds[h.Alg]
		if kind == nil {
			continue
		}
		sum := kind()
		if value, err := hex.DecodeString(h.Value); err == nil && len(value) == sum.Size() {
			s.want, s.got = append(s.want, h), append(s.got, sum)
		}
	}
	return s
}

// Proves reports whether there is a digest to compare.
func (s *Sums) Proves() bool { return len(s.want) > 0 }

// Length returns the octets so far.
func (s *Sums) Length() int64 { return s.n }

// Write takes octets; more of them than the length are an error, [ErrDiffers].
func (s *Sums) Write(p []byte) (int, error) {
	if s.length >= 0 && s.n+int64(len(p)) > s.length {
		return 0, fmt.Errorf("%w: more than %d octets", ErrDiffers, s.length)
	}
	for _, h := range s.got {
		h.Write(p)
	}
	s.n += int64(len(p))
	return len(p), nil
}

// Check compares the octets written with the description. The error wraps [ErrDiffers].
func (s *Sums) Check() error {
	if s.length >= 0 && s.n != s.length {
		return fmt.Errorf("%w: %d octets instead of %d", ErrDiffers, s.n, s.length)
	}
	for i, h := range s.got {
		if got := hex.EncodeToString(h.Sum(nil)); got != s.want[i].Value {
			return fmt.Errorf("%w: %s is %s instead of %s", ErrDiffers, s.want[i].Alg, got, s.want[i].Value)
		}
	}
	return nil
}

// Compare reads content to its end, or beyond its length, and compares it.
func Compare(in io.Reader, length int64, want []sitemap.Hash) error {
	s := NewSums(length, want)
	if _, err := io.Copy(s, in); err != nil {
		return err
	}
	return s.Check()
}
