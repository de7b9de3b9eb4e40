package callback

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

func cursorIn(dir *durable.Dir) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: cursorName, Kind: "cursor of callbacks", Max: maxFile}
}

// Check returns the damage of the files of callbacks in a home, and changes nothing. New
// sets these files aside, and changes are sent again.
func Check(home string) (problems []queuefs.Problem) {
	dir, err := durable.LookIn(filepath.Join(home, Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	note := func(name string, err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, durable.Damage(filepath.Join(Dir, name), durable.Bare(err).Error(), !errors.Is(err, durable.ErrDamaged)))
		}
	}
	if err != nil {
		note("", err)
		return problems
	}
	defer dir.Close()
	_, err = cursorIn(dir).Read()
	note(cursorName, err)
	var queues []string
	note("", dir.Names(func(name string) {
		if queue, ok := strings.CutSuffix(name, outboxExt); ok {
			queues = append(queues, queue)
		}
	}))
	slices.Sort(queues)
	for _, queue := range queues {
		_, err := outboxIn(dir, queue).Read()
		note(queue+outboxExt, err)
	}
	return problems
}
