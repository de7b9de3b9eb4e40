package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// A Sealed is a small state file, replaced whole. Its last line is a seal: the
// SHA-256 of Kind and contents. A file does not verify if it was damaged, cut,
// or swapped with a file of another kind.
type Sealed struct {
	Dir  *Dir
	Name string // in Dir
	Kind string // the owner of the contents, for example "index of queue jobs"
	Max  int    // bytes of contents, at most
}

// ErrDamaged: a state file is there and does not verify.
var ErrDamaged = errors.New("does not verify")

const (
	sealName = "seal: "
	sealSize = len(sealName) + 2*sha256.Size + 1 // bytes of the last line
)

// sealLine returns the last line of a file.
func sealLine(kind string, contents []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s\n", len(kind), kind)
	h.Write(contents)
	return sealName + hex.EncodeToString(h.Sum(nil)) + "\n"
}

// Read returns the contents. The error wraps [fs.ErrNotExist] if there is no
// file, and [ErrDamaged] if the file does not verify; any other error says
// nothing about the file and may pass.
func (s Sealed) Read() ([]byte, error) {
	file, err := s.Dir.ReadFile(s.Name, nil, s.Max+sealSize)
	if errors.Is(err, ErrTooLong) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	file = bytes.TrimRight(file, "\x00") // a crash can leave zeros after a Rewrite
	contents := file[:max(0, len(file)-sealSize)]
	tail := file[len(contents):]
	if string(tail) != sealLine(s.Kind, contents) {
		return nil, s.Dir.pathError("read", s.Name, ErrDamaged)
	}
	return contents, nil
}

// Write replaces the contents. They are on stable storage when Write returns;
// after a crash before that the file holds the old contents or the new.
func (s Sealed) Write(contents []byte) error {
	file, err := s.File(contents)
	if err != nil {
		return err
	}
	return s.Dir.Replace(s.Name, file)
}

// Stage writes the contents to a temporary file and returns its name, as
// [Dir.Stage] does.
func (s Sealed) Stage(contents []byte) (string, error) {
	file, err := s.File(contents)
	if err != nil {
		return "", err
	}
	return s.Dir.Stage(s.Name, file)
}

// Rewrite replaces the contents in place, for a disk without free space. A
// crash before it returns can damage the file.
func (s Sealed) Rewrite(contents []byte) error {
	file, err := s.File(contents)
	if err == nil {
		err = s.Dir.Rewrite(s.Name, file)
	}
	if err != nil {
		return err
	}
	return s.Dir.SyncFS()
}

// File returns the file with the contents.
func (s Sealed) File(contents []byte) ([]byte, error) {
	if len(contents) > s.Max {
		return nil, s.Dir.pathError("write", s.Name, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLong, len(contents), s.Max))
	}
	file := make([]byte, 0, len(contents)+sealSize)
	return append(append(file, contents...), sealLine(s.Kind, contents)...), nil
}

// SetAside moves the file to the directory [Corrupt] in Dir and returns the
// new path, relative to Dir. If there is no file the error wraps
// [fs.ErrNotExist].
func (s Sealed) SetAside() (string, error) { return s.Dir.SetAside(s.Dir, s.Name, s.Name) }

// Corrupt is the name of the directory for unreadable files.
const Corrupt = "corrupt"

// maxAside is how many bytes of a name are kept in [Corrupt]; a number fits
// after them.
const maxAside = 240

// SetAside moves the entry name of from to the directory [Corrupt] in d, under
// the name as or as and a number, and returns the new path, relative to d.
// After a crash the entry has one of the two paths.
func (d *Dir) SetAside(from *Dir, name, as string) (string, error) {
	if _, err := from.Stat(name); err != nil {
		return "", err
	}
	aside, err := d.MakeSub(Corrupt)
	if err != nil {
		return "", err
	}
	defer aside.Close()
	as = as[:min(len(as), maxAside)]
	to := as
	for n := 1; ; n++ {
		_, err := aside.Stat(to)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		to = as + "." + strconv.Itoa(n)
	}
	return Corrupt + "/" + to, from.Rename(name, aside, to)
}

// Sweep removes the files a crash left unfinished: all whose names begin with
// [TempPrefix], unless keep is not nil and returns true.
func (d *Dir) Sweep(keep func(name string) bool) error {
	var stale []string
	err := d.Names(func(name string) {
		if strings.HasPrefix(name, TempPrefix) && (keep == nil || !keep(name)) {
			stale = append(stale, name)
		}
	})
	for _, name := range stale {
		if e := d.Remove(name); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
