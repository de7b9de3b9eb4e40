package durable

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

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
