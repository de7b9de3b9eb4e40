package websub

import (
	"errors"
	"io/fs"
	"path/filepath"

	"cutie/publisher/push"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// Dir is the directory of the hub in a home.
const Dir = "websub"

// Check returns the damage of the subscriptions in a home, and changes nothing. NewHub sets
// damaged files aside, and subscribers have to subscribe again.
func Check(home string) (problems []queuefs.Problem) {
	bad := func(name string, err error) {
		text := durable.Bare(err).Error()
		gone := errors.Is(err, fs.ErrNotExist)
		if gone {
			text = "is missing: all subscriptions are lost"
		}
		problems = append(problems, durable.Damage(filepath.Join(Dir, name), text, !gone && !errors.Is(err, durable.ErrDamaged)))
	}
	dir, err := durable.LookIn(filepath.Join(home, Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there was no hub
	}
	if err != nil {
		bad("", err)
		return problems
	}
	defer dir.Close()
	push.CheckBook[*subscription](sealedIn(dir, subscriptionsName), bad)
	return problems
}
