package store

import (
	"crypto/sha256"
	"io"
	"os"

	"cutie/queuefs/durable"

	"golang.org/x/sys/unix"
)

// A File has a temporary name until it is complete and on stable storage.
type File struct {
	*os.File
	root *durable.Dir
	name string // "" once it is in place
}

// Temp begins a file.
func (s *Store) Temp() (*File, error) {
	root := s.Root()
	f, name, err := root.Temp()
	if err != nil {
		return nil, err
	}
	return &File{File: f, root: root, name: name}, nil
}

// Commit gives the file its name in a directory, over an older one.
func (f *File) Commit(to *durable.Dir, name string) error {
	if err := f.root.SyncFile(f.File); err != nil {
		return err
	}
	if err := f.root.Rename(f.name, to, name); err != nil {
		return err
	}
	f.name = ""
	return to.Sync()
}

// Identity returns the identity of the file in its place.
func (f *File) Identity() (durable.Identity, error) { return durable.IdentityOf(f.File) }

// Discard closes the file, and removes it unless it is in place. If that fails,
// opening the home removes it.
func (f *File) Discard() {
	f.Close()
	if f.name != "" {
		f.root.Remove(f.name)
	}
}

// Cut cuts a file to a length. A shorter one is damaged.
func Cut(file *os.File, length int64) error {
	st, err := file.Stat()
	switch {
	case err != nil:
		return err
	case st.Size() < length:
		return Damaged("%s has %d octets of %d", file.Name(), st.Size(), length)
	case st.Size() > length:
		return file.Truncate(length)
	}
	return nil
}

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

// SlowCheck compares a file with its length and digest, read from the disk, see [SlowSum].
func SlowCheck(file *os.File, p Piece, yield func(int64) bool) (more bool, err error) {
	if err := HasLength(file, p.Length); err != nil {
		return true, err
	}
	got, more, err := SlowSum(file, p.Length, yield)
	if err == nil && more && got != p.Sum {
		err = Damaged("%s has not its SHA-256 digest", p.Name)
	}
	return more, err
}

// uncache makes the next reading of a file come from the disk, as far as it can.
func uncache(file *os.File) {
	if c, err := file.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED) })
	}
}
