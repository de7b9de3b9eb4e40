package set

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
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

// A Growing is the file of an open list: the
// digest of all that was written to it, and the file as the last write left it. It is for
// one goroutine. The zero Growing is of a file without contents.
type Growing struct {
	hash hash.Hash         // of the contents; nil until some are written
	want [sha256.Size]byte // digest of the contents while hash is nil
	has  bool              // want is known
	left durable.Identity
}

// GrowingFrom returns the file of a list as the cursor has it; sum is a word of
// [Growing.Word].
func GrowingFrom(sum string) (g Growing) {
	g.want, g.has = parseSum(sum)
	return g
}

// Word returns the digest of the entries in hexadecimal, [Unknown] without one.
func (g *Growing) Word() string {
	if g.hash != nil {
		return hex.EncodeToString(g.hash.Sum(nil))
	}
	if g.has {
		return hex.EncodeToString(g.want[:])
	}
	return Unknown
}

// Sum returns the digest as a hash to go on with.
func (g *Growing) Sum() (hash.Hash, error) {
	if g.hash == nil {
		return sha256.New(), nil
	}
	return g.hash.(hash.Cloner).Clone()
}

// Check verifies the first length bytes of the file, unless the file is as it was left
// by the last Check or Write.
func (g *Growing) Check(f *os.File, length int64) error {
	if length == 0 || g.IsLeft(f) {
		return nil
	}
	return g.Reread(f, length)
}

// Reread verifies the first length bytes of the file.
func (g *Growing) Reread(f *os.File, length int64) error {
	now, err := durable.IdentityOf(f)
	if err != nil {
		return err
	}
	return g.sum(f, length, now)
}

func (g *Growing) sum(f *os.File, length int64, now durable.Identity) error {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, length))
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if n < length {
		return Damaged("%s has %d octets of %d", f.Name(), n, length)
	}
	if want := g.Word(); want != Unknown && want != hex.EncodeToString(h.Sum(nil)) {
		return Damaged("%s has not its SHA-256 digest", f.Name())
	}
	g.hash, g.left = h, now
	return nil
}

// Write appends entries to the file. After an error the list does not have them.
func (g *Growing) Write(f *os.File, p []byte) error {
	if _, err := f.Write(p); err != nil {
		return err
	}
	if g.hash == nil {
		g.hash = sha256.New()
	}
	g.hash.Write(p)
	g.Leave(f)
	return nil
}

// IsLeft reports whether the file is as the last Write or Check left it.
func (g *Growing) IsLeft(f *os.File) bool {
	now, err := durable.IdentityOf(f)
	return err == nil && now == g.left && g.hash != nil
}

// Leave says that the file is good as it is.
func (g *Growing) Leave(f *os.File) {
	now, err := durable.IdentityOf(f)
	if err != nil {
		now = durable.Identity{} // the next Check reads the file
	}
	g.left = now
}
