package store

import (
	"crypto/sha256"
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
	return gzipSum(file, sp.Length)
}

func gzipSum(file *os.File, length int64) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	if err := compose.Expand(h, file, length); err != nil {
		return sum, Damaged("%s: %w", file.Name(), err)
	}
	h.Sum(sum[:0])
	return sum, nil
}

// VerifyGzip verifies the file of a closed list in gzip: its text has the digest of the
// list.
func (s *Store) VerifyGzip(file *os.File, sp Span) error {
	sum, known := sp.Sum()
	if !known {
		return nil
	}
	return s.Verified.Once(file, sha256.Sum256(append([]byte("gzip "), sum[:]...)), func() error {
		got, err := gzipSum(file, sp.Length)
		if err == nil && got != sum {
			err = Damaged("%s has not the text of the list", file.Name())
		}
		return err
	})
}

// Verify verifies a file of a set. Of a list closed by a former version the length alone
// is known until the background reader comes to it.
func (s *Store) Verify(file *os.File, p Piece) error {
	if p.Known {
		return s.Verified.Check(file, p.Length, p.Sum)
	}
	return HasLength(file, p.Length)
}
