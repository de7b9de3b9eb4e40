package publisher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

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

// show copies a file to the Web, before it gets its name in the directory: so a file that
// the state calls complete is there, too.
func (r *exportRun) show(ctx context.Context, f Exported, name string) error {
	if r.Web == nil {
		return nil
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	cache := "no-cache"
	if f.Final {
		cache = "max-age=31536000, immutable"
	}
	media := f.Type
	if media == "" {
		media = fileType(f.Path)
	}
	names := []string{f.Path}
	description := strings.Trim(wellknown.Path, "/")
	if f.Path == description+descriptionFile {
		names = append(names, description)
	}
	for _, name := range names {
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return err
		}
		err := r.Web.Publish(ctx, name, in, media, cache)
		if name == description && errors.Is(err, objects.ErrPrefix) {
			continue // then index.html stands for the directory
		}
		if err != nil {
			return fmt.Errorf("publish %s: %w", name, err)
		}
	}
	return nil
}

// fileType is the media type of a file of a queue. No browser runs payloads: strangers made
// them, and browsers may trust the place.
func fileType(name string) string {
	parts := strings.Split(name, "/")
	if len(parts) == 3 || len(parts) == 4 && (parts[2] == "pending" || parts[2] == "consumed" || parts[2] == "deleted") {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// hide removes a file from the Web, before the directory loses it.
func (r *exportRun) hide(ctx context.Context, path string) error {
	if r.Web == nil {
		return nil
	}
	if err := r.Web.Delete(ctx, path); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// tidy removes files of the Web that the directory lacks. A run that has ended leaves none.
func (r *exportRun) tidy(ctx context.Context) error {
	const most = 1000
	for _, prefix := range []string{strings.Trim(wellknown.Path, "/") + "/", filesOfQueues + "/"} {
		for after := ""; ; {
			names, err := r.Web.List(ctx, prefix, after, most)
			if err != nil {
				return err
			}
			for _, name := range names {
				if path.Clean("/"+name) == "/"+name {
					if _, err := os.Lstat(r.file(name)); err == nil {
						continue
					} else if !errors.Is(err, fs.ErrNotExist) {
						return err
					}
				}
				if err := r.hide(ctx, name); err != nil {
					return err
				}
			}
			if len(names) < most {
				break
			}
			after = names[len(names)-1]
		}
	}
	return nil
}
