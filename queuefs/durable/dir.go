// Package durable changes directories honestly: each method says if its change is on
// stable storage when it returns, and what a crash leaves otherwise. A [Dir] changes
// files by name, a [Spool] is a large file on its way in, a [Sealed] is a small
// state file with a checksum.
package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A Fault stands between a step and the system. It gets the name of the step and
// decides if do runs and what error the caller sees. Tests fail each step in turn
// with it; nil runs every step as it is.
type Fault func(step string, do func() error) error

func (f Fault) run(step string, do func() error) error {
	if f == nil {
		return do()
	}
	return f(step, do)
}

// Step runs do as one step of a change, under the [Fault] of d.
func (d *Dir) Step(name string, do func() error) error { return d.fault.run(name, do) }

// A Dir is an open directory. Every name given to its methods is one path
// element; none follows a symbolic link, so nothing outside is reached. A Dir
// is safe for concurrent use.
type Dir struct {
	path  string       // with an entry: the name in its parent
	fd    atomic.Int64 // -1 once closed: numbers of descriptors are used again
	fault Fault
	void  bool   // not there, see LookIn
	open  bool   // to other users, as far as the umask allows
	entry *entry // in a [Cache]; nil: it is open until Close
}

func newDir(path string, fd int, fault Fault) *Dir {
	d := &Dir{path: path, fault: fault}
	d.fd.Store(int64(fd))
	return d
}

// at returns the descriptor, for one system call between hold and release.
func (d *Dir) at() int { return int(d.fd.Load()) }

// fileMode is the mode of new files.
func (d *Dir) fileMode() uint32 {
	if d.open {
		return 0o666
	}
	return 0o600
}

// dirMode is the mode of new directories.
func (d *Dir) dirMode() uint32 {
	if d.open {
		return 0o777
	}
	return 0o700
}

// OpenShared is OpenDir for files that other users may read: new ones get the mode of
// the umask.
func OpenShared(path string, fault Fault) (*Dir, error) {
	d, err := OpenDir(path, fault)
	if err == nil {
		d.open = true
	}
	return d, err
}

// OpenDir opens the directory at path. New files and directories in it, and below it,
// are for their owner alone.
func OpenDir(path string, fault Fault) (*Dir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return newDir(path, fd, fault), nil
}

// LookIn opens the directory at path for reading. Every change in it, and below it,
// is [unix.EROFS]; MakeSub returns a directory without entries for one that is not
// there.
func LookIn(path string) (*Dir, error) {
	return OpenDir(path, func(string, func() error) error { return unix.EROFS })
}

// Close lets go of the directory.
func (d *Dir) Close() error {
	switch {
	case d.void:
		return nil
	case d.entry != nil:
		return d.entry.close()
	}
	fd := d.fd.Swap(-1)
	if fd < 0 {
		return d.pathError("close", ".", fs.ErrClosed)
	}
	return unix.Close(int(fd))
}

// Path returns the path d was opened by.
func (d *Dir) Path() string {
	if d.entry == nil {
		return d.path
	}
	return d.entry.parent.Path() + "/" + d.path
}

// Sub opens the directory name in d.
func (d *Dir) Sub(name string) (*Dir, error) {
	if err := d.enter(name); err != nil {
		return nil, err
	}
	defer d.release()
	fd, err := openat(d.at(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, d.pathError("open", name, err)
	}
	sub := newDir(d.Path()+"/"+name, fd, d.fault)
	sub.open = d.open
	return sub, nil
}

// MakeSub makes the directory name in d unless it is there, and opens it. The
// entry is on stable storage when MakeSub returns.
func (d *Dir) MakeSub(name string) (*Dir, error) {
	if err := d.enter(name); err != nil {
		return nil, err
	}
	defer d.release()
	err := d.fault.run("mkdir "+name, func() error { return unix.Mkdirat(d.at(), name, d.dirMode()) })
	if errors.Is(err, unix.EROFS) {
		sub, err := d.Sub(name)
		if errors.Is(err, fs.ErrNotExist) {
			sub, err = newDir(d.path+"/"+name, -1, d.fault), nil
			sub.void = true
		}
		return sub, err
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, d.pathError("mkdir", name, err)
	}
	if err == nil {
		if err := d.Sync(); err != nil {
			return nil, err
		}
	}
	return d.Sub(name)
}

// Put makes the file name with data. It appears whole or not at all, and is
// not synced. If there is one already the error is [fs.ErrExist].
func (d *Dir) Put(name string, data []byte) error {
	if err := d.enter(name); err != nil {
		return err
	}
	defer d.release()
	return d.pathError("create", name, d.fault.run("put "+d.base(), func() error {
		fd, err := openat(d.at(), ".", unix.O_WRONLY|unix.O_TMPFILE, d.fileMode())
		if err != nil {
			return d.putByName(name, data)
		}
		defer unix.Close(fd)
		if err := writeAll(fd, data); err != nil {
			return err
		}
		err = unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), d.at(), name, unix.AT_SYMLINK_FOLLOW)
		if err == unix.ENOENT {
			return d.putByName(name, data) // no /proc here
		}
		return err
	}))
}

