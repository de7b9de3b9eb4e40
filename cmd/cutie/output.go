package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A result is a file being written: there whole after Commit, or not at all.
// What has the name already and is no regular file, such as a device, a pipe or
// a symbolic link, is not replaced but written to.
type result struct {
	*os.File
	name string
	temp string // "" when written in place
}

// createResult begins a result, so that a directory that cannot be written to
// is noticed before anything is taken from a queue.
func createResult(name string) (*result, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, usagef("%s is a directory, an output file is wanted", name)
	}
	switch info, err := os.Lstat(name); {
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return nil, err
		}
		return &result{f, name, ""}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	dir := filepath.Dir(name)
	temp := filepath.Join(dir, ".cutie-"+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		var why *fs.PathError // names what nobody has asked for
		if errors.As(err, &why) {
			err = fmt.Errorf("%s: directory %s: %w", name, dir, why.Err)
		}
		return nil, err
	}
	return &result{f, name, temp}, nil
}

// Commit gives the result its name. It is on stable storage then.
func (r *result) Commit() error {
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

// Discard takes an uncommitted result away.
func (r *result) Discard() {
	r.Close()
	if r.temp != "" {
		os.Remove(r.temp)
	}
}

// emit writes a whole result to the output file, or to standard output.
func (c *call) emit(text []byte) error {
	if c.output == "" {
		_, err := screenOf(c.stdout).Write(text)
		return err
	}
	r, err := createResult(c.output)
	if err != nil {
		return err
	}
	if _, err := r.Write(text); err != nil {
		r.Discard()
		return err
	}
	return r.Commit()
}
