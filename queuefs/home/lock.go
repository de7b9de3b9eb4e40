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

// LockToLook keeps other processes from opening a home, except those that look at it
// as well, without changing anything. Without a lock file the result is nil.
func LockToLook(dir string) (*os.File, error) {
	f, err := os.Open(dir + "/" + LockName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = lock(f, dir, unix.LOCK_SH)
	}
	return f, err
}

// Lock takes the lock of a home and writes our process number in it. The lock is
// held until the file is closed. If another process has it the error is a
// [*LockedError].
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir+"/"+LockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f, dir, unix.LOCK_EX); err != nil {
		return nil, err
	}
	f.Truncate(0)
	f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return f, nil
}

// lock locks f, the lock of the home in dir, or closes it.
func lock(f *os.File, dir string, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	var b [32]byte
	n, _ := f.ReadAt(b[:], 0)
	f.Close()
	if err != unix.EWOULDBLOCK {
		return &fs.PathError{Op: "lock", Path: dir + "/" + LockName, Err: err}
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return &LockedError{Dir: dir, PID: pid}
}
