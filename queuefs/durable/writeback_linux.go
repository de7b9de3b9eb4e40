package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// Uncache has the system forget the bytes from an offset up to another one, whole pages
// only, if they are on the disk: the next reading is one of the disk, unless somebody else
// reads the file as well. It promises nothing.
func Uncache(f *os.File, from, to int64) {
	const page = 4096
	from, to = from/page*page, (to+page-1)/page*page
	_ = unix.Fadvise(int(f.Fd()), from, to-from, unix.FADV_DONTNEED)
}

// WriteBack has the system begin to write the bytes from an offset up to another one to
// the disk, whole pages only. It promises nothing: data is safe after a sync alone, and an
// error of the disk is told by that.
func WriteBack(f *os.File, from, to int64) {
	const page = 4096
	from, to = from/page*page, to/page*page
	if to > from {
		_ = unix.SyncFileRange(int(f.Fd()), from, to-from, unix.SYNC_FILE_RANGE_WRITE)
	}
}
