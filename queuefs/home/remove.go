package home

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"cutie/queuefs/durable"
)

// removedPrefix begins the names of removed queues among temporary files.
const removedPrefix = "removed-"

// RemoveQueue removes the directory of a queue that is not listed. It is renamed
// first: the remains of a crash are no queue, and go at the next start.
func RemoveQueue(queues, temp *durable.Dir, id string) error {
	if err := MoveQueueAway(queues, temp, id); err != nil {
		return err
	}
	return RemoveMoved(temp, id)
}

// MoveQueueAway is the first step of RemoveQueue: the directory has another name then, on
// stable storage, whatever its size.
func MoveQueueAway(queues, temp *durable.Dir, id string) error {
	if err := RemoveMoved(temp, id); err != nil {
		return err
	}
	if err := queues.Rename(id, temp, removedPrefix+id); err != nil {
		return err
	}
	return queues.Sync()
}

// RemoveMoved is the second step: it removes the files.
func RemoveMoved(temp *durable.Dir, id string) error { return temp.RemoveTree(removedPrefix + id) }

// SweepRemoved removes the remains of removed queues.
func SweepRemoved(temp *durable.Dir, report func(path, text string)) error {
	var left []string
	err := temp.Names(func(name string) {
		if strings.HasPrefix(name, removedPrefix) {
			left = append(left, name)
		}
	})
	for _, name := range left {
		if e := temp.RemoveTree(name); e != nil { // tried again at the next opening
			report(TempDir+"/"+name, e.Error()+"; left behind of a queue that was removed")
		}
	}
	return err
}

// formerPrefix begins the names of directories among temporary files that were of a home of
// former days.
const formerPrefix = "former-"

// MoveAway gives a directory, if it is there, another name among temporary files. Its files
// go with SweepFormer: many take long.
func MoveAway(dir, temp *durable.Dir, name string) error {
	err := dir.Rename(name, temp, formerPrefix+rand.Text())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.EXDEV):
		return dir.RemoveTree(name)
	}
	return err
}

// movedAway returns the names of directories moved away.
func movedAway(temp *durable.Dir) (left []string, err error) {
	err = temp.Names(func(name string) {
		if strings.HasPrefix(name, formerPrefix) {
			left = append(left, name)
		}
	})
	return left, err
}

// MovedAway reports whether SweepFormer has something to do.
func MovedAway(temp *durable.Dir) (bool, error) {
	left, err := movedAway(temp)
	return len(left) > 0, err
}

// SweepFormer removes directories moved away, as long as stop returns nil.
func SweepFormer(temp *durable.Dir, stop func() error) error {
	left, err := movedAway(temp)
	for _, name := range left {
		if err == nil {
			err = temp.RemoveTreeUntil(name, stop)
		}
	}
	return err
}
