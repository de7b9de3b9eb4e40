package durable

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Rewrite gives the existing file name new contents in place, unsynced. A
// reader of the directory may see it half done, or with zeros after its end.
func (d *Dir) Rewrite(name string, data []byte) error {
	if err := d.enter(name); err != nil {
		return err
	}
	defer d.release()
	return d.pathError("write", name, d.fault.run("rewrite "+d.base(), func() error {
		fd, err := openat(d.at(), name, unix.O_WRONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		err = rewrite(fd, data)
		if e := unix.Close(fd); err == nil {
			err = e
		}
		return err
	}))
}

// block is the unit a file system reads to change a part of it, in bytes, or a
// multiple.
const block = 4096

var (
	zeros  [block]byte
	blocks = sync.Pool{New: func() any { return new([]byte) }}
)

// rewrite writes data to a file and ends it there. After a long wait the file of a
// job is not in the page cache: a write of less than a block would first read the
// block from the disk, at ten times the cost of the rest. A whole block is not read;
// to cut it to size costs a fourth of the rest, also if there is nothing to cut.
// Hence the checks.
func rewrite(fd int, data []byte) error {
	var was unix.Stat_t
	if err := unix.Fstat(fd, &was); err != nil {
		return err
	}
	size := was.Size
	whole := (len(data) + block - 1) / block * block
	if size > 0 && whole > len(data) && !cached(fd, whole) {
		buf := blocks.Get().(*[]byte)
		defer blocks.Put(buf)
		*buf = append(append((*buf)[:0], data...), zeros[:whole-len(data)]...)
		if err := writeAll(fd, *buf); err != nil {
			return err
		}
		size = max(size, int64(whole))
	} else if err := writeAll(fd, data); err != nil {
		return err
	}
	if size <= int64(len(data)) {
		return nil
	}
	return unix.Ftruncate(fd, int64(len(data)))
}

// cached reports whether the last block of the first n bytes of a file is in the
// page cache. If the system cannot tell, it is not.
func cached(fd, n int) bool {
	var stat unix.Cachestat_t
	err := unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(n - block), Len: block}, &stat, 0)
	return err == nil && stat.Cache > 0
}
