package durable

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

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
