package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy says that another process copies to the directory.
var ErrBusy = errors.New("another process works on this directory")

// A Dir is the directory of a Destination. One process at a time has it. Its methods are
// safe for concurrent use, for different resources.
type Dir struct {
	*Names
	root *os.Root
	own  *folder
	lock *os.File

	alone   bool // lock is held
	unnamed bool // a file may be made without a name, if its file system can

	byPath atomic.Bool // such a file gets its name by its path in /proc

	mu      sync.Mutex
	folders map[string]*folder // open directories, by their path
	temp    uint64             // number of the last unfinished file
}

// A folder is an open directory.
type folder struct {
	root  *os.Root
	file  *os.File // of the same directory
	users int
}

func newFolder(root *os.Root) (*folder, error) {
	file, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &folder{root: root, file: file}, nil
}

func (f *folder) close() error { return errors.Join(f.file.Close(), f.root.Close()) }

// maxFolders is how many directories stay open.
const maxFolders = 256

// Open opens the directory for resources below a base URI, and makes it if create is
// set. If another process has it the error is [ErrBusy].
func Open(dir, base string, create bool) (*Dir, error) {
	if create {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
	}
	d, err := Look(dir, base, create)
	if err == nil && !d.Alone() {
		err = fmt.Errorf("%s: %w", dir, errors.Join(ErrBusy, d.Close()))
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Look is Open for reading, also while another process has the directory.
func Look(dir, base string, create bool) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	d := &Dir{root: root, folders: map[string]*folder{}}
	if err := d.begin(base, create); err != nil {
		d.Close()
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return d, nil
}

// Alone reports whether no other process has the directory.
func (d *Dir) Alone() bool { return d.alone }

func (d *Dir) begin(base string, create bool) (err error) {
	if create {
		if err := d.root.Mkdir(Own, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	own, err := d.root.OpenRoot(Own)
	if err != nil {
		return err
	}
	if d.own, err = newFolder(own); err != nil {
		return err
	}
	if d.lock, err = own.OpenFile("lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	switch err := unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		d.alone = true
	case unix.EWOULDBLOCK:
		d.alone = false
	default:
		return fmt.Errorf("lock: %w", err)
	}
	_, err = os.Stat("/proc/self/fd") // gives such files their names
	d.unnamed = err == nil
	_, e := own.Lstat("LOCK")
	d.Names, err = NewNames(base, e == nil)
	return err
}

// Close lets go of the directory. Unfinished files stay for the next process.
func (d *Dir) Close() error {
	var errs []error
	d.mu.Lock()
	for _, f := range d.folders {
		errs = append(errs, f.close())
	}
	d.folders = nil
	d.mu.Unlock()
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	if d.own != nil {
		errs = append(errs, d.own.close())
	}
	return errors.Join(append(errs, d.root.Close())...)
}

// Sync puts all files on stable storage.
func (d *Dir) Sync() error { return unix.Syncfs(int(d.lock.Fd())) }

// ReadState reads the file NAME of the state into v. Without it the error is
// [fs.ErrNotExist].
func (d *Dir) ReadState(name string, v any) error {
	data, err := d.own.root.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s/%s: %w", Own, name, err)
	}
	return nil
}

// WriteState writes v to the file NAME of the state, whole or not at all. It is on stable
// storage after the call. Of two calls at a time the file has one.
func (d *Dir) WriteState(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	unfinished := d.tempName()
	f, err := d.own.root.OpenFile(unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := d.own.root.Rename(unfinished, name); err != nil {
		return err
	}
	return d.own.file.Sync()
}

// RemoveState removes a file of the state.
func (d *Dir) RemoveState(name string) error {
	if err := d.own.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// in gives do the open directory of a file, and the name of the file there. Without
// create a missing directory is [fs.ErrNotExist].
func (d *Dir) in(file string, create bool, do func(f *folder, name string) error) error {
	dir, name := path.Split(file)
	f, err := d.folder(strings.TrimSuffix(dir, "/"), create)
	if err != nil {
		return err
	}
	err = do(f, name)
	d.leave(f)
	return err
}

// folder returns the open directory of a path, with one more user.
func (d *Dir) folder(dir string, create bool) (*folder, error) {
	if f := d.use(dir, nil); f != nil {
		return f, nil
	}
	root, err := d.open(dir, create)
	if err != nil {
		return nil, err
	}
	f, err := newFolder(root)
	if err != nil {
		return nil, err
	}
	used := d.use(dir, f)
	if used != f { // somebody else was quicker
		err = f.close()
	}
	return used, err
}

// use counts one more user of an open directory. It takes opened if there is none.
func (d *Dir) use(dir string, opened *folder) *folder {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.folders[dir]
	if f == nil {
		if f = opened; f == nil {
			return nil
		}
		if len(d.folders) >= maxFolders {
			for k, old := range d.folders {
				if old.users == 0 {
					old.close()
					delete(d.folders, k)
				}
			}
		}
		d.folders[dir] = f
	}
	f.users++
	return f
}

// open opens a directory. A name taken by a file, now or before, is the other one.
func (d *Dir) open(dir string, create bool) (*os.Root, error) {
	at, err := d.root.OpenRoot(".")
	if err != nil || dir == "" {
		return at, err
	}
	for name := range strings.SplitSeq(dir, "/") {
		next, err := enter(at, name, create)
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// enter opens a directory in another one.
func enter(at *os.Root, name string, create bool) (*os.Root, error) {
	if info, err := at.Lstat(name + "^"); err == nil && info.IsDir() {
		name += "^"
	} else if info, err = at.Lstat(name); err == nil && info.Mode().IsRegular() {
		if !create {
			return nil, fs.ErrNotExist
		}
		name += "^"
	}
	next, err := at.OpenRoot(name)
	if !create || !errors.Is(err, fs.ErrNotExist) {
		return next, err
	}
	if err := at.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return at.OpenRoot(name)
}

func (d *Dir) leave(f *folder) {
	d.mu.Lock()
	f.users--
	d.mu.Unlock()
}

// at is the descriptor of the directory, for calls with a single name of ours: no path is
// walked. An [os.Root] takes several times as many calls.
func (f *folder) at() int { return int(f.file.Fd()) }

// stat returns the name of a file in its directory, its length and its time. A name taken
// by a directory is the other one.
func (f *folder) stat(name string) (string, int64, time.Time, error) {
	var s unix.Stat_t
	err := unix.Fstatat(f.at(), name, &s, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && s.Mode&unix.S_IFMT == unix.S_IFDIR {
		name += "^"
		err = unix.Fstatat(f.at(), name, &s, unix.AT_SYMLINK_NOFOLLOW)
	}
	switch {
	case err != nil:
		err = &fs.PathError{Op: "stat", Path: name, Err: err}
	case s.Mode&unix.S_IFMT != unix.S_IFREG:
		err = fmt.Errorf("%s is no regular file", name)
	}
	return name, s.Size, time.Unix(s.Mtim.Unix()), err
}

// Remove removes the file of a resource; its directory stays. Without a file it does
// nothing.
func (d *Dir) Remove(file string) error {
	err := d.in(file, false, func(f *folder, name string) error {
		name, _, _, err := f.stat(name)
		if err != nil {
			return err
		}
		return f.root.Remove(name)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Walk gives each file of a resource to do, in no order: its path, length and time. Of an
// error the path says where. A directory is read in parts, however many files it has.
func (d *Dir) Walk(do func(file string, length int64, mod time.Time) error) error {
	return d.walk(".", do)
}

// WalkBelow is Walk for the files below one directory, none if it is not there.
func (d *Dir) WalkBelow(dir string, do func(file string, length int64, mod time.Time) error) error {
	if _, err := d.root.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.walk(dir, do)
}

func (d *Dir) walk(dir string, do func(file string, length int64, mod time.Time) error) error {
	in, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	defer in.Close()
	for {
		some, err := in.ReadDir(partOfDir)
		for _, e := range some {
			if err := d.visit(path.Join(dir, e.Name()), e, do); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// partOfDir is how many names of a directory are in memory.
const partOfDir = 1024

func (d *Dir) visit(file string, e fs.DirEntry, do func(file string, length int64, mod time.Time) error) error {
	if file == Own {
		return nil
	}
	if e.IsDir() {
		err := d.walk(file, do)
		if file == "lost+found" && errors.Is(err, fs.ErrPermission) {
			return nil // the file system has made it, at the root of a volume
		}
		return err
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return do(file, info.Size(), info.ModTime())
}

// tempName returns the name of an unfinished file; see Sweep.
func (d *Dir) tempName() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.temp++
	return fmt.Sprintf("new-%d", d.temp)
}

// Temp returns an open file without a name, for a package. It is gone when it is closed.
func (d *Dir) Temp() (*os.File, error) {
	name := d.tempName()
	f, err := d.own.root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := d.own.root.Remove(name); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Free returns how many bytes the file system still takes.
func (d *Dir) Free() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(d.lock.Fd()), &s); err != nil {
		return 0, os.NewSyscallError("fstatfs", err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// Sweep removes unfinished files of former processes.
func (d *Dir) Sweep() error { return d.sweep("new-*") }

func (d *Dir) sweep(pattern string) error {
	names, err := fs.Glob(d.own.root.FS(), pattern)
	for _, name := range names {
		err = errors.Join(err, d.own.root.Remove(name))
	}
	return err
}

// Empty reports whether there is no file of a resource.
func (d *Dir) Empty() (bool, error) {
	found := errors.New("found")
	err := d.Walk(func(string, int64, time.Time) error { return found })
	if err == found {
		return false, nil
	}
	return err == nil, err
}
