package durable

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

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
