package local

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cutie/sitemap"
)

// Match is how a file compares with the entry of its resource.
type Match int

// Results of a comparison.
const (
	Missing   Match = iota // there is no file
	Different              // length or a digest differs
	Unsure                 // what the entry says, or a look at it, does not suffice
	Same
)

// A StorageError is an error of the storage of the copy, and not of the Source.
type StorageError struct{ Err error }

func (e *StorageError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the system.
func (e *StorageError) Unwrap() error { return e.Err }

// storage marks an error of the storage. [ErrDiffers] is one of the Source.
func storage(err error) error {
	if err == nil || errors.Is(err, ErrDiffers) {
		return err
	}
	return &StorageError{err}
}

// Compare compares a file with an entry: its length and time, and all digests if deep is set
// or the times differ. mod is the time of the file. Without an entry any file is Unsure. It
// changes nothing.
func (d *Dir) Compare(file string, want *sitemap.Entry, deep bool) (m Match, mod time.Time, err error) {
	err = d.in(file, false, func(dir *os.File, name string) error {
		name, size, at, err := stat(dir, name)
		if err != nil {
			return err
		}
		if mod, m = at, Unsure; want == nil {
			return nil
		}
		dated := want.Length >= 0 && !want.LastMod.IsZero() && sameTime(mod, want.LastMod)
		switch {
		case want.Length >= 0 && size != want.Length:
			m = Different
			return nil
		case dated && !deep:
			m = Same
			return nil
		}
		m = Same
		if sums := NewSums(want); sums.Proves() {
			if err = read(dir, name, sums); err == nil {
				err = sums.Check()
			}
		} else if !dated {
			m = Unsure
		}
		if errors.Is(err, ErrDiffers) {
			m, err = Different, nil
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Missing, time.Time{}, nil
	}
	return m, mod, err
}

// read writes the contents of a file to w.
func read(dir *os.File, name string, w io.Writer) error {
	fd, err := unix.Openat(handle(dir), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	in := os.NewFile(uintptr(fd), name)
	defer in.Close()
	_, err = Copy(w, in)
	return err
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// Copy is [io.Copy] with a buffer that is used again.
func Copy(w io.Writer, in io.Reader) (int64, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{in}, *buf)
}

// Date gives a file the time of its resource, so that a later run knows it.
func (d *Dir) Date(file string, mod, want time.Time) error {
	if want.IsZero() || sameTime(mod, want) {
		return nil
	}
	return storage(d.in(file, false, func(dir *os.File, name string) error {
		name, _, _, err := stat(dir, name)
		if err == nil {
			err = date(dir, name, want)
		}
		return err
	}))
}

// date gives a file of a directory its time, to the microsecond.
func date(dir *os.File, name string, mod time.Time) error {
	t := unix.NsecToTimespec(mod.UnixMicro() * 1000)
	return os.NewSyscallError("utimensat", unix.UtimesNanoAt(handle(dir), name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW))
}

// sameTime compares times of files and of Sources; these have whole seconds or
// microseconds.
func sameTime(file, source time.Time) bool {
	return file.Truncate(time.Microsecond).Equal(source) || source.Nanosecond() == 0 && file.Truncate(time.Second).Equal(source)
}

// A File is a copy on its way. It ends with Commit, Discard, or Keep. Errors of the storage
// are a [StorageError].
type File struct {
	dir  *Dir
	path string
	want *sitemap.Entry
	name string   // in Own, "" once it has its path, or is gone
	out  *os.File // nil: the copy has ended
	sums *Sums
}

// Receive begins a copy to the path of a resource. Write refuses more octets than want
// says; Commit, other content.
func (d *Dir) Receive(file string, want *sitemap.Entry) (*File, error) {
	f := &File{dir: d, path: file, want: want, name: d.tempName(), sums: NewSums(want)}
	var err error
	f.out, err = d.own.OpenFile(f.name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, storage(err)
	}
	return f, nil
}

// Part opens the part of a copy left by Keep, or begins one. A part belongs to the contents
// that want describes; one without a digest is never kept, for nothing would prove the
// result. path is empty for a package.
func (d *Dir) Part(path string, want *sitemap.Entry) (*File, error) {
	f := &File{dir: d, path: path, want: want, name: partName(want), sums: NewSums(want)}
	flags := os.O_CREATE | os.O_RDWR
	if !f.sums.Proves() {
		f.name, flags = d.tempName(), flags|os.O_TRUNC
	}
	var err error
	if f.out, err = d.own.OpenFile(f.name, flags, 0o666); err != nil {
		return nil, storage(err)
	}
	if _, err = io.Copy(f.sums, f.out); errors.Is(err, ErrDiffers) {
		err = f.Restart()
	}
	if err != nil {
		f.out.Close()
		return nil, storage(err)
	}
	return f, nil
}

// partName is one name for all runs, and another one for other contents.
func partName(want *sitemap.Entry) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%d\n", want.Loc, want.Length)
	for _, s := range want.Hashes {
		fmt.Fprintf(h, "%s %s\n", s.Alg, s.Value)
	}
	return Parts + hex.EncodeToString(h.Sum(nil)[:16])
}

// Write adds octets.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.sums.Write(p)
	if err == nil {
		n, err = f.out.Write(p)
	}
	return n, storage(err)
}

// Length returns the octets so far.
func (f *File) Length() int64 { return f.sums.Length() }

// Completes reports whether the octets so far may be completed: a digest proves the whole.
func (f *File) Completes() bool { return f.Length() > 0 && f.sums.Proves() }

// Restart empties a part.
func (f *File) Restart() error {
	err := f.out.Truncate(0)
	if err == nil {
		_, err = f.out.Seek(0, io.SeekStart)
	}
	f.sums = NewSums(f.want)
	return storage(err)
}

// Verify compares the octets with the entry, and returns the file of them. It is closed by
// Discard.
func (f *File) Verify() (*os.File, error) { return f.out, f.sums.Check() }

// Commit verifies the copy and gives it its path and its time; mod is the time if the
// entry has none. After an error nothing has changed. [ErrDiffers] says that the content
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
		if err := date(f.dir.at, f.name, mod); err != nil {
			return storage(err)
		}
	}
	err := f.out.Close()
	if f.out = nil; err == nil {
		err = f.dir.in(f.path, true, f.place)
	}
	return storage(err)
}

