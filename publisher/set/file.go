package set

import (
	"crypto/sha256"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
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

// Reread compares a file with its length and digest, read from the disk. One that grows may
// be longer. It yields after each part; more is false if yield was.
func (p *Piece) Reread(file *os.File, grows bool, yield func(int64) bool) (more bool, err error) {
	st, err := file.Stat()
	if err != nil {
		return true, err
	}
	if st.Size() < p.Length || st.Size() > p.Length && !grows {
		return true, Damaged("%s has %d octets of %d", file.Name(), st.Size(), p.Length)
	}
	uncache(file)
	defer uncache(file)
	h := sha256.New()
	buf := make([]byte, max(1, min(p.Length, 256<<10)))
	for at := int64(0); at < p.Length; {
		n, err := file.ReadAt(buf[:min(int64(len(buf)), p.Length-at)], at)
		if err != nil && (err != io.EOF || n == 0) {
			return true, err
		}
		h.Write(buf[:n])
		at += int64(n)
		if !yield(int64(n)) {
			return false, nil
		}
	}
	if [sha256.Size]byte(h.Sum(nil)) != p.Sum {
		return true, Damaged("%s has not its SHA-256 digest", file.Name())
	}
	return true, nil
}

// uncache makes the next reading of a file come from the disk, as far as it can.
func uncache(file *os.File) {
	if c, err := file.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED) })
	}
}
