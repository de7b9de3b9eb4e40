package home

import (
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

// Lock takes the lock of a home and writes our process number in it. The lock is
// held until the file is closed. If another process has it the error is a
// [*LockedError].
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir+"/"+LockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		var b [32]byte
		n, _ := f.ReadAt(b[:], 0)
		f.Close()
		if err != unix.EWOULDBLOCK {
			return nil, &fs.PathError{Op: "lock", Path: dir + "/" + LockName, Err: err}
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
		return nil, &LockedError{Dir: dir, PID: pid}
	}
	f.Truncate(0)
	f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return f, nil
}