// place gives the copy its name in a directory.
func (f *File) place(to *os.File, name string) error {
	name, _, _, err := stat(to, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := unix.Renameat(handle(f.dir.at), f.name, handle(to), name); err != nil {
		return os.NewSyscallError("renameat", err)
	}
	f.name = ""
	return nil
}

// Keep ends a part, to be resumed later. After Commit or Discard it does nothing.
func (f *File) Keep() {
	if f.close(); f.Completes() {
		f.name = ""
	}
	f.Discard()
}

// Discard removes the copy. After Commit it does nothing.
func (f *File) Discard() {
	f.close()
	if f.name != "" {
		f.dir.own.Remove(f.name)
		f.name = ""
	}
}

func (f *File) close() {
	if f.out != nil {
		f.out.Close()
		f.out = nil
	}
}

// ErrDiffers says that content is not the one described by its Source.
var ErrDiffers = errors.New("differs")

// kinds are the digests we can compute.
var kinds = map[string]func() hash.Hash{"sha-256": sha256.New, "sha-1": sha1.New, "md5": md5.New}

// Sums compare the octets written to them with the length and the digests that a Source
// gives (Z39.99-2017, 7: md5, sha-1 and sha-256). Digests of other types, and what is no
// digest of its type in hexadecimal digits, are passed over.
type Sums struct {
	length int64 // wanted; -1 for any
	want   []sitemap.Hash
	got    []hash.Hash
	n      int64
}

// NewSums returns Sums for the content of a resource.
func NewSums(e *sitemap.Entry) *Sums {
	s := &Sums{length: e.Length}
	for _, h := range e.Hashes {
		kind := kinds[h.Alg]
		if kind == nil {
			continue
		}
		sum := kind()
		if value, err := hex.DecodeString(h.Value); err == nil && len(value) == sum.Size() {
			s.want, s.got = append(s.want, h), append(s.got, sum)
		}
	}
	return s
}

// Proves reports whether there is a digest to compare.
func (s *Sums) Proves() bool { return len(s.want) > 0 }

// Length returns the octets so far.
func (s *Sums) Length() int64 { return s.n }

// Write takes octets; more of them than the length are an error, [ErrDiffers].
func (s *Sums) Write(p []byte) (int, error) {
	if s.length >= 0 && s.n+int64(len(p)) > s.length {
		return 0, fmt.Errorf("%w: more than %d octets", ErrDiffers, s.length)
	}
	for _, h := range s.got {
		h.Write(p)
	}
	s.n += int64(len(p))
	return len(p), nil
}

// Check compares the octets written with the description. The error wraps [ErrDiffers].
func (s *Sums) Check() error {
	if s.length >= 0 && s.n != s.length {
		return fmt.Errorf("%w: %d octets instead of %d", ErrDiffers, s.n, s.length)
	}
	for i, h := range s.got {
		if got := hex.EncodeToString(h.Sum(nil)); got != s.want[i].Value {
			return fmt.Errorf("%w: %s is %s instead of %s", ErrDiffers, s.want[i].Alg, got, s.want[i].Value)
		}
	}
	return nil
}

// Compare reads content to its end, or beyond its length, and compares it with its entry.
func Compare(in io.Reader, e *sitemap.Entry) error {
	s := NewSums(e)
	if _, err := io.Copy(s, in); err != nil {
		return err
	}
	return s.Check()
}
