package documents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strings"

	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// The files of queues are those in the Resource Lists of the sets replica. The
// lists in the directory say which files it has: a list is replaced after its
// files were added, and before files it no longer names are removed.

// files are the changes of a run to files of queues.
type files struct {
	*run
	lists []fileList
	all   bool // the directory may have files no list names
}

// A fileList is a changed Resource List; old or new is nil if there is none.
type fileList struct{ old, new *os.File }

// files opens the changed Resource Lists, before they get and lose their names.
func (r *run) files() (*files, error) {
	f := &files{run: r, all: r.old.unfinished || r.old.resources && !r.Resources}
	if !r.Resources {
		return f, nil
	}
	for path, n := range r.nodes {
		if n.changed && fileLists.MatchString(path) {
			if err := f.add(path, n.isFileList()); err != nil {
				f.close()
				return nil, err
			}
		}
	}
	for path := range r.old.docs {
		if r.nodes[path] == nil && fileLists.MatchString(path) {
			if err := f.add(path, false); err != nil {
				f.close()
				return nil, err
			}
		}
	}
	return f, nil
}

// fileLists matches current Resource Lists, not former ones.
var fileLists = regexp.MustCompile(`^/\.well-known/resourcesync/[^/]+/replica/resourcelist(-[0-9]{6,11})?\.xml$`)

func (n *node) isFileList() bool { return n.about.isLeaf() && fileLists.MatchString(n.path) }

func (f *files) add(path string, staged bool) (err error) {
	var l fileList
	if _, ok := f.run.old.docs[path]; ok {
		if l.old, err = f.tree.openFile(path, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if staged {
		if l.new, err = f.tree.openFile(path, true); err != nil {
			return err
		}
	}
	f.lists = append(f.lists, l)
	return nil
}

func (f *files) close() {
	for _, l := range f.lists {
		if l.old != nil {
			l.old.Close()
		}
		if l.new != nil {
			l.new.Close()
		}
	}
}

// each calls visit with every file of a queue in a list; the list may be nil.
func (r *run) each(list *os.File, visit func(path string, e *sitemap.Entry) error) error {
	if list == nil {
		return nil
	}
	if _, err := list.Seek(0, io.SeekStart); err != nil {
		return err
	}
	rd := sitemap.NewReader(list)
	for {
		e, err := rd.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", list.Name(), err)
		}
		path, ok := strings.CutPrefix(e.Loc, r.target)
		if dirs, _, ok2 := splitPath(path); !ok || !ok2 || len(dirs) < 2 || dirs[0] != "queues" {
			continue
		}
		if err := visit(path, &e); err != nil {
			return err
		}
	}
}

// copy gets new and changed files. A file in place has the time its list says.
func (f *files) copy(ctx context.Context) error {
	for _, l := range f.lists {
		err := f.each(l.new, func(path string, e *sitemap.Entry) error {
			size, modified, err := f.tree.stat(path)
			if err == nil && size == e.Length && modified.Equal(e.LastMod) {
				return f.showAgain(ctx, path)
			}
			return f.fetch(ctx, path, e)
		})
		if err != nil {
			return err
		}
	}
	return f.tree.placeFiles(ctx)
}

// showAgain copies a file to the Web if that is another one than before.
func (f *files) showAgain(ctx context.Context, path string) error {
	if !f.anew {
		return nil
	}
	dir, name, err := f.tree.find(path, false)
	if err != nil {
		return err
	}
	return f.tree.show(ctx, f.tree.name(dir, name), dir, name, false)
}

// fetch gets a file of a queue. A file gone or changed by now is left to the
// next run.
func (f *files) fetch(ctx context.Context, path string, e *sitemap.Entry) error {
	resp, err := f.get(ctx, path, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		f.done.Moved++
		return nil
	default:
		return fmt.Errorf("%s: %s", resp.Request.URL, resp.Status)
	}
	same := true
	s, err := f.tree.write(path, 0, e.LastMod, false, func(out *os.File) error {
		sum := sha256.New()
		in := io.Reader(resp.Body)
		if e.Length >= 0 {
			in = io.LimitReader(in, e.Length+1)
		}
		n, err := io.Copy(io.MultiWriter(out, sum), in)
		want := sumOf(e.Hashes)
		same = (e.Length < 0 || n == e.Length) && (want == "-" || want == hex.EncodeToString(sum.Sum(nil)))
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", resp.Request.URL, err)
	}
	if !same {
		f.done.Moved++
		return f.tree.stage.Remove(s.tmp)
	}
	f.tree.files = append(f.tree.files, s)
	f.done.Resources++
	f.done.Octets += e.Length
	if len(f.tree.files) >= fileBatch {
		return f.tree.placeFiles(ctx)
	}
	return nil
}

// fileBatch is how many files of queues share one sync of the file system.
const fileBatch = 512

// remove removes files no longer named. A file moves between lists when a list
// becomes an index, so a file in any new list stays.
func (f *files) remove(ctx context.Context) error {
	if f.all {
		return f.removeUnnamed(ctx)
	}
	gone := make(map[string]bool)
	for _, l := range f.lists {
		if err := f.each(l.old, func(path string, _ *sitemap.Entry) error {
			gone[path] = true
			return nil
		}); err != nil {
			return f.removeUnnamed(ctx) // the list was damaged
		}
	}
	for _, l := range f.lists {
		if err := f.each(l.new, func(path string, _ *sitemap.Entry) error {
			delete(gone, path)
			return nil
		}); err != nil {
			return err
		}
	}
	for path := range gone {
		if err := f.tree.remove(ctx, path); err != nil {
			return err
		}
		f.done.Removed++
	}
	return ctx.Err()
}

// removeUnnamed removes all files below queues not in any list.
func (f *files) removeUnnamed(ctx context.Context) error {
	named := make(map[string]bool)
	for path, n := range f.nodes {
		if !f.Resources || !n.isFileList() {
			continue
		}
		list, err := f.tree.openFile(path, false)
		if err != nil {
			return err
		}
		err = f.each(list, func(path string, _ *sitemap.Entry) error {
			dirs, name, _ := splitPath(path)
			named["/"+strings.Join(append(dirs, name), "/")] = true
			return nil
		})
		if err = errors.Join(err, list.Close()); err != nil {
			return err
		}
	}
	root := f.tree.root.Path()
	return f.tree.walk("/queues", func(dir *durable.Dir, name string) error {
		if named[strings.TrimPrefix(dir.Path(), root)+"/"+name] {
			return nil
		}
		f.done.Removed++
		if err := f.tree.hide(ctx, f.tree.name(dir, name)); err != nil {
			return err
		}
		return dir.Remove(name)
	})
}
