package store

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"cutie/queuefs/durable"
)

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
