package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"
)

// A Sealed is a small state file, replaced whole. Its last line is a seal: the
// SHA-256 of Kind and contents. A file does not verify if it was damaged, cut,
// or swapped with a file of another kind.
type Sealed struct {
	Dir  *Dir
	Name string // in Dir
	Kind string // the owner of the contents, for example "index of queue jobs"
	Max  int    // bytes of contents, at most
}

// ErrDamaged: a state file is there and does not verify.
var ErrDamaged = errors.New("does not verify")

const (
	sealName = "seal: "
	sealSize = len(sealName) + 2*sha256.Size + 1 // bytes of the last line
)

// sealLine returns the last line of a file.
func sealLine(kind string, contents []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s\n", len(kind), kind)
	h.Write(contents)
	return sealName + hex.EncodeToString(h.Sum(nil)) + "\n"
}

// Read returns the contents. The error wraps [fs.ErrNotExist] if there is no
// file, and [ErrDamaged] if the file does not verify; any other error says
// nothing about the file and may pass.
func (s Sealed) Read() ([]byte, error) {
	file, err := s.Dir.ReadFile(s.Name, nil, s.Max+sealSize)
	if errors.Is(err, ErrTooLong) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	file = bytes.TrimRight(file, "\x00") // a crash can leave zeros after a Rewrite
	contents := file[:max(0, len(file)-sealSize)]
	tail := file[len(contents):]
	if string(tail) != sealLine(s.Kind, contents) {
		return nil, s.Dir.pathError("read", s.Name, ErrDamaged)
	}
	return contents, nil
}

// Write replaces the contents. They are on stable storage when Write returns;
// after a crash before that the file holds the old contents or the new.
func (s Sealed) Write(contents []byte) error {
	file, err := s.File(contents)
	if err != nil {
		return err
	}
	return s.Dir.Replace(s.Name, file)
}

// Stage writes the contents to a temporary file and returns its name, as
// [Dir.Stage] does.
func (s Sealed) Stage(contents []byte) (string, error) {
	file, err := s.File(contents)
	if err != nil {
		return "", err
	}
	return s.Dir.Stage(s.Name, file)
}

// Rewrite replaces the contents in place, for a disk without free space. A
// crash before it returns can damage the file.
func (s Sealed) Rewrite(contents []byte) error {
	file, err := s.File(contents)
	if err == nil {
		err = s.Dir.Rewrite(s.Name, file)
	}
	if err != nil {
		return err
	}
	return s.Dir.SyncFS()
}

// File returns the file with the contents.
func (s Sealed) File(contents []byte) ([]byte, error) {
	if len(contents) > s.Max {
		return nil, s.Dir.pathError("write", s.Name, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLong, len(contents), s.Max))
	}
	file := make([]byte, 0, len(contents)+sealSize)
	return append(append(file, contents...), sealLine(s.Kind, contents)...), nil
}

// SetAside moves the file to the directory [Corrupt] in Dir and returns the
// new path, relative to Dir. If there is no file the error wraps
// [fs.ErrNotExist].
func (s Sealed) SetAside() (string, error) { return s.Dir.SetAside(s.Dir, s.Name, s.Name) }

// Corrupt is the name of the directory for unreadable files.
const Corrupt = "corrupt"

// maxAside is how many bytes of a name are kept in [Corrupt]; a number fits
// after them.
const maxAside = 240

// SetAside moves the entry name of from to the directory [Corrupt] in d, under
// the name as or as and a number, and returns the new path, relative to d.
// After a crash the entry has one of the two paths.
func (d *Dir) SetAside(from *Dir, name, as string) (string, error) {
	if _, err := from.Stat(name); err != nil {
		return "", err
	}
	aside, err := d.MakeSub(Corrupt)
	if err != nil {
		return "", err
	}
	defer aside.Close()
	as = as[:min(len(as), maxAside)]
	to := as
	for n := 1; ; n++ {
		_, err := aside.Stat(to)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		to = as + "." + strconv.Itoa(n)
	}
	return Corrupt + "/" + to, from.Rename(name, aside, to)
}

