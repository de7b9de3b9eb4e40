package durable

import "golang.org/x/sys/unix"

// uncounted is the number of free files on a file system without a count of them.
const uncounted = 1 << 50

// Free returns how many bytes, and how many files, the file system of d has room
// for.
func (d *Dir) Free() (bytes, files int64, err error) {
	if err := d.hold(); err != nil {
		return 0, 0, err
	}
	defer d.release()
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

// freeIn leaves out the space kept for the administrator, also for one: some file
// systems count space there they give to nobody.
func freeIn(st *unix.Statfs_t) int64 { return int64(st.Bavail) * int64(st.Bsize) }
