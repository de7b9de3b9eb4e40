package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync puts the contents of f on stable storage, without the times.
func fdatasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return err
		}
	}
}

// zeroFill gives the file at path, open as f, size octets of zeros on disk. It
// goes around the page cache where the file system allows that: nobody will
// read them.
func zeroFill(path string, f *os.File, size int64) error {
	// What cannot be filled is not begun: others would be refused the rest of the
	// disk meanwhile.
	if free, err := freeOn(int(f.Fd())); err == nil && free < size {
		return unix.ENOSPC
	}
	zero, mapped, err := mapHuge(hugePage)
	if err != nil {
		return err
	}
	defer unix.Munmap(mapped)
	w := f
	if direct, err := os.OpenFile(path, os.O_WRONLY|unix.O_DIRECT, 0); err == nil {
		defer direct.Close()
		if _, err := direct.WriteAt(zero[:min(size, int64(len(zero)))], 0); err == nil {
			w = direct
		}
	}
	for at := int64(0); at < size; at += int64(len(zero)) {
		if _, err := w.WriteAt(zero[:min(int64(len(zero)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// uncounted is how many files there may be where the file system does not count
// them.
const uncounted = 1 << 50

// Free returns how many octets, and how many files, the file system of d has room
// for.
func (d *Dir) Free() (octets, files int64, err error) {
	var st unix.Statfs_t
	for {
		err := unix.Fstatfs(d.at(), &st)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return 0, 0, d.pathError("statfs", ".", err)
		}
	}
	files = uncounted
	if st.Files > 0 {
		files = int64(min(st.Ffree, uncounted))
	}
	return freeIn(&st), files, nil
}

// freeOn returns how many octets are free on the file system of an open file.
func freeOn(fd int) (int64, error) {
	var st unix.Statfs_t
	err := unix.Fstatfs(fd, &st)
	return freeIn(&st), err
}

// freeIn leaves out what is kept for the administrator, even if that is who asks:
// some file systems count there what they give to nobody.
func freeIn(st *unix.Statfs_t) int64 { return int64(st.Bavail) * int64(st.Bsize) }

func (s *segment) openDirect(d *Dir) {
	if f, err := os.OpenFile(d.path+"/"+s.name, os.O_WRONLY|unix.O_DIRECT, 0); err == nil {
		s.direct = f
	}
}

// writeAt writes whole blocks.
func (s *segment) writeAt(p []byte, at int64) error {
	if s.direct != nil && len(p) >= directBatch {
		if n, err := s.direct.WriteAt(p, at); err == nil {
			return nil
		} else if n > 0 {
			return err
		}
	}
	_, err := s.f.WriteAt(p, at)
	return err
}
