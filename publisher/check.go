package publisher

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// Dir is the directory of everything published in a home.
const Dir = names.RootName

// Check reads all files published of the home in dir, which nobody else may have open, with
// the digests that the home has of them: lists, packages, Resource Dumps, settings and the
// cursor. It changes nothing. New makes damaged files again, or sets them aside.
func Check(dir string) (problems []queuefs.Problem) {
	bad := func(path string, err error) {
		text := strings.TrimPrefix(durable.Bare(err).Error(), filepath.Join(dir, path))
		text = strings.TrimLeft(text, ": ")
		gone := errors.Is(err, fs.ErrNotExist)
		if gone {
			text = "is missing"
		}
		problems = append(problems, durable.Damage(path, text, !gone && (!store.Unusable(err) || errors.Is(err, fs.ErrPermission))))
	}
	stamp := ""
	if o, err := Published(dir); err == nil && o.BaseURI != "" { // else Check says what is wrong
		if c, err := o.Complete(); err == nil {
			stamp = c.Stamp()
		}
	}
	store.Check(dir, stamp, func(queue string) bool {
		st, err := os.Lstat(filepath.Join(dir, home.QueuesDir, queue))
		return err == nil && st.IsDir()
	}, bad)
	return problems
}
