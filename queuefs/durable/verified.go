package durable

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"
)

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
