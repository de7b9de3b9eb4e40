package websub

import (
	"errors"
	"io/fs"
	"path/filepath"

	"cutie/queuefs/durable"
)

// Dir is the directory of the hub in a home.
const Dir = "websub"

// Check reads the subscriptions in a home, and changes nothing. The error wraps
// [durable.ErrDamaged] if they do not verify: NewHub sets the file aside then, and
// subscribers have to subscribe again. path is that of the file, below the home.
func Check(home string) (path string, err error) {
	dir, err := durable.LookIn(filepath.Join(home, Dir))
	if err == nil {
		defer dir.Close()
		_, err = sealedIn(dir, subscriptionsName).Read()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return filepath.Join(Dir, subscriptionsName), err
}
