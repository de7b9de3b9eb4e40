// Package local keeps the files of a Destination: copies of resources in a directory,
// each under a path made of its URI.
//
// # Paths
//
// A resource below the base URI of the Source has the rest of its URI as its path; any
// other one begins with the name ^SCHEME+HOST or ^SCHEME+HOST+PORT. The escape ^ cannot
// stand in a URI, so that each path leads back to its URI:
//
//	^2f   the octet 2f, where a file system or a shell would stumble over it
//	^     alone: an empty segment; at the end: of a URI with a slash there
//	NAME^ the file or the directory NAME, where the other one has that name
//	NAME^-/REST   a segment of more than 200 octets
//
// Where the file system does not tell a from A, capital letters are escaped as well.
//
// # Files
//
// A resource gets its path when its length and all its digests were verified. Until then
// its file is in .cutie-sync/: new-N is removed by the next run, part-DIGEST goes on with its
// rest, for which a digest proves the whole; changes-N only grow. A file has the time of its
// resource, so that a later run knows a copy by length and time. All access is below the
// directory: symbolic links that lead out of it are refused.
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
	own  *os.Root // of Own
	at   *os.File // the same
	lock *os.File

	alone bool          // lock is held
	temp  atomic.Uint64 // number of the last unfinished file

	mu      sync.RWMutex        // held for reading while a folder is in use
	folders map[string]*os.File // open directories, by their path
}

// maxFolders is how many directories stay open.
const maxFolders = 256

