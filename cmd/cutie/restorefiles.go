package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cutie/publisher/destination/local"
	"cutie/queuefs/home"
)

// Files of a backup beside the queues.
const (
	homeFiles = "home" // of the home, below its directory
	alsoFiles = "also" // of other places, below the root of the file system
)

// settingsFile of a home says how it was published.
var settingsFile = filepath.Join(home.PublishedDir, "cutie-source.txt")

// inBackup reports whether a backup copies an entry of a home beside its queues: all that
// is neither made of the queues nor of this process alone.
func inBackup(name string) bool {
	switch name {
	case home.InfoName:
		return true
	case home.ListName, home.QueuesDir, home.LogDir, home.PublishedDir, home.MirrorsDir, home.CopiesDir, local.Own:
		return false
	}
	return !strings.HasPrefix(name, "cutie-") && !strings.HasPrefix(name, "0=")
}

// copyFiles copies the files of a home beside its queues, and those of Options, to the new
// directory dir.
func (o *backup) copyFiles(from, dir string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	names := []string{settingsFile}
	for _, e := range entries {
		if inBackup(e.Name()) {
			names = append(names, e.Name())
		}
	}
	for _, name := range names {
		err := copyTree(filepath.Join(from, name), filepath.Join(dir, homeFiles, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it is gone meanwhile
			return err
		}
	}
	for _, name := range o.also {
		name, err := filepath.Abs(name)
		if err == nil {
			err = copyTree(name, filepath.Join(dir, alsoFiles, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies a file, or a directory with all files below it, with modes and times.
// Neither sockets nor symbolic links are copied, except that name may be one. It syncs
// nothing.
func copyTree(name, to string) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if path != name && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		rest, err := filepath.Rel(name, path)
		if err != nil {
			return err
		}
		switch target := filepath.Join(to, rest); {
		case e.IsDir():
			return copyDir(path, target)
		case e.Type().IsRegular():
			err = copyFile(path, target)
		}
		if path != name && errors.Is(err, fs.ErrNotExist) {
			return nil // it is gone meanwhile
		}
		return err
	})
}

func copyDir(name, to string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	return os.Chmod(to, info.Mode().Perm()|0o700)
}

func copyFile(name, to string) (err error) {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Chmod(info.Mode().Perm())
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}
