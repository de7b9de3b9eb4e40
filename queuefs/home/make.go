package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/namaste"
)

// TagValue is the value of the tag of a home.
const TagValue = "Cutie/" + specVersion

// tag makes a directory a home.
var tag = namaste.Tag{Number: namaste.Type, Value: TagValue}

// Init makes an empty home in the directory dir, and makes dir, for its owner
// alone, if need be. The error is [fs.ErrExist] if it is a home already, and [ErrNoHome]
// if it was one and lost its tag.
func Init(dir string, info ServiceInfo) (err error) {
	// Jobs may be private. For other users, make the directory first, or change
	// its mode.
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o777); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := durable.OpenDir(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if _, err := d.Stat(tag.FileName()); err == nil {
		return fmt.Errorf("%s is a Cutie home: %w", dir, fs.ErrExist)
	}
	if Untagged(dir) {
		return fmt.Errorf("%s: %w any more: all of one is there but its tag 0=cutie_%s", dir, ErrNoHome, specVersion)
	}
	if info.Created.IsZero() {
		info.Created = time.Now()
	}
	if info.Scheme == "" {
		info.Scheme = Scheme
	}
	for _, sub := range []string{LogDir, QueuesDir} {
		s, err := d.MakeSub(sub)
		if err != nil {
			return err
		}
		s.Close()
	}
	if err := d.Replace(InfoName, info.Text()); err != nil {
		return err
	}
	// With the tag the directory becomes a home.
	return d.Replace(tag.FileName(), []byte(tag.Content()))
}

