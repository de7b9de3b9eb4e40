package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// AppendState adds data to the file NAME of the state behind its first octets, so many of
// them as the state says; later ones are those of a run that was cut off, and go. A
// shorter file is [fs.ErrNotExist]. Sync puts it on stable storage.
func (d *Dir) AppendState(name string, behind int64, data []byte) error {
	f, err := d.own.root.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	size := int64(-1)
	if st, e := f.Stat(); e == nil {
		size = st.Size()
	}
	if size < behind {
		err = fmt.Errorf("%s/%s: %d of %d octets: %w", Own, name, size, behind, fs.ErrNotExist)
	} else if size > behind {
		err = f.Truncate(behind)
	}
	if err == nil {
		_, err = f.WriteAt(data, behind)
	}
	return errors.Join(err, f.Close())
}

// OpenState opens the file NAME of the state.
func (d *Dir) OpenState(name string) (*os.File, error) { return d.own.root.Open(name) }

// SweepStates removes the files of the state with names like a pattern, except for those to
// keep.
func (d *Dir) SweepStates(pattern string, keep func(name string) bool) error {
	names, err := fs.Glob(d.own.root.FS(), pattern)
	for _, name := range names {
		if !keep(name) {
			err = errors.Join(err, d.RemoveState(name))
		}
	}
	return err
}
