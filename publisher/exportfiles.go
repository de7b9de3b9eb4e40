package publisher

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
	"strings"

	"cutie/queuefs/durable"
	"cutie/sitemap"
	"cutie/wellknown"
)

// The files of the queues are those that the Resource Lists of the sets replica
// name. What is in the directory is told by the list there: it is replaced
// after its files came, and before those go that it names no longer.

// files are what a run does to the files of queues.
type files struct {
	*run
	lists []fileList
	all   bool // files may be there that no list names
}

// A fileList is a Resource List that changes.
type fileList struct {
	old, new *os.File // nil: there is none
}

// files finds the Resource Lists that change. They are opened, because they
// get and lose their names.
func (r *run) files() (*files, error) {
	f := &files{run: r, all: r.old.unfinished || r.old.resources && !r.Resources}
	if !r.Resources {
		return f, nil
	}
	for path, n := range r.nodes {
		if n.changed && isFileListPath(path) {
			if err := f.add(path, n.isFileList()); err != nil {
				f.close()
				return nil, err
			}
		}
	}
	for path := range r.old.docs {
		if r.nodes[path] == nil && isFileListPath(path) {
			if err := f.add(path, false); err != nil {
				f.close()
				return nil, err
			}
		}
	}
	return f, nil
}

func isFileListPath(path string) bool {
	dir, name, _ := strings.Cut(strings.TrimPrefix(path, wellknown.Path+"/"), "/"+Replica.String()+"/")
	doc, ok := parseDocName(name)
	return dir != "" && ok && (doc.kind == resourceList || doc.kind == resourcePage)
}

func (n *node) isFileList() bool { return n.about.isLeaf() && isFileListPath(n.path) }

func (f *files) add(path string, staged bool) (err error) {
	var l fileList
	if _, ok := f.run.old.docs[path]; ok {
		if l.old, err = f.dir.openFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if staged {
		if l.new, err = f.dir.openStaged(path); err != nil {
			return err
		}
	}
	f.lists = append(f.lists, l)
	return nil
}

// openStaged opens what is to be the file of a reference.
func (d *exportDir) openStaged(path string) (*os.File, error) {
	dir, name, err := d.find(filePath(path), false)
	if err != nil {
		return nil, err
	}
	for _, s := range d.staged {
		if s.dir == dir && s.name == name {
			return d.stage.Open(s.tmp)
		}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
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

func (f *files) any() bool { return len(f.lists) > 0 || f.all }

// each calls visit with every file of a queue that a list names.
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
		path, ok := strings.CutPrefix(e.Loc, r.tree)
		if dirs, _, ok2 := splitPath(path); !ok || !ok2 || len(dirs) < 2 || dirs[0] != "queues" {
			continue
		}
		if err := visit(path, &e); err != nil {
			return err
		}
	}
}

// copy gets the files that are new or different.
func (f *files) copy(ctx context.Context) error {
	for _, l := range f.lists {
		err := f.each(l.new, func(path string, e *sitemap.Entry) error {
			if f.there(path, e) {
				return nil
			}
			return f.fetch(ctx, path, e)
		})
		if err != nil {
			return err
		}
	}
	return f.dir.placeFiles()
}

// there reports whether the file is the one that the list means: files get the
// time that lists say.
func (f *files) there(path string, e *sitemap.Entry) bool {
	size, modified, err := f.dir.stat(path)
	return err == nil && size == e.Length && modified.Equal(e.LastMod)
}

// fetch gets a file of a queue. One that is gone or different by now is left
// to the next Run.
func (f *files) fetch(ctx context.Context, path string, e *sitemap.Entry) error {
	resp, err := f.get(ctx, f.source+path, "")
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
	s, err := f.dir.write(path, 0, e.LastMod, false, func(out *os.File) error {
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
		return f.dir.stage.Remove(s.tmp)
	}
	f.dir.files = append(f.dir.files, s)
	f.done.Resources++
	f.done.Octets += e.Length
	if len(f.dir.files) >= fileBatch {
		return f.dir.placeFiles()
	}
	return nil
}

// fileBatch is how many files of queues share one sync of the file system.
const fileBatch = 512

// placeFiles gives the files of queues their names, when their octets are on
// stable storage.
func (d *exportDir) placeFiles() error {
	if len(d.files) == 0 {
		return nil
	}
	if err := d.root.SyncFS(); err != nil {
		return err
	}
	for len(d.files) > 0 {
		s := d.files[0]
		if err := d.stage.Rename(s.tmp, s.dir, s.name); err != nil {
			return err
		}
		d.files = d.files[1:]
	}
	return nil
}

// remove removes the files that are named no longer. A file moves from list to
// list when a list becomes an index, so all new lists are asked.
func (f *files) remove(ctx context.Context) error {
	if len(f.lists) == 0 && !f.all {
		return nil
	}
	if f.all {
		return f.removeUnnamed()
	}
	gone := make(map[string]bool)
	for _, l := range f.lists {
		if err := f.each(l.old, func(path string, _ *sitemap.Entry) error {
			gone[path] = true
			return nil
		}); err != nil {
			return f.removeUnnamed() // it was damaged
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
		if err := f.dir.remove(path); err != nil {
			return err
		}
		f.done.Removed++
	}
	return ctx.Err()
}

// removeUnnamed removes all files below queues that no list names.
func (f *files) removeUnnamed() error {
	named := make(map[string]bool)
	for path, n := range f.nodes {
		if !f.Resources || !n.isFileList() {
			continue
		}
		list, err := f.dir.openFile(path)
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
	root := f.dir.root.Path()
	return f.dir.walk("/queues", func(dir *durable.Dir, name string) error {
		if named[strings.TrimPrefix(dir.Path(), root)+"/"+name] {
			return nil
		}
		f.done.Removed++
		return dir.Remove(name)
	})
}
