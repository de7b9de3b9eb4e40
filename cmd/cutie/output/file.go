package output

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"cutie/cmd/cutie/fault"
)

// A File is an output file being written. It appears whole at Commit, or not at all. An
// existing device, pipe or symbolic link is written to instead.
type File struct {
	*os.File
	name string
	temp string // "" when written in place
}

// Create begins a file. It fails now, and not at Commit, if the directory cannot be
// written to.
func Create(name string) (*File, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fault.Usagef("%s is a directory, an output file is wanted", name)
	}
	switch info, err := os.Lstat(name); {
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return nil, err
		}
		return &File{f, name, ""}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	dir := filepath.Dir(name)
	temp := filepath.Join(dir, ".cutie-"+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		var why *fs.PathError // with the temporary name
		if errors.As(err, &why) {
			err = fmt.Errorf("%s: directory %s: %w", name, dir, why.Err)
		}
		return nil, err
	}
	return &File{f, name, temp}, nil
}

// Commit gives the file its name. It is on stable storage then.
func (r *File) Commit() error {
	if r.temp == "" {
		return r.Close()
	}
	err := errors.Join(r.Sync(), r.Close())
	if err == nil {
		err = os.Rename(r.temp, r.name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(r.temp))
	}
	return nil
}

// Discard removes a file before Commit, and does nothing after it.
func (r *File) Discard() {
	r.Close()
	if r.temp != "" {
		os.Remove(r.temp)
	}
}

// WriteFile writes a file as a whole.
func WriteFile(name string, write func(io.Writer) error) error {
	f, err := Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Discard()
		return err
	}
	return f.Commit()
}
