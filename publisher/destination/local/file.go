package local

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cutie/sitemap"
)

// Facts are what a Source says of a resource.
type Facts struct {
	Length  int64          // octets; -1 if not given
	LastMod time.Time      // zero if not given
	Hashes  []sitemap.Hash // of types not known here, too
}

// Match is how a file compares with the facts of its resource.
type Match int

// Results of a comparison.
const (
	Missing   Match = iota // there is no file
	Different              // length or a digest differs
	Unsure                 // the facts, or a look at them, do not suffice
	Same
)

// Compare compares a file with facts: its length and time, and all digests if deep is set
// or the times differ. mod is the time of the file. It changes nothing.
func (d *Dir) Compare(file string, want *Facts, deep bool) (m Match, mod time.Time, err error) {
	err = d.in(file, false, func(f *folder, name string) error {
		name, size, at, err := f.stat(name)
		if err != nil {
			return err
		}
		mod = at
		if want.Length >= 0 && size != want.Length {
			m = Different
			return nil
		}
		if !deep && want.Length >= 0 && !want.LastMod.IsZero() && sameTime(mod, want.LastMod) {
			m = Same
			return nil
		}
		sums := NewSums(want.Length, want.Hashes)
		if !sums.Proves() {
			if m = Unsure; want.Length >= 0 && !want.LastMod.IsZero() && sameTime(mod, want.LastMod) {
				m = Same
			}
			return nil
		}
		if err = f.read(name, size, sums); err == nil {
			err = sums.Check()
		}
		if m = Same; errors.Is(err, ErrDiffers) {
			m, err = Different, nil
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Missing, time.Time{}, nil
	}
	return m, mod, err
}

// read writes the contents of a file, which had so many octets just now, to w. An os.File
// would take as many system calls again.
func (f *folder) read(name string, size int64, w io.Writer) error {
	fd, err := unix.Openat(f.at(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for got := int64(0); ; {
		n, err := unix.Read(fd, *buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if _, err := w.Write((*buf)[:n]); err != nil {
			return err
		}
		if got += int64(n); n == 0 || got == size && n < len(*buf) {
			return nil
		}
	}
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// Date gives a file the time of its resource, so that a later run knows it.
func (d *Dir) Date(file string, mod, want time.Time) error {
	if want.IsZero() || sameTime(mod, want) {
		return nil
	}
	return d.in(file, false, func(f *folder, name string) error {
		name, _, _, err := f.stat(name)
		if err != nil {
			return err
		}
		return f.root.Chtimes(name, time.Time{}, want)
	})
}

// sameTime compares times of files and of Sources; these have whole seconds or
// microseconds.
func sameTime(file, source time.Time) bool {
	return file.Truncate(time.Microsecond).Equal(source) || source.Nanosecond() == 0 && file.Truncate(time.Second).Equal(source)
}

// A File is a copy on its way. It ends with Commit, Discard, or Keep.
type File struct {
	dir  *Dir
	path string
	want Facts
	name string   // in Own, "" without one
	out  *os.File // of a file with a name; nil: none, or the copy has ended
	fd   int      // of a file without a name, an os.File would take more calls; -1: none
	sums *Sums
	tag  string // of a part: validator of its octets
}

// Receive begins a copy to the path of a resource. Write refuses more octets than want
// says; Commit, other content.
func (d *Dir) Receive(file string, want Facts) (*File, error) {
	f := &File{dir: d, path: file, want: want, sums: NewSums(want.Length, want.Hashes), fd: -1}
	if d.unnamed {
		fd, err := unix.Openat(d.own.at(), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
		if err == nil {
			f.fd = fd
			return f, nil
		}
		if err != unix.EOPNOTSUPP && err != unix.EISDIR {
			return nil, os.NewSyscallError("openat", err)
		}
	}
	var err error
	f.name = d.tempName()
	f.out, err = d.own.root.OpenFile(f.name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Write adds octets.
func (f *File) Write(p []byte) (int, error) {
	if _, err := f.sums.Write(p); err != nil {
		return 0, err
	}
	if f.fd < 0 {
		return f.out.Write(p)
	}
	return writeAll(f.fd, p)
}

func writeAll(fd int, p []byte) (done int, err error) {
	for done < len(p) {
		n, err := unix.Write(fd, p[done:])
		if err != nil && err != unix.EINTR {
			return done, os.NewSyscallError("write", err)
		}
		done += max(n, 0)
	}
	return done, nil
}

// Length returns the octets so far.
func (f *File) Length() int64 { return f.sums.Length() }

// Commit verifies the copy and gives it its path and its time; mod is the time if the
// facts have none. After an error nothing has changed. [ErrDiffers] says that the content
// is not the one described.
func (f *File) Commit(mod time.Time) error {
	defer f.Discard()
	if err := f.sums.Check(); err != nil {
		return err
	}
	if !f.want.LastMod.IsZero() {
		mod = f.want.LastMod
	}
	if !mod.IsZero() {
		if err := f.date(mod); err != nil {
			return os.NewSyscallError("utimensat", err)
		}
	}
	if out := f.out; out != nil {
		f.out = nil
		if err := out.Close(); err != nil {
			return err
		}
	}
	return f.dir.in(f.path, true, func(to *folder, name string) error {
		if f.name == "" {
			err := f.link(to, name)
			if !errors.Is(err, fs.ErrExist) {
				return err
			}
			temp := f.dir.tempName()
			if err := f.link(f.dir.own, temp); err != nil {
				return err
			}
			f.name = temp
		}
		name, _, _, err := to.stat(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := unix.Renameat(f.dir.own.at(), f.name, to.at(), name); err != nil {
			return os.NewSyscallError("renameat", err)
		}
		if f.tag != "" {
			f.dir.own.root.Remove(f.name + ".tag") // SweepParts would do it, too
		}
		f.name = ""
		return nil
	})
}

// handle is the descriptor of the open file.
func (f *File) handle() int {
	if f.fd >= 0 {
		return f.fd
	}
	return int(f.out.Fd())
}

// date gives the file its time, to the microsecond.
func (f *File) date(mod time.Time) error {
	t := unix.NsecToTimespec(mod.UnixMicro() * 1000)
	err := unix.UtimesNanoAt(f.handle(), "", []unix.Timespec{t, t}, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT { // an old kernel
		v := unix.NsecToTimeval(t.Nano())
		err = unix.Futimes(f.handle(), []unix.Timeval{v, v})
	}
	return err
}

// link gives an unnamed file a name that is free.
func (f *File) link(to *folder, name string) error {
	if !f.dir.byPath.Load() {
		err := unix.Linkat(f.fd, "", to.at(), name, unix.AT_EMPTY_PATH)
		if err != unix.ENOENT && err != unix.EINVAL && err != unix.EPERM {
			return os.NewSyscallError("linkat", err)
		}
		f.dir.byPath.Store(true) // an old kernel wants more rights for it
	}
	unnamed := "/proc/self/fd/" + strconv.Itoa(f.fd)
	return os.NewSyscallError("linkat", unix.Linkat(unix.AT_FDCWD, unnamed, to.at(), name, unix.AT_SYMLINK_FOLLOW))
}

// Discard removes the copy. After Commit it does nothing.
func (f *File) Discard() {
	f.close()
	if f.name != "" {
		f.dir.own.root.Remove(f.name)
		if f.tag != "" {
			f.dir.own.root.Remove(f.name + ".tag")
		}
		f.name = ""
	}
}

func (f *File) close() {
	if f.out != nil {
		f.out.Close()
		f.out = nil
	}
	if f.fd >= 0 {
		unix.Close(f.fd)
		f.fd = -1
	}
}
