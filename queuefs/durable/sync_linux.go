package durable

import (
	"os"

	"golang.org/x/sys/unix"
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
