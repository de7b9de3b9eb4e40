package main

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

// A result is a file being written. It appears whole at Commit, or not at all. An
// existing device, pipe or symbolic link is written to instead.
type result struct {
	*os.File
	name string
	temp string // "" when written in place
}

// createResult begins a result. It fails before a job is taken from a queue if the
// directory cannot be written to.
func createResult(name string) (*result, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fault.Usagef("%s is a directory, an output file is wanted", name)
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
		var why *fs.PathError // with the temporary name
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

// Discard removes a result before Commit.
func (r *result) Discard() {
	r.Close()
	if r.temp != "" {
		os.Remove(r.temp)
	}
}

// write writes a result to the output file, or to the given writer if there is
// none.
func (c *call) write(to io.Writer, write func(io.Writer) error) error {
	if c.output == "" {
		return write(to)
	}
	r, err := createResult(c.output)
	if err != nil {
		return err
	}
	if err := write(r); err != nil {
		r.Discard()
		return err
	}
	return r.Commit()
}

// emit writes a whole text to the output file, or to standard output.
func (c *call) emit(text []byte) error {
	return c.write(screenOf(c.stdout), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// lines puts each word on a line.
func lines(words []string) []byte {
	var b []byte
	for _, w := range words {
		b = append(append(b, w...), '\n')
	}
	return b
}
