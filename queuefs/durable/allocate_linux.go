package durable

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Allocate makes the file name, which takes size bytes of the disk and has no
// contents of use. It is not synced. The error is [fs.ErrExist] if the name is taken.
func (d *Dir) Allocate(name string, size int64) error {
	if err := d.enter(name); err != nil {
		return err
	}
	defer d.release()
	fd, err := openat(d.at(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, d.fileMode())
	if err != nil {
		return d.pathError("create", name, err)
	}
	defer unix.Close(fd)
	if err := d.fault.run("allocate", func() error { return unix.Fallocate(fd, 0, 0, size) }); err != nil {
		return errors.Join(d.pathError("allocate", name, err), d.Remove(name))
	}
	return nil
}
