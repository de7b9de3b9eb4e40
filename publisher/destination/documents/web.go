package documents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"cutie/queuefs/durable"
	"cutie/queuefs/objects"
	"cutie/wellknown"
)

// A Web serves files to the world under names, as a bucket does.
type Web interface {
	// Publish makes or replaces a file, read from its offset on. mediaType and cacheControl
	// are fields of the answers with it. The error is [objects.ErrPrefix] if the name begins
	// others, and that cannot be.
	Publish(ctx context.Context, name string, file *os.File, mediaType, cacheControl string) error

	// Delete removes a file. If there is none, that is no error.
	Delete(ctx context.Context, name string) error

	// List returns up to most names with a prefix, in order, of those after a name.
	List(ctx context.Context, prefix, after string, most int) ([]string, error)
}

// published are the beginnings of our names in a [Web].
var published = []string{strings.TrimPrefix(wellknown.Path, "/") + "/", "queues/"}

const perList = 1000

// name returns the name of a file of the directory, in it and in the Web.
func (t *tree) name(dir *durable.Dir, file string) string {
	return strings.TrimPrefix(strings.TrimPrefix(dir.Path()+"/"+file, t.root.Path()), "/")
}

// show copies a file to the Web, before it gets its name in the directory: so a file
// called done by the state is there, too.
func (t *tree) show(ctx context.Context, name string, from *durable.Dir, file string, final bool) error {
	if t.web == nil {
		return nil
	}
	f, err := from.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	cache := "no-cache"
	if final {
		cache = "max-age=31536000, immutable"
	}
	names := []string{name}
	if dir, base := path.Split(name); base == descriptionFile && "/"+dir == wellknown.Path+"/" {
		names = []string{name, dir + descriptionPage, strings.TrimSuffix(dir, "/")}
	}
	for _, as := range names {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		err := t.web.Publish(ctx, as, f, mediaType(name), cache)
		if as+"/"+descriptionFile == name && errors.Is(err, objects.ErrPrefix) {
			continue // then the page stands for the directory
		}
		if err != nil {
			return fmt.Errorf("publish %s: %w", as, err)
		}
	}
	return nil
}

// hide removes a file from the Web, before the directory loses it.
func (t *tree) hide(ctx context.Context, name string) error {
	if t.web == nil {
		return nil
	}
	if err := t.web.Delete(ctx, name); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// tidy removes files of the Web that the directory lacks. A run that has ended leaves none.
func (t *tree) tidy(ctx context.Context) error {
	if t.web == nil {
		return nil
	}
	for _, prefix := range published {
		for after := ""; ; {
			names, err := t.web.List(ctx, prefix, after, perList)
			if err != nil {
				return err
			}
			for _, name := range names {
				if there, err := t.has(name); err != nil {
					return err
				} else if there {
					continue
				}
				if err := t.hide(ctx, name); err != nil {
					return err
				}
			}
			if len(names) < perList {
				break
			}
			after = names[len(names)-1]
		}
	}
	return nil
}

// has reports whether the directory has a file of a name.
func (t *tree) has(name string) (bool, error) {
	at, err := t.root, error(nil)
	dirs := strings.Split(name, "/")
	for i, s := range dirs[:len(dirs)-1] {
		if s == "" || s == "." || s == ".." {
			return false, nil
		}
		sub, e := at.Sub(s)
		if i > 0 {
			err = at.Close()
		}
		if errors.Is(e, fs.ErrNotExist) {
			return false, err
		}
		if err = errors.Join(err, e); err != nil {
			return false, err
		}
		at = sub
	}
	_, err = at.Stat(dirs[len(dirs)-1])
	if at != t.root {
		err = errors.Join(err, at.Close())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// mediaType is the media type of a file by its name. No browser runs payloads: strangers
// made them, and browsers may trust the place.
func mediaType(name string) string {
	parts := strings.Split(name, "/")
	switch ext := path.Ext(name); {
	case parts[0] == "queues" && len(parts) == 4 && (parts[2] == "pending" || parts[2] == "consumed" || parts[2] == "deleted"),
		parts[0] == "queues" && len(parts) == 3,
		name == strings.TrimPrefix(robotsPath, "/"):
		return "text/plain; charset=utf-8"
	case parts[0] == "queues":
		return "application/octet-stream"
	case ext == ".zip":
		return "application/zip"
	case ext == ".html":
		return "text/html; charset=utf-8"
	case ext == ".json":
		return "application/json"
	}
	return "application/xml"
}