// Renew is Put in the place of a file of that name, if there is one.
func (d *Dir) Renew(name string, data []byte) error {
	err := d.Put(name, data)
	if errors.Is(err, fs.ErrExist) {
		if err := d.Remove(name); err != nil {
			return err
		}
		err = d.Put(name, data)
	}
	return err
}

// Temporary names never repeat: the journal may name a file of an earlier process,
// and process numbers are used again, in a container at every start.
var (
	tempRun   = rand.Text()
	tempCount atomic.Uint64
)

// TempPrefix begins the names of unfinished files. After a crash they are removed
// when the directory is opened.
const TempPrefix = "cutie-tmp-"

func tempName() string {
	return fmt.Sprintf("%s%s-%d", TempPrefix, tempRun, tempCount.Add(1))
}

// putByName is Put for file systems without unnamed files.
func (d *Dir) putByName(name string, data []byte) error {
	tmp := tempName()
	fd, err := openat(d.at(), tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, d.fileMode())
	if err != nil {
		return err
	}
	err = writeAll(fd, data)
	if e := unix.Close(fd); err == nil {
		err = e
	}
	if err == nil {
		err = unix.Linkat(d.at(), tmp, d.at(), name, 0)
	}
	unix.Unlinkat(d.at(), tmp, 0)
	return err
}

// Replace puts data in place of the file name, or makes it. When it returns
// the new contents are on stable storage. After an earlier crash the file holds the
// old contents or the new, whole.
func (d *Dir) Replace(name string, data []byte) error {
	tmp, err := d.stage(name, data, true)
	if err != nil {
		return err
	}
	if err := d.Rename(tmp, d, name); err != nil {
		d.Remove(tmp)
		return err
	}
	return d.Sync()
}

// Stage writes data to a temporary file for name and returns the temporary
// name; Rename puts it in place. It is not synced.
func (d *Dir) Stage(name string, data []byte) (string, error) {
	return d.stage(name, data, false)
}

func (d *Dir) stage(name string, data []byte, sync bool) (tmp string, err error) {
	if err := element(name); err != nil {
		return "", err
	}
	tmp = tempName()
	if err := d.hold(); err != nil {
		return "", err
	}
	defer d.release()
	err = d.fault.run("stage "+name, func() error {
		fd, err := openat(d.at(), tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, d.fileMode())
		if err != nil {
			return err
		}
		err = writeAll(fd, data)
		if err == nil && sync {
			err = unix.Fsync(fd)
		}
		if e := unix.Close(fd); err == nil {
			err = e
		}
		return err
	})
	if err != nil {
		unix.Unlinkat(d.at(), tmp, 0)
		return "", d.pathError("write", name, err)
	}
	return tmp, nil
}

// Temp makes a temporary file to write to; its name begins with [TempPrefix].
func (d *Dir) Temp() (*os.File, string, error) {
	if err := d.hold(); err != nil {
		return nil, "", err
	}
	defer d.release()
	tmp := tempName()
	var fd int
	err := d.fault.run("temp "+d.base(), func() (err error) {
		fd, err = openat(d.at(), tmp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, d.fileMode())
		return err
	})
	if err != nil {
		return nil, "", d.pathError("create", tmp, err)
	}
	return os.NewFile(uintptr(fd), d.Path()+"/"+tmp), tmp, nil
}

// Rename moves name to the name new in the directory to, over any file there.
func (d *Dir) Rename(name string, to *Dir, new string) error {
	if err := element(name); err != nil {
		return err
	}
	if err := element(new); err != nil {
		return err
	}
	if err := d.hold(); err != nil {
		return err
	}
	defer d.release()
	if err := to.hold(); err != nil {
		return err
	}
	defer to.release()
	return d.pathError("rename", name, d.fault.run("rename to "+to.base(), func() error {
		return unix.Renameat(d.at(), name, to.at(), new)
	}))
}

// Remove removes the file name. If there is none the error is
// [fs.ErrNotExist].
func (d *Dir) Remove(name string) error {
	if err := d.enter(name); err != nil {
		return err
	}
	defer d.release()
	return d.pathError("remove", name, d.fault.run("remove "+d.base(), func() error {
		return unix.Unlinkat(d.at(), name, 0)
	}))
}

