package segment

import (
	"os"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
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

// zeroBuffer is how many bytes zeroFill writes at a time.
const zeroBuffer = 2 << 20

// zeroFill gives f, a file in d, size bytes of zeros on the disk, around the page
// cache if the file system allows it: nobody will read them. It does not begin
// without the free space: a partial file would take it from others.
func zeroFill(d *durable.Dir, name string, f *os.File, size int64) error {
	if free, _, err := d.Free(); err == nil && free < size {
		return unix.ENOSPC
	}
	zero := make([]byte, min(size, zeroBuffer))
	w := f
	if direct, err := os.OpenFile(d.Path()+"/"+name, os.O_WRONLY|unix.O_DIRECT, 0); err == nil {
		defer direct.Close()
		if _, err := direct.WriteAt(zero, 0); err == nil {
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

func (s *segment) openDirect(d *durable.Dir) {
	if f, err := os.OpenFile(d.Path()+"/"+s.name, os.O_WRONLY|unix.O_DIRECT, 0); err == nil {
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
