package set

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"cutie/publisher/names"
	"cutie/queuefs/durable"
)

const (
	settingsFile  = "cutie-source.txt"
	settingsTitle = "settings"
)

// remember writes the settings before anything is published with them, unless
// the file has them. A damaged file is set aside.
func (s *Store) remember() error {
	root := s.Root()
	file := sealed(root, settingsFile, settingsTitle)
	have, err := file.Read()
	if err == nil {
		if bytes.Equal(have, s.Settings) {
			return nil
		}
		err = s.Check(have)
	} else if !Unusable(err) {
		return err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		aside, asideErr := SetAside(root, settingsFile)
		if asideErr != nil {
			return errors.Join(err, asideErr)
		}
		s.Report(settingsFile, "%v; moved to %s, the settings of now are in its place", err, aside)
	}
	return file.Write(s.Settings)
}

// VerifySettings writes the file of settings anew if it is not as it was written.
func (s *Store) VerifySettings() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remember()
}

// Remember writes other settings. VerifySettings compares with them from then on.
func (s *Store) Remember(settings []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.Settings
	s.Settings = settings
	err := s.remember()
	if err != nil {
		s.Settings = before
	}
	return err
}

// Settings reads the file of settings in a home, and calls parse with its text.
// If there is none, or a damaged one, it calls parseStamp with the stamp of the
// cursor. If nothing is published yet, it calls neither.
func Settings(home string, parse func(text []byte) error, parseStamp func(stamp string) error) error {
	d, err := durable.OpenDir(home, nil)
	if err != nil {
		return err
	}
	defer d.Close()
	root, err := d.Sub(names.RootName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	text, err := sealed(root, settingsFile, settingsTitle).Read()
	if err == nil {
		if err = parse(text); err == nil {
			return nil
		}
	}
	cursorErr := readStamp(root, parseStamp)
	if cursorErr == nil {
		return nil
	}
	if errors.Is(cursorErr, fs.ErrNotExist) {
		cursorErr = nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s/%s: %w", names.RootName, settingsFile, err), cursorErr)
	}
	return cursorErr
}

// readStamp parses the stamp in the first line of the cursor. The error is
// [fs.ErrNotExist] if there is no cursor.
func readStamp(root *durable.Dir, parse func(stamp string) error) error {
	data, err := sealed(root, CursorFile, cursorTitle).Read()
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	stamp, ok := strings.CutPrefix(first, strings.TrimSuffix(header(cursorTitle, ""), "\n"))
	if !ok || stamp == "" || parse(stamp) != nil {
		return fmt.Errorf("%s/%s: line 1 is %.200q", names.RootName, CursorFile, first)
	}
	return nil
}

// formerDir has everything published with another base URI or version, until that
// changes once more.
const (
	formerDir = "cutie-former"
	ownPrefix = "cutie-" // begins the names that are of no queue
)

// Anew begins the lists of all sets where lines say, and moves everything published
// before out of the way. The settings are those of now: a crash in between leaves
// directories with another stamp, which are set aside one by one.
func (s *Store) Anew(lines []Line) error {
	c := &Cursor{store: s}
	c.Take(slices.Values(lines))
	if err := c.Write(); err != nil {
		return err
	}
	root := s.Root()
	if err := root.RemoveTree(formerDir); err != nil {
		return err
	}
	var queues []string
	err := root.Names(func(name string) {
		if !strings.HasPrefix(name, ownPrefix) {
			queues = append(queues, name)
		}
	})
	if err != nil || len(queues) == 0 {
		return err
	}
	former, err := root.MakeSub(formerDir)
	if err != nil {
		return err
	}
	defer former.Close()
	for _, q := range queues {
		if err := move(root, q, former); err != nil {
			return err
		}
	}
	return errors.Join(former.Sync(), root.Sync())
}

// move moves an entry that may be gone by now.
func move(from *durable.Dir, name string, to *durable.Dir) error {
	err := from.Rename(name, to, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
