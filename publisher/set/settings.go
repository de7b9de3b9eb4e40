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

// SettingsFile has the settings of the last run.
const (
	SettingsFile  = "cutie-source.txt"
	settingsTitle = "settings"
)

// remember writes the settings before anything is published with them, unless
// the file has them. A damaged file is set aside.
func (s *Store) remember() error {
	root := s.Root()
	file := sealed(root, SettingsFile, settingsTitle)
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
		aside, asideErr := SetAside(root, SettingsFile)
		if asideErr != nil {
			return errors.Join(err, asideErr)
		}
		s.Report(SettingsFile, "%v; moved to %s, the settings of now are in its place", err, aside)
	}
	return file.Write(s.Settings)
}

// Remember writes other settings.
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

// Settings reads the file of settings in a home; nil if nothing is published yet.
func Settings(home string) ([]byte, error) {
	d, err := durable.OpenDir(home, nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	root, err := d.Sub(names.RootName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	text, err := sealed(root, SettingsFile, settingsTitle).Read()
	if errors.Is(err, fs.ErrNotExist) {
		if _, e := root.Stat(CursorFile); errors.Is(e, fs.ErrNotExist) {
			return nil, nil
		}
	}
	if err != nil {
		err = fmt.Errorf("%s/%s: %w", names.RootName, SettingsFile, err)
	}
	return text, err
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
func (s *Store) Anew(lines []Lines) error {
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