// Sweep removes the files a crash left unfinished: all whose names begin with
// [TempPrefix], unless keep is not nil and returns true.
func (d *Dir) Sweep(keep func(name string) bool) error {
	var stale []string
	err := d.Names(func(name string) {
		if strings.HasPrefix(name, TempPrefix) && (keep == nil || !keep(name)) {
			stale = append(stale, name)
		}
	})
	for _, name := range stale {
		if e := d.Remove(name); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// A Verified remembers files with a verified digest. It reads a file again only
// after a change of its inode, length or times. Damage of the disk alone changes none
// of them; a background reader finds it by [Sum]. The zero value is ready, and safe
// for concurrent use.
type Verified struct {
	mu    sync.Mutex
	known map[Identity][sha256.Size]byte

	reading singleflight.Group
}

// An Identity differs for every file, and for every state of a file changed through
// the file system.
type Identity struct {
	dev, ino            uint64
	size, mtime, change int64
}

// IdentityOf returns the identity of an open file.
func IdentityOf(f *os.File) (Identity, error) {
	var st unix.Stat_t
	c, err := f.SyscallConn()
	if err != nil {
		return Identity{}, err
	}
	if e := c.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }); e != nil {
		return Identity{}, e
	}
	if err != nil {
		return Identity{}, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return Identity{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}, nil
}

// maxVerified bounds the files remembered, at 100 bytes each.
const maxVerified = 100_000

// Check returns nil if the file has length and digest, and an error with
// [ErrDamaged] if it does not. The offset of the file stays as it is. Any other error
// says nothing about the file.
func (v *Verified) Check(f *os.File, length int64, sum [sha256.Size]byte) error {
	return v.Once(f, sum, func() error {
		if st, err := f.Stat(); err != nil {
			return err
		} else if st.Size() != length {
			return fmt.Errorf("%s has %d octets of %d: %w", f.Name(), st.Size(), length, ErrDamaged)
		}
		got, err := Sum(f, length)
		if err == nil && got != sum {
			err = fmt.Errorf("%s has not its SHA-256 digest: %w", f.Name(), ErrDamaged)
		}
		return err
	})
}

// Once calls verify unless it has returned nil for this state of the file and this
// key. Callers at the same time share one call.
func (v *Verified) Once(f *os.File, key [sha256.Size]byte, verify func() error) error {
	now, err := IdentityOf(f)
	if err != nil || v.has(now, key) {
		return err
	}
	_, err, _ = v.reading.Do(fmt.Sprint(now, key), func() (any, error) {
		if v.has(now, key) {
			return nil, nil
		}
		err := verify()
		if err == nil {
			v.add(now, key)
		}
		return nil, err
	})
	return err
}

// Trust remembers a file just written, whose digest was computed on the way.
func (v *Verified) Trust(f *os.File, sum [sha256.Size]byte) {
	if now, err := IdentityOf(f); err == nil {
		v.add(now, sum)
	}
}

func (v *Verified) has(id Identity, sum [sha256.Size]byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.known[id]
	return ok && known == sum
}

func (v *Verified) add(id Identity, sum [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil || len(v.known) >= maxVerified {
		v.known = make(map[Identity][sha256.Size]byte)
	}
	v.known[id] = sum
}

// Sum returns the SHA-256 of the first length bytes of a file. A shorter file is an
// error with [ErrDamaged].
func Sum(f *os.File, length int64) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, length))
	if err == nil && n < length {
		err = ErrDamaged
	}
	if err != nil {
		return sum, fmt.Errorf("%s: octet %d of %d: %w", f.Name(), n, length, err)
	}
	h.Sum(sum[:0])
	return sum, nil
}

// Lost reports whether an error is about a file that is gone or damaged. Other errors
// may pass.
func Lost(err error) bool {
	for _, e := range []error{ErrDamaged, os.ErrNotExist, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENXIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
