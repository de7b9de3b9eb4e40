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
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"cutie/sitemap"
)

// ErrDiffers says that content is not the one that its Source describes.
var ErrDiffers = errors.New("differs")

// Facts are what a Source says of a resource.
type Facts struct {
	Length  int64          // octets; -1 if not given
	LastMod time.Time      // zero if not given
	Hashes  []sitemap.Hash // of types not known here, too
}

// known returns the digests of types that we can compute.
func (w *Facts) known() []sitemap.Hash {
	var known []sitemap.Hash
	for _, h := range w.Hashes {
		if newHash(h.Alg) != nil {
			known = append(known, h)
		}
	}
	return known
}

func newHash(alg string) hash.Hash {
	switch alg {
	case "sha-256":
		return sha256.New()
	case "sha-1":
		return sha1.New()
	case "md5":
		return md5.New()
	}
	return nil
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
// or the times differ. mod is the time of the file.
func (d *Dir) Compare(file string, want *Facts, deep bool) (m Match, mod time.Time, err error) {
	err = d.in(file, false, func(f *folder, name string) error {
		name, info, err := f.stat(name)
		if err != nil {
			return err
		}
		mod = info.ModTime()
		if want.Length >= 0 && info.Size() != want.Length {
			m = Different
			return nil
		}
		if !deep && want.Length >= 0 && !want.LastMod.IsZero() && sameTime(mod, want.LastMod) {
			m = Same
			return nil
		}
		hashes := want.known()
		if len(hashes) == 0 {
			if m = Unsure; want.Length >= 0 && !want.LastMod.IsZero() && sameTime(mod, want.LastMod) {
				m = Same
			}
			return nil
		}
		in, err := f.root.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		sums := newSums(hashes)
		if _, err := io.CopyBuffer(sums, struct{ io.Reader }{in}, make([]byte, 64<<10)); err != nil {
			return err
		}
		if m = Same; sums.check() != nil {
			m = Different
		} else if !want.LastMod.IsZero() && !sameTime(mod, want.LastMod) {
			return f.root.Chtimes(name, time.Time{}, want.LastMod)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Missing, time.Time{}, nil
	}
	return m, mod, err
}

// sameTime compares times of files and of Sources; these have whole seconds or
// microseconds.
func sameTime(file, source time.Time) bool {
	return file.Truncate(time.Microsecond).Equal(source) || source.Nanosecond() == 0 && file.Truncate(time.Second).Equal(source)
}

// sums computes digests.
type sums struct {
	want []sitemap.Hash
	got  []hash.Hash
}

func newSums(want []sitemap.Hash) *sums {
	s := &sums{want: want}
	for _, h := range want {
		s.got = append(s.got, newHash(h.Alg))
	}
	return s
}

func (s *sums) Write(p []byte) (int, error) {
	for _, h := range s.got {
		h.Write(p)
	}
	return len(p), nil
}

func (s *sums) check() error {
	for i, h := range s.got {
		if got := hex.EncodeToString(h.Sum(nil)); got != s.want[i].Value {
			return fmt.Errorf("%w: %s is %s instead of %s", ErrDiffers, s.want[i].Alg, got, s.want[i].Value)
		}
	}
	return nil
}

// A File is a copy on its way. It ends with Commit or Discard.
type File struct {
	dir  *Dir
	path string
	want Facts
	name string // in Own
	out  *os.File
	sums *sums
	n    int64
}

// Receive begins a copy to the path of a resource. Write refuses more octets than want
// says; Commit, other content.
func (d *Dir) Receive(file string, want Facts) (*File, error) {
	d.mu.Lock()
	d.temp++
	name := "new-" + strconv.FormatUint(d.temp, 10)
	d.mu.Unlock()
	out, err := d.own.root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	return &File{dir: d, path: file, want: want, name: name, out: out, sums: newSums(want.known())}, nil
}

// Write adds octets.
func (f *File) Write(p []byte) (int, error) {
	if f.want.Length >= 0 && f.n+int64(len(p)) > f.want.Length {
		return 0, fmt.Errorf("%w: more than %d octets", ErrDiffers, f.want.Length)
	}
	f.sums.Write(p)
	n, err := f.out.Write(p)
	f.n += int64(n)
	return n, err
}

// Length returns the octets so far.
func (f *File) Length() int64 { return f.n }

// Commit verifies the copy and gives it its path and its time; mod is the time if the
// facts have none. After an error nothing has changed. [ErrDiffers] says that the content
// is not the one described.
func (f *File) Commit(mod time.Time) error {
	defer f.Discard()
	if f.want.Length >= 0 && f.n != f.want.Length {
		return fmt.Errorf("%w: %d octets instead of %d", ErrDiffers, f.n, f.want.Length)
	}
	if err := f.sums.check(); err != nil {
		return err
	}
	if !f.want.LastMod.IsZero() {
		mod = f.want.LastMod
	}
	if !mod.IsZero() {
		t := unix.NsecToTimeval(mod.UnixNano())
		if err := unix.Futimes(int(f.out.Fd()), []unix.Timeval{t, t}); err != nil {
			return os.NewSyscallError("futimes", err)
		}
	}
	if err := f.out.Close(); err != nil {
		return err
	}
	return f.dir.in(f.path, true, func(to *folder, name string) error {
		name, _, err := to.stat(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// Both are single names of ours: no path is walked.
		if err := unix.Renameat(int(f.dir.own.file.Fd()), f.name, int(to.file.Fd()), name); err != nil {
			return os.NewSyscallError("renameat", err)
		}
		f.name = ""
		return nil
	})
}

// Discard removes the copy. After Commit it does nothing.
func (f *File) Discard() {
	if f.name != "" {
		f.out.Close()
		f.dir.own.root.Remove(f.name)
		f.name = ""
	}
}
