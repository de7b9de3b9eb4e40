package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A LockedError is the error for a home held by another process.
type LockedError struct {
	Dir string
	PID int // 0 if the holder did not say
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: home in use by another process", e.Dir)
	}
	return fmt.Sprintf("%s: home in use by process %d", e.Dir, e.PID)
}

// A Held lock keeps other processes from opening a home. It ends with Close, or with the
// process.
//
// It is on two files: the directory itself, which nobody can remove or replace without
// removing the home, and cutie-lock, which names the process. Network file systems that
// cannot lock a directory leave the second one.
type Held struct{ dir, file *os.File }

// Close lets go of the home. A nil lock has nothing to close.
func (h *Held) Close() error {
	if h == nil {
		return nil
	}
	err := release(h.dir)
	if h.file != nil {
		err = errors.Join(err, release(h.file))
	}
	return err
}

// release unlocks and closes a file. Closing alone is not enough: a child that is being
// started has a copy of each descriptor until it runs its own program. A file system that
// does not unlock did not lock.
func release(f *os.File) error {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	return f.Close()
}

// LockToLook keeps other processes from opening a home, except those that look at it as
// well. It writes nothing.
func LockToLook(dir string) (*Held, error) { return hold(dir, unix.LOCK_SH, os.O_RDONLY) }

// Lock takes the lock of a home and writes our process number in cutie-lock. If another
// process has it the error is a [*LockedError].
func Lock(dir string) (*Held, error) {
	h, err := hold(dir, unix.LOCK_EX, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	h.file.Truncate(0)
	h.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return h, nil
}

// hold locks the directory, then the file of the lock. Without O_CREATE it may have none.
func hold(dir string, how, flag int) (*Held, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	h := &Held{dir: d}
	if unix.Flock(int(d.Fd()), how|unix.LOCK_NB) == unix.EWOULDBLOCK {
		return nil, errors.Join(&LockedError{Dir: dir, PID: holder(dir)}, h.Close())
	}
	h.file, err = os.OpenFile(dir+"/"+LockName, flag, 0o600)
	switch {
	case err == nil:
		err = unix.Flock(int(h.file.Fd()), how|unix.LOCK_NB)
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE == 0:
		err = nil
	}
	switch {
	case err == nil:
		return h, nil
	case err == unix.EWOULDBLOCK:
		err = &LockedError{Dir: dir, PID: written(h.file)}
	case h.file != nil:
		err = &fs.PathError{Op: "lock", Path: dir + "/" + LockName, Err: err}
	}
	return nil, errors.Join(err, h.Close())
}

// holder returns the process that has the home; 0 if nobody holds cutie-lock, so that its
// text is of somebody else.
func holder(dir string) int {
	f, err := os.Open(dir + "/" + LockName)
	if err != nil {
		return 0
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != unix.EWOULDBLOCK {
		return 0
	}
	return written(f)
}

// written returns the process number in the file of the lock.
func written(f *os.File) int {
	var b [32]byte
	n, _ := f.ReadAt(b[:], 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return pid
}
