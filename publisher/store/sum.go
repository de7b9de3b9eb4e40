package store

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"cutie/publisher/compose"
	"cutie/publisher/names"
	"cutie/queuefs/durable"
)

// HasLength returns an error unless the file has a length.
func HasLength(file *os.File, length int64) error {
	st, err := file.Stat()
	if err == nil && st.Size() != length {
		err = Damaged("%s has %d octets of %d", file.Name(), st.Size(), length)
	}
	return err
}

// SlowSum returns the digest of the first length bytes of a file, read from the disk. It
// yields after each part; more is false if yield was.
func SlowSum(file *os.File, length int64, yield func(int64) bool) (sum [sha256.Size]byte, more bool, err error) {
	uncache(file)
	defer uncache(file)
	h := sha256.New()
	buf := make([]byte, max(1, min(length, 256<<10)))
	for at := int64(0); at < length; {
		n, err := file.ReadAt(buf[:min(int64(len(buf)), length-at)], at)
		h.Write(buf[:n])
		if at += int64(n); at < length && err == io.EOF {
			return sum, true, Damaged("%s has %d octets of %d", file.Name(), at, length)
		}
		if err != nil && err != io.EOF {
			return sum, true, err
		}
		if !yield(int64(n)) {
			return sum, false, nil
		}
	}
	h.Sum(sum[:0])
	return sum, true, nil
}

// uncache makes the next reading of a file come from the disk, as far as it can.
func uncache(file *os.File) {
	if c, err := file.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED) })
	}
}

// GzipSum returns the digest of the text in the file of a list in gzip.
func GzipSum(d *durable.Dir, sp Span) (sum [sha256.Size]byte, err error) {
	file, err := d.Open(names.GzipFile(sp.First))
	if err != nil {
		return sum, err
	}
	defer file.Close()
	h := sha256.New()
	if err := compose.Expand(h, file, sp.Length); err != nil {
		return sum, Damaged("%s: %w", file.Name(), err)
	}
	h.Sum(sum[:0])
	return sum, nil
}

// PackedSum returns the digest of the text of a file in gzip, and verifies all of the
// file. It yields the bytes of each part of the text; more is false if yield was.
func PackedSum(p *compose.Packed, yield func(int64) bool) (sum [sha256.Size]byte, more bool, err error) {
	h := sha256.New()
	err = p.Each(func(text []byte) error {
		h.Write(text)
		if !yield(int64(len(text))) {
			return errStopped
		}
		return nil
	})
	if err == errStopped {
		return sum, false, nil
	}
	h.Sum(sum[:0])
	return sum, true, asDamage(err)
}

var errStopped = errors.New("stopped")

// asDamage returns an error about a damaged file in gzip as [Damage].
func asDamage(err error) error {
	var e *compose.PackedError
	if errors.As(err, &e) {
		return Damage{err}
	}
	return err
}

// SlowPackedSum is [SlowSum] of the text of a file in gzip.
func SlowPackedSum(file *os.File, length int64, yield func(int64) bool) (sum [sha256.Size]byte, more bool, err error) {
	uncache(file)
	defer uncache(file)
	p, err := openPacked(file, length)
	if err != nil {
		return sum, true, err
	}
	return PackedSum(p, yield)
}

// openPacked opens a file in gzip whose text has length bytes; the file stays the caller's.
func openPacked(file *os.File, length int64) (*compose.Packed, error) {
	p, err := compose.OpenPacked(file)
	if err != nil {
		return nil, asDamage(err)
	}
	if p.Len != length {
		return nil, Damaged("%s is not the gzip of a list of %d octets: its text has %d", file.Name(), length, p.Len)
	}
	return p, nil
}

// packedKey is what a file in gzip is verified by.
func packedKey(sum [sha256.Size]byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte("packed "), sum[:]...))
}

// TrustPacked remembers a file in gzip whose text has a digest, by [PackedSum].
func (s *Store) TrustPacked(file *os.File, sum [sha256.Size]byte) {
	s.Verified.Trust(file, packedKey(sum))
}

// Verify verifies a file of a set.
func (s *Store) Verify(file *os.File, p Piece) error {
	if p.Text > 0 {
		return s.Verified.Once(file, packedKey(p.Sum), func() error { return verifyPacked(file, p) })
	}
	return s.Verified.Check(file, p.Length, p.Sum)
}

func verifyPacked(file *os.File, p Piece) error {
	in, err := openPacked(file, p.Text)
	if err != nil {
		return err
	}
	got, _, err := PackedSum(in, func(int64) bool { return true })
	if err == nil && got != p.Sum {
		err = Damaged("%s has not the text of the list", file.Name())
	}
	return err
}