// Untagged reports whether a directory has the properties of a service and a journal, as
// a home without its tag.
func Untagged(dir string) bool {
	for _, name := range []string{InfoName, filepath.Join(LogDir, JournalDir)} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// Unmade reports whether a directory is not there, is empty as the root of a new volume
// is, too, or has only the remains of a broken-off Init.
func Unmade(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	made := map[string]bool{} // by Init, in this order
	for _, e := range entries {
		switch name := e.Name(); {
		case name == LogDir, name == QueuesDir:
			within, err := os.ReadDir(filepath.Join(dir, name))
			if err != nil || slices.ContainsFunc(within, func(e fs.DirEntry) bool { return e.Name() != LostFound }) {
				return false, err
			}
			made[name] = true
		case name == LostFound && e.IsDir():
		case name == InfoName, strings.HasPrefix(name, durable.TempPrefix):
			made[InfoName] = true
		default:
			return false, nil
		}
	}
	return made[LogDir] || !made[QueuesDir] && !made[InfoName], nil
}

// CheckTag checks for a home of a version known to this program. An older version, a
// tag whose name and content differ, and a tag of another kind beside it are reported
// as problems. Without a tag the error is [ErrNoHome].
func CheckTag(d *durable.Dir, report func(Problem)) error {
	var names []string
	if err := d.Names(func(n string) { names = append(names, n) }); err != nil {
		return err
	}
	own := 0
	tags := namaste.Find(names, namaste.Type)
	for _, name := range tags {
		data, err := d.ReadFile(name, nil, 1<<10)
		if err != nil {
			return err
		}
		v, is := versionOf(name, string(data))
		if !is {
			continue
		}
		own++
		if v.Major != 0 || v.Minor > 3 || v.Minor < 2 {
			return &VersionError{Dir: d.Path(), Major: v.Major, Minor: v.Minor}
		}
		right := namaste.Tag{Number: namaste.Type, Value: v.String()}
		if name != right.FileName() || !strings.EqualFold(strings.TrimRight(string(data), "\r\n"), right.Value) {
			report(Problem{Path: name, Text: fmt.Sprintf("wrong tag: it holds %.40q, and %s holds %q; opened as %s", data, right.FileName(), right.Value, v)})
		}
		if v.Minor == 2 {
			report(Problem{Path: name, Text: "home of version 0.2, opened as 0.3"})
		}
	}
	if own == 0 {
		return fmt.Errorf("%s: %w: no tag 0=cutie_%s", d.Path(), ErrNoHome, specVersion)
	}
	if len(tags) > 1 {
		report(Problem{Path: strings.Join(tags, " "), Text: "more than one type tag; opened as a Cutie home"})
	}
	return nil
}

// CheckMade returns [ErrMaking] for a home that is still being made of a copy.
func CheckMade(d *durable.Dir) error {
	_, err := d.Stat(MakingName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = ErrMaking
	}
	return fmt.Errorf("%s: %w", d.Path(), err)
}

// BeginMaking says on stable storage that dir is made a home, until EndMaking.
func BeginMaking(dir string) error {
	return making(dir, func(d *durable.Dir) error { return d.Replace(MakingName, []byte("cutie makes a home of this copy\n")) })
}

// EndMaking says on stable storage that the home is whole.
func EndMaking(dir string) error {
	return making(dir, func(d *durable.Dir) error { return errors.Join(d.Remove(MakingName), d.Sync()) })
}

func making(dir string, do func(*durable.Dir) error) error {
	d, err := durable.OpenDir(dir, nil)
	if err != nil {
		return err
	}
	return errors.Join(do(d), d.Close())
}

// versionOf returns the version of a type tag of Cutie by its content, or else by its
// name.
func versionOf(name, content string) (v namaste.Version, is bool) {
	if found, err := namaste.Parse(name, content); err == nil {
		if v, err = namaste.ParseVersion(found.Value); err == nil && strings.EqualFold(v.Name, tagName) {
			v.Name = "Cutie"
			return v, true
		}
	}
	v, err := namaste.ParseVersion(strings.TrimPrefix(name, "0="))
	v.Name = "Cutie"
	return v, err == nil && strings.HasPrefix(strings.ToLower(name), "0="+tagName+"_")
}

// Complete makes the tag and the properties of the service if they are missing, gives a
// tag under another name its own, and reports all.
func Complete(d *durable.Dir, now time.Time, report func(Problem)) error {
	if err := renameTag(d, report); err != nil {
		return err
	}
	if text, err := d.ReadFile(tag.FileName(), nil, 1<<10); err == nil && string(text) != tag.Content() {
		if err := d.Replace(tag.FileName(), []byte(tag.Content())); err != nil {
			return err
		}
		report(Problem{Path: tag.FileName(), Text: "wrong tag; written again"})
	}
	if err := CheckTag(d, report); errors.Is(err, ErrNoHome) {
		if err := d.Replace(tag.FileName(), []byte(tag.Content())); err != nil {
			return err
		}
		report(Problem{Path: tag.FileName(), Text: "missing; made"})
	} else if err != nil {
		return err
	}
	if _, err := d.Stat(InfoName); errors.Is(err, fs.ErrNotExist) {
		if err := d.Replace(InfoName, ServiceInfo{Scheme: Scheme, Created: now}.Text()); err != nil {
			return err
		}
		report(Problem{Path: InfoName, Text: "missing; made"})
	}
	return nil
}

// renameTag gives the tag its name, if it stands under another one.
func renameTag(d *durable.Dir, report func(Problem)) error {
	if _, err := d.Stat(tag.FileName()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var names []string
	if err := d.Names(func(n string) { names = append(names, n) }); err != nil {
		return err
	}
	for _, name := range namaste.Find(names, namaste.Type) {
		text, err := d.ReadFile(name, nil, 1<<10)
		if err != nil {
			return err
		}
		if string(text) == tag.Content() {
			report(Problem{Path: name, Text: "wrong name; renamed to " + tag.FileName()})
			return d.Rename(name, d, tag.FileName())
		}
	}
	return nil
}

// A VersionError: the home is of a version of Cutie unknown to this program.
type VersionError struct {
	Dir          string
	Major, Minor int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: Cutie version %d.%d is not one this program knows", e.Dir, e.Major, e.Minor)
}

// CopyNames copies the tag and cutie-info.txt of a home, as far as they are there.
func CopyNames(from, to *durable.Dir) error {
	for _, name := range []string{tag.FileName(), InfoName} {
		text, err := from.ReadFile(name, nil, maxInfo)
		if err == nil {
			err = to.Replace(name, text)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
