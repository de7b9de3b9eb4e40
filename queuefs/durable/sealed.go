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

// A Spool is a temporary file, written once, front to back, and not read soon. It
// goes around the page cache if the file system allows it: a MiB then costs a tenth
// of the processor time.
type Spool struct {
	dir    *Dir
	name   string
	f      *os.File
	buf    []byte // aligned; not yet in the file
	at     int64  // bytes in the file
	direct bool

	// Reserve, unless nil, is asked for so many bytes of the disk before they are
	// written. After an error they are not.
	Reserve func(bytes int64) error
}

// SpoolMemory is the bytes of memory of a Spool that is written to.
const SpoolMemory = spoolBuffer

// Spool makes a temporary file in d; its name begins with [TempPrefix].
func (d *Dir) Spool() (*Spool, error) {
	f, name, err := d.Temp()
	if err != nil {
		return nil, err
	}
	s := &Spool{dir: d, name: name, f: f}
	s.direct = s.setDirect(true) == nil
	return s, nil
}

func (s *Spool) setDirect(on bool) error {
	flags := unix.O_RDWR
	if on {
		flags |= unix.O_DIRECT
	}
	_, err := unix.FcntlInt(s.f.Fd(), unix.F_SETFL, flags)
	return err
}

// CopyOnce writes the rest of f to w for the last reader in a while. A large file
// goes around the page cache if the file system allows it.
func CopyOnce(w io.Writer, f *os.File) (int64, error) {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil || at%block != 0 {
		return io.Copy(w, f)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_RDONLY|unix.O_DIRECT); err != nil {
		return io.Copy(w, f)
	}
	done, err := copyDirect(w, f, at)
	if _, e := unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_RDONLY); e != nil {
		return done, errors.Join(err, e)
	}
	if _, e := f.Seek(at+done, io.SeekStart); e != nil {
		return done, errors.Join(err, e)
	}
	if err == errNotDirect {
		return io.Copy(w, f)
	}
	return done, err
}

var errNotDirect = errors.New("file cannot be read around the page cache")

func copyDirect(w io.Writer, f *os.File, at int64) (done int64, err error) {
	buf := spoolBuffers.get()
	put := spoolBuffers.put
	defer func() { put(buf) }()
	for {
		n, err := f.ReadAt(buf, at+done)
		if n > 0 {
			m, err := w.Write(buf[:n])
			done += int64(m)
			if err != nil {
				put = spoolBuffers.putLate // after HTTP/2 gave up a write, it may go on
				return done, err
			}
		}
		switch {
		case err == io.EOF:
			return done, nil
		case err != nil && done == 0:
			return 0, errNotDirect
		case err != nil:
			return done, err
		}
	}
}

// Name returns the name of the file in its directory.
func (s *Spool) Name() string { return s.name }

// Named says that the file has another name now.
func (s *Spool) Named(name string) { s.name = name }

// Write adds to the file.
func (s *Spool) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if s.buf == nil {
			s.buf = spoolBuffers.get()[:0]
		}
		k := copy(s.buf[len(s.buf):spoolBuffer], p)
		s.buf, p = s.buf[:len(s.buf)+k], p[k:]
		if len(s.buf) == spoolBuffer {
			if err := s.flush(); err != nil {
				return n - len(p), err
			}
		}
	}
	return n, nil
}

// Room returns where the next bytes of the file may be read to, at least one;
// Filled says how many were.
func (s *Spool) Room() ([]byte, error) {
	switch {
	case s.buf == nil:
		s.buf = spoolBuffers.get()[:0]
	case len(s.buf) == spoolBuffer:
		if err := s.flush(); err != nil {
			return nil, err
		}
	}
	return s.buf[len(s.buf):spoolBuffer], nil
}

// Filled adds the first n bytes of the last Room to the file.
func (s *Spool) Filled(n int) { s.buf = s.buf[:len(s.buf)+n] }

// flush writes the buffer. An end of less than a block goes through the page cache.
func (s *Spool) flush() error {
	if s.f == nil {
		return errors.New("spool is parked")
	}
	if s.Reserve != nil {
		if err := s.Reserve(int64(len(s.buf))); err != nil {
			return err
		}
	}
	return s.dir.fault.run("spool write", func() error {
		if s.direct && len(s.buf)%block != 0 {
			if err := s.setDirect(false); err != nil {
				return err
			}
			s.direct = false
		}
		n, err := s.f.WriteAt(s.buf, s.at)
		if err != nil && s.direct && n == 0 {
			if e := s.setDirect(false); e != nil {
				return err
			}
			s.direct = false
			n, err = s.f.WriteAt(s.buf, s.at)
		}
		if err != nil {
			return err
		}
		s.at += int64(n)
		s.buf = s.buf[:0]
		return nil
	})
}

// Park gives back the buffer and the descriptor until File or Sync is called.
// A parked Spool is not written to.
func (s *Spool) Park() error {
	if s.f == nil {
		return nil
	}
	if _, err := s.File(); err != nil {
		return err
	}
	err := s.Close()
	s.f = nil
	return err
}

// File returns the file with all bytes written, for reading.
func (s *Spool) File() (*os.File, error) {
	if s.f == nil {
		var err error
		if s.f, err = s.dir.Open(s.name); err != nil {
			return nil, err
		}
	}
	if len(s.buf) > 0 {
		if err := s.flush(); err != nil {
			return nil, err
		}
	}
	if s.direct {
		if err := s.setDirect(false); err != nil {
			return nil, err
		}
		s.direct = false
	}
	return s.f, nil
}

// Sync puts the contents on stable storage. The name is, once the directory
// is synced.
func (s *Spool) Sync() error {
	f, err := s.File()
	if err != nil {
		return err
	}
	return s.dir.SyncFile(f)
}

// Close closes the file; it stays where it is.
func (s *Spool) Close() error {
	if s.buf != nil {
		spoolBuffers.put(s.buf)
		s.buf = nil
	}
	if s.f == nil {
		return nil
	}
	return s.f.Close()
}

// A Together lets callers at the same time share a costly step, such as a sync. The
// zero value is ready.
type Together[T any] struct {
	turn sync.Mutex // one step at a time

	mu   sync.Mutex
	next *batch[T] // gathers during a step
}

type batch[T any] struct {
	all  []T
	done chan struct{}
	err  error
}

// Do calls step with x and what others bring until the last step ends, and returns its
// error to all of them.
func (t *Together[T]) Do(x T, step func(all []T) error) error {
	t.mu.Lock()
	b := t.next
	if b != nil {
		b.all = append(b.all, x)
		t.mu.Unlock()
		<-b.done
		return b.err
	}
	b = &batch[T]{all: []T{x}, done: make(chan struct{})}
	t.next = b
	t.mu.Unlock()
	t.turn.Lock()
	defer t.turn.Unlock()
	t.mu.Lock()
	t.next = nil
	t.mu.Unlock()
	defer close(b.done)
	b.err = step(b.all)
	return b.err
}
