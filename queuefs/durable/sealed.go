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
// or swapped with a file of another kind. The zero value of Old is useful.
type Sealed struct {
	Dir  *Dir
	Name string // in Dir
	Kind string // says whose contents these are, such as "index of queue jobs"
	Max  int    // bytes of contents, at most

	// Old returns the contents of a file written before there were seals. It
	// is asked for a file without a seal; nil refuses all of them.
	Old func(file []byte) ([]byte, error)
}

// ErrDamaged says that a state file is there and does not verify.
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
		return nil, errors.Join(ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	contents := file[:max(0, len(file)-sealSize)]
	tail := file[len(contents):]
	switch {
	case string(tail) == sealLine(s.Kind, contents):
		return contents, nil
	case !bytes.HasPrefix(tail, []byte(sealName)) && s.Old != nil:
		if contents, err = s.Old(file); err == nil {
			return contents, nil
		}
	}
	return nil, s.Dir.pathError("read", s.Name, errors.Join(ErrDamaged, err))
}

// Write replaces the contents. They are on stable storage when Write returns;
// after a crash before that the file holds the old contents or the new.
func (s Sealed) Write(contents []byte) error {
	if len(contents) > s.Max {
		return s.Dir.pathError("write", s.Name, fmt.Errorf("%d bytes, more than %d", len(contents), s.Max))
	}
	file := make([]byte, 0, len(contents)+sealSize)
	file = append(append(file, contents...), sealLine(s.Kind, contents)...)
	return s.Dir.Replace(s.Name, file)
}

// SetAside moves the file to the directory [Corrupt] in Dir and returns the
// new path, relative to Dir. If there is no file the error wraps
// [fs.ErrNotExist].
func (s Sealed) SetAside() (string, error) { return s.Dir.SetAside(s.Name) }

// Corrupt is the name of the directory for files that could not be read.
const Corrupt = "corrupt"

// maxAside is how many files of one name are kept in [Corrupt] under names of
// their own.
const maxAside = 1000

// SetAside moves the entry name of d to [Corrupt] in d, under its name or its
// name and a number, and returns the new path, relative to d. After a crash the
// entry has one of the two paths.
func (d *Dir) SetAside(name string) (string, error) {
	if _, err := d.Stat(name); err != nil {
		return "", err
	}
	aside, err := d.MakeSub(Corrupt)
	if err != nil {
		return "", err
	}
	defer aside.Close()
	to := name
	for n := 2; ; n++ {
		_, err := aside.Stat(to)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		if n > maxAside {
			return "", d.pathError("set aside", name, fmt.Errorf("%s holds %d of that name", aside.path, maxAside))
		}
		to = name + "-" + strconv.Itoa(n)
	}
	if err := d.Rename(name, aside, to); err != nil {
		return "", err
	}
	return Corrupt + "/" + to, errors.Join(aside.Sync(), d.Sync())
}

// Sweep removes the files a crash left unfinished: all whose names begin with
// [TempPrefix] and for which keep, if it is not nil, returns false.
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