// Open opens the directory for resources below a base URI, and makes it if create is
// set. If another process has it the error is [ErrBusy].
func Open(dir, base string, create bool) (*Dir, error) {
	if create {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
		if err := os.Mkdir(path.Join(dir, Own), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	d, err := Look(dir, base)
	if err == nil && !d.Alone() {
		err = fmt.Errorf("%s: %w", dir, errors.Join(ErrBusy, d.Close()))
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Look is Open for reading, also while another process has the directory.
func Look(dir, base string) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	d := &Dir{root: root, folders: map[string]*os.File{}}
	if err := d.begin(base); err != nil {
		d.Close()
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return d, nil
}

// Alone reports whether no other process has the directory.
func (d *Dir) Alone() bool { return d.alone }

func (d *Dir) begin(base string) (err error) {
	if d.own, err = d.root.OpenRoot(Own); err != nil {
		return err
	}
	if d.at, err = d.own.Open("."); err != nil {
		return err
	}
	if d.lock, err = d.own.OpenFile("lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	err = unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if d.alone = err == nil; err != nil && err != unix.EWOULDBLOCK {
		return fmt.Errorf("lock: %w", err)
	}
	_, e := d.own.Lstat("LOCK")
	d.Names, err = NewNames(base, e == nil)
	return err
}

// Close lets go of the directory. Unfinished files stay for the next process.
func (d *Dir) Close() error {
	d.mu.Lock()
	err := d.closeFolders()
	d.mu.Unlock()
	for _, f := range []*os.File{d.lock, d.at} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if d.own != nil {
		err = errors.Join(err, d.own.Close())
	}
	return errors.Join(err, d.root.Close())
}

// Sync puts all files on stable storage.
func (d *Dir) Sync() error { return unix.Syncfs(int(d.lock.Fd())) }

// ReadState reads the file NAME of the state into v. Without it the error is
// [fs.ErrNotExist].
func (d *Dir) ReadState(name string, v any) error {
	data, err := d.own.ReadFile(name)
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
	f, err := d.own.OpenFile(unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := d.own.Rename(unfinished, name); err != nil {
		return err
	}
	return d.at.Sync()
}

// AppendState adds data to the file NAME of the state behind its first octets, so many of
// them as the state says; later ones are those of a run that was cut off, and go. A
// shorter file is [fs.ErrNotExist]. Sync puts it on stable storage.
func (d *Dir) AppendState(name string, behind int64, data []byte) error {
	f, err := d.own.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() < behind {
		err = fmt.Errorf("%s/%s: %d of %d octets: %w", Own, name, st.Size(), behind, fs.ErrNotExist)
	}
	if err == nil {
		err = f.Truncate(behind)
	}
	if err == nil {
		_, err = f.WriteAt(data, behind)
	}
	return errors.Join(err, f.Close())
}

// OpenState opens the file NAME of the state.
func (d *Dir) OpenState(name string) (*os.File, error) { return d.own.Open(name) }

// Sweep removes the files of the state with names that begin with a prefix, except for
// those to keep. nil: it keeps none.
func (d *Dir) Sweep(prefix string, keep func(name string) bool) error {
	names, err := fs.Glob(d.own.FS(), prefix+"*")
	for _, name := range names {
		if keep == nil || !keep(name) {
			err = errors.Join(err, d.own.Remove(name))
		}
	}
	return err
}

// Beginnings of the names of unfinished files: those of one process, and parts that a later
// one goes on with.
const (
	Unfinished = "new-"
	Parts      = "part-"
)

func (d *Dir) tempName() string { return fmt.Sprintf("%s%d", Unfinished, d.temp.Add(1)) }

// Free returns how many bytes the file system still takes.
func (d *Dir) Free() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(d.lock.Fd()), &s); err != nil {
		return 0, os.NewSyscallError("fstatfs", err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// in gives do the open directory of a file, and the name of the file there. Without
// create a missing directory is [fs.ErrNotExist]. do calls no method of d that uses in.
func (d *Dir) in(file string, create bool, do func(dir *os.File, name string) error) error {
	at, name := path.Split(file)
	for at = strings.TrimSuffix(at, "/"); ; {
		d.mu.RLock()
		if dir := d.folders[at]; dir != nil {
			defer d.mu.RUnlock()
			return do(dir, name)
		}
		d.mu.RUnlock()
		if err := d.openFolder(at, create); err != nil {
			return err
		}
	}
}

func (d *Dir) openFolder(name string, create bool) error {
	at, err := d.enter(name, create)
	if err != nil {
		return err
	}
	defer at.Close()
	dir, err := at.Open(".")
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.folders[name] != nil { // another goroutine was quicker
		return dir.Close()
	}
	if len(d.folders) >= maxFolders {
		err = d.closeFolders()
	}
	d.folders[name] = dir
	return err
}

// closeFolders closes all open directories. d.mu is held.
func (d *Dir) closeFolders() (err error) {
	for name, dir := range d.folders {
		err = errors.Join(err, dir.Close())
		delete(d.folders, name)
	}
	return err
}

// enter opens a directory. A name taken by a file, now or before, is the other one.
func (d *Dir) enter(dir string, create bool) (*os.Root, error) {
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

// handle is the descriptor of an open directory or file, for calls with a single name of
// ours: no path is walked. An [os.Root] takes several times as many calls.
func handle(f *os.File) int { return int(f.Fd()) }

// stat returns the name of a file in its directory, its length and its time. A name taken
// by a directory is the other one.
func stat(dir *os.File, name string) (string, int64, time.Time, error) {
	var s unix.Stat_t
	err := unix.Fstatat(handle(dir), name, &s, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && s.Mode&unix.S_IFMT == unix.S_IFDIR {
		name += "^"
		err = unix.Fstatat(handle(dir), name, &s, unix.AT_SYMLINK_NOFOLLOW)
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
	err := d.in(file, false, func(dir *os.File, name string) error {
		name, _, _, err := stat(dir, name)
		if err == nil {
			err = os.NewSyscallError("unlinkat", unix.Unlinkat(handle(dir), name, 0))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Walk gives the path of each file of a resource in a directory, "." for all, and below it,
// to do, in no order. Of an error the path says where. Without the directory there are none.
// It is read in parts, however many files it has.
func (d *Dir) Walk(dir string, do func(file string) error) error {
	in, err := d.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	for {
		some, err := in.ReadDir(partOfDir)
		for _, e := range some {
			file := path.Join(dir, e.Name())
			err := error(nil)
			switch {
			case file == Own:
			case e.IsDir():
				// The file system has made this one, at the root of a volume.
				if err = d.Walk(file, do); file == "lost+found" && errors.Is(err, fs.ErrPermission) {
					err = nil
				}
			default:
				err = do(file)
			}
			if err != nil {
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

// Empty reports whether there is no file of a resource.
func (d *Dir) Empty() (bool, error) {
	found := errors.New("found")
	err := d.Walk(".", func(string) error { return found })
	if err == found {
		return false, nil
	}
	return err == nil, err
}