// Open opens the regular file name for reading.
func (d *Dir) Open(name string) (*os.File, error) {
	if err := d.enter(name); err != nil {
		return nil, err
	}
	defer d.release()
	fd, err := openat(d.at(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, d.pathError("open", name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, d.pathError("open", name, errors.Join(err, errors.New("not a regular file")))
	}
	return os.NewFile(uintptr(fd), d.Path()+"/"+name), nil
}

// Append opens the file name for writing at its end, making it if need be.
func (d *Dir) Append(name string) (*os.File, error) {
	return d.openTo(name, unix.O_WRONLY|unix.O_APPEND)
}

// Update opens the file name for reading and writing at any place, making it if need be.
func (d *Dir) Update(name string) (*os.File, error) {
	return d.openTo(name, unix.O_RDWR)
}

// openTo opens the file name for writing, making it if need be.
func (d *Dir) openTo(name string, flags int) (*os.File, error) {
	if err := d.enter(name); err != nil {
		return nil, err
	}
	defer d.release()
	fd, err := openat(d.at(), name, flags|unix.O_CREAT|unix.O_NOFOLLOW, d.fileMode())
	if err != nil {
		return nil, d.pathError("open", name, err)
	}
	return os.NewFile(uintptr(fd), d.Path()+"/"+name), nil
}

// ErrTooLong: a file has more bytes than its reader takes.
var ErrTooLong = errors.New("too long")

// ReadFile appends the contents of the file name to dst. For a file above max
// bytes the error wraps [ErrTooLong].
func (d *Dir) ReadFile(name string, dst []byte, max int) ([]byte, error) {
	if err := d.enter(name); err != nil {
		return dst, err
	}
	defer d.release()
	fd, err := openat(d.at(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return dst, d.pathError("open", name, err)
	}
	defer unix.Close(fd)
	start := len(dst)
	for {
		if cap(dst)-len(dst) < 512 {
			dst = slices.Grow(dst, 1024+readahead(fd, len(dst)-start))
		}
		// A short read may be the last one before an error: only an empty one is the end.
		n, err := unix.Read(fd, dst[len(dst):cap(dst)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return dst[:start], d.pathError("read", name, err)
		case n == 0:
			return dst, nil
		default:
			dst = dst[:len(dst)+n]
			if len(dst)-start > max {
				return dst[:start], d.pathError("read", name, fmt.Errorf("%w: more than %d bytes", ErrTooLong, max))
			}
		}
	}
}

// readahead returns how much of a file is left to read after n bytes, as far as is known; of
// a small file as much again, which costs no call.
func readahead(fd, n int) int {
	var st unix.Stat_t
	if n < 32<<10 || unix.Fstat(fd, &st) != nil {
		return n
	}
	return int(max(0, min(st.Size-int64(n), 64<<20)))
}

// Names calls visit with the name of every entry, in no order, without
// holding them all in memory.
func (d *Dir) Names(visit func(name string)) error {
	if d.void {
		return nil
	}
	if err := d.hold(); err != nil {
		if errors.Is(err, errVoid) {
			return nil
		}
		return err
	}
	defer d.release()
	fd, err := openat(d.at(), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return d.pathError("open", ".", err)
	}
	f := os.NewFile(uintptr(fd), d.Path())
	defer f.Close()
	for {
		names, err := f.Readdirnames(4096)
		for _, n := range names {
			visit(n)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Stat tells size and kind of the entry name, not following links.
func (d *Dir) Stat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := element(name); err != nil {
		return st, err
	}
	if d.entry != nil && d.at() < 0 { // to open it would cost more
		from, path := d.entry.pathOf()
		return st, d.pathError("stat", name, unix.Fstatat(from.at(), path+"/"+name, &st, unix.AT_SYMLINK_NOFOLLOW))
	}
	if err := d.hold(); err != nil {
		return st, err
	}
	defer d.release()
	err := unix.Fstatat(d.at(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, d.pathError("stat", name, err)
}

// Date sets the date of modification of a file. It is not synced.
func (d *Dir) Date(name string, at time.Time) error {
	if err := d.enter(name); err != nil {
		return err
	}
	defer d.release()
	to := unix.NsecToTimespec(at.UnixNano())
	return d.pathError("date", name, d.fault.run("date of "+name, func() error {
		return unix.UtimesNanoAt(d.at(), name, []unix.Timespec{to, to}, unix.AT_SYMLINK_NOFOLLOW)
	}))
}

// Changed returns when the set of entries of the directory name in d last changed, in
// nanoseconds; 0 if it is not there.
func (d *Dir) Changed(name string) (int64, error) {
	st, err := d.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return st.Mtim.Nano(), err
}

// Sync puts the entries of d on stable storage.
func (d *Dir) Sync() error {
	if err := d.hold(); err != nil {
		return err
	}
	defer d.release()
	return d.pathError("sync", ".", d.fault.run("sync dir "+d.base(), func() error { return unix.Fsync(d.at()) }))
}

// SyncFS puts everything written to the file system of d on stable storage.
func (d *Dir) SyncFS() error {
	if err := d.hold(); err != nil {
		return err
	}
	defer d.release()
	return d.pathError("syncfs", ".", d.fault.run("syncfs", func() error { return unix.Syncfs(d.at()) }))
}

// SyncFile puts the contents of f, a file in d, on stable storage.
func (d *Dir) SyncFile(f *os.File) error {
	return d.fault.run("sync file", f.Sync)
}

func (d *Dir) base() string { return d.path[strings.LastIndexByte(d.path, '/')+1:] }

func (d *Dir) pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	switch {
	case d.void && errors.Is(err, unix.EBADF):
		err = unix.ENOENT
	case errors.Is(err, unix.EBADF) && d.at() < 0:
		err = fs.ErrClosed
	}
	return &fs.PathError{Op: op, Path: d.Path() + "/" + name, Err: err}
}

// element refuses any name but one path element.
func element(name string) error {
	if name == "" || name == "." || name == ".." || strings.IndexByte(name, '/') >= 0 || strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("%.60q is not a file name", name)
	}
	return nil
}

func openat(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func writeAll(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := unix.Write(fd, p)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Bare returns an error without the path in it: what others may see of an error of ours.
func Bare(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// AddSub is MakeSub without a sync: the entry is on stable storage after the next
// SyncFS.
func (d *Dir) AddSub(name string) (*Dir, error) {
	if err := d.enter(name); err != nil {
		return nil, err
	}
	defer d.release()
	err := d.fault.run("mkdir in "+d.base(), func() error { return unix.Mkdirat(d.at(), name, d.dirMode()) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, d.pathError("mkdir", name, err)
	}
	return d.Sub(name)
}

// LinkTemp gives the file name a second, temporary name in the directory to,
// on the same file system, and puts the contents on stable storage. The new
// name is, after a sync of the directory to.
func (d *Dir) LinkTemp(name string, to *Dir) (tmp string, err error) {
	if err := d.hold(); err != nil {
		return "", err
	}
	defer d.release()
	if err := to.hold(); err != nil {
		return "", err
	}
	defer to.release()
	f, err := d.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := d.SyncFile(f); err != nil {
		return "", err
	}
	tmp = tempName()
	err = d.fault.run("link "+to.base(), func() error { return unix.Linkat(d.at(), name, to.at(), tmp, 0) })
	if err != nil {
		return "", d.pathError("link", name, err)
	}
	return tmp, nil
}

// Link gives the file name of d a second name there. If the name is taken the error
// is [fs.ErrExist]. The new name is on stable storage after a sync of d.
func (d *Dir) Link(name, second string) error {
	if err := errors.Join(element(name), element(second)); err != nil {
		return err
	}
	if err := d.hold(); err != nil {
		return err
	}
	defer d.release()
	return d.pathError("link", second, unix.Linkat(d.at(), name, d.at(), second, 0))
}

// RemoveTree removes the entry name of d, and everything in it if it is a
// directory. Links are removed, not followed. It may be called again after an
// error. Without the entry it does nothing. Nothing is synced.
func (d *Dir) RemoveTree(name string) error {
	return d.RemoveTreeUntil(name, func() error { return nil })
}

// RemoveTreeUntil is [Dir.RemoveTree] until stop returns an error, and then returns that. It
// asks before each file.
func (d *Dir) RemoveTreeUntil(name string, stop func() error) error {
	if err := d.hold(); err != nil {
		return err
	}
	defer d.release()
	sub, err := d.Sub(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return d.Remove(name)
	case err != nil:
		return err
	}
	err = sub.empty(stop)
	sub.Close()
	if err != nil {
		return err
	}
	return d.pathError("remove", name, d.fault.run("rmdir "+d.base(), func() error {
		return unix.Unlinkat(d.at(), name, unix.AT_REMOVEDIR)
	}))
}

// empty removes everything in d, as long as stop returns nil.
func (d *Dir) empty(stop func() error) error {
	var names []string
	if err := d.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	for _, name := range names {
		err := stop()
		if err == nil {
			err = d.Remove(name)
		}
		if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
			err = d.RemoveTreeUntil(name, stop)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

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
