package documents

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"cutie/queuefs/durable"
	"cutie/wellknown"
)

// A tree is the directory of a [Mirror] with the files to be placed in it.
type tree struct {
	root   *durable.Dir
	web    Web                     // nil: there is none
	fresh  bool                    // there is neither a state nor anything exported
	stage  *durable.Dir            // holds files under temporary names; nil before the first
	open   map[string]*durable.Dir // by path
	staged []staged                // documents
	files  []staged                // files of queues
}

// A staged is a file under a temporary name.
type staged struct {
	tmp   string
	dir   *durable.Dir // of its final place
	name  string
	rank  int
	final bool // it never changes
}

// stageName is the directory for files under temporary names.
const stageName = ".cutie-stage"

func openTree(path string, fault durable.Fault) (*tree, error) {
	root, err := durable.OpenShared(path, fault)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, open: make(map[string]*durable.Dir)}, nil
}

// staging opens the directory for temporary names.
func (t *tree) staging() (_ *durable.Dir, err error) {
	if t.stage == nil {
		t.stage, err = t.root.MakeSub(stageName)
	}
	return t.stage, err
}

// close removes staged files and closes all directories.
func (t *tree) close() error {
	err := t.discard()
	if t.stage != nil {
		err = errors.Join(err, t.stage.Close(), t.root.RemoveTree(stageName))
	}
	for _, sub := range t.open {
		err = errors.Join(err, sub.Close())
	}
	return errors.Join(err, t.root.Close())
}

// splitPath splits the path of a reference below the base URI. It refuses
// hidden names and names leading out of the tree.
func splitPath(path string) (dirs []string, name string, ok bool) {
	path, ok = strings.CutPrefix(path, "/")
	if !ok || strings.ContainsAny(path, " ?#") {
		return nil, "", false
	}
	for i, s := range strings.Split(path, "/") {
		s, err := url.PathUnescape(s)
		wellKnown := i == 0 && s == ".well-known"
		if err != nil || s == "" || s[0] == '.' && !wellKnown || strings.HasPrefix(s, durable.TempPrefix) ||
			len(s) > 255 || strings.ContainsFunc(s, func(c rune) bool { return c == '/' || c < ' ' || c == 0x7f }) {
			return nil, "", false
		}
		dirs = append(dirs, s)
	}
	return dirs[:len(dirs)-1], dirs[len(dirs)-1], true
}

// Names of the Source Description: most web servers serve the second one for
// the directory.
const (
	descriptionFile = "index.xml"
	descriptionPage = "index.html"
)

// filePath returns the path of the file for a reference.
func filePath(path string) string {
	if path == wellknown.Path {
		return path + "/" + descriptionFile
	}
	return path
}

// find opens the directory of a path; create makes it.
func (t *tree) find(path string, create bool) (*durable.Dir, string, error) {
	dirs, name, ok := splitPath(path)
	if !ok {
		return nil, "", &fs.PathError{Op: "open", Path: path, Err: errors.New("not a name for a file")}
	}
	at, key := t.root, ""
	for _, s := range dirs {
		key += "/" + s
		sub := t.open[key]
		if sub == nil {
			open := at.Sub
			if create {
				open = at.MakeSub
			}
			var err error
			if sub, err = open(s); err != nil {
				return nil, "", err
			}
			t.open[key] = sub
		}
		at = sub
	}
	return at, name, nil
}

// stat returns size and time of the file for a reference.
func (t *tree) stat(path string) (size int64, modified time.Time, err error) {
	dir, name, err := t.find(filePath(path), false)
	if err != nil {
		return 0, modified, err
	}
	st, err := dir.Stat(name)
	if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	return st.Size, time.Unix(st.Mtim.Unix()), err
}

// openFile opens the file for a reference; staged is the one to be placed.
func (t *tree) openFile(path string, staged bool) (*os.File, error) {
	dir, name, err := t.find(filePath(path), false)
	if err != nil || !staged {
		if err == nil {
			return dir.Open(name)
		}
		return nil, err
	}
	for _, s := range t.staged {
		if s.dir == dir && s.name == name {
			return t.stage.Open(s.tmp)
		}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// write stages the file for a reference, with the modification time a web
// server is to send, zero if unknown. sync puts its bytes on stable storage.
func (t *tree) write(path string, rank int, modified time.Time, sync bool, write func(*os.File) error) (staged, error) {
	if err := t.own(); err != nil {
		return staged{}, err
	}
	dir, name, err := t.find(filePath(path), true)
	if err != nil {
		return staged{}, err
	}
	stage, err := t.staging()
	if err != nil {
		return staged{}, err
	}
	f, tmp, err := stage.Temp()
	if err != nil {
		return staged{}, err
	}
	defer f.Close()
	if err = write(f); err == nil && !modified.IsZero() {
		err = os.Chtimes(f.Name(), modified, modified)
	}
	if err == nil && sync {
		err = stage.SyncFile(f)
	}
	if err != nil {
		return staged{}, errors.Join(err, stage.Remove(tmp))
	}
	return staged{tmp: tmp, dir: dir, name: name, rank: rank}, nil
}

// place renames the staged documents, rank by rank. Each rank is on stable
// storage before the next follows.
func (t *tree) place(ctx context.Context) error {
	slices.SortStableFunc(t.staged, func(a, b staged) int { return a.rank - b.rank })
	for len(t.staged) > 0 {
		rank := t.staged[0].rank
		var dirs []*durable.Dir
		for len(t.staged) > 0 && t.staged[0].rank == rank {
			s := t.staged[0]
			if err := t.show(ctx, t.name(s.dir, s.name), t.stage, s.tmp, s.final); err != nil {
				return err
			}
			if err := t.stage.Rename(s.tmp, s.dir, s.name); err != nil {
				return err
			}
			t.staged = t.staged[1:]
			if rank == rankRoot {
				if err := t.placePage(s.dir); err != nil {
					return err
				}
			}
			if !slices.Contains(dirs, s.dir) {
				dirs = append(dirs, s.dir)
			}
		}
		for _, dir := range dirs {
			if err := dir.Sync(); err != nil {
				return err
			}
		}
	}
	return nil
}

// placePage makes index.html the same file as index.xml.
func (t *tree) placePage(dir *durable.Dir) error {
	tmp, err := dir.LinkTemp(descriptionFile, t.stage)
	if err != nil {
		return err
	}
	return t.stage.Rename(tmp, dir, descriptionPage)
}

// placeFiles renames the staged files of queues after one sync of the file
// system.
func (t *tree) placeFiles(ctx context.Context) error {
	if len(t.files) == 0 {
		return nil
	}
	if err := t.root.SyncFS(); err != nil {
		return err
	}
	for len(t.files) > 0 {
		s := t.files[0]
		if err := t.show(ctx, t.name(s.dir, s.name), t.stage, s.tmp, false); err != nil {
			return err
		}
		if err := t.stage.Rename(s.tmp, s.dir, s.name); err != nil {
			return err
		}
		t.files = t.files[1:]
	}
	return nil
}

// discard removes all staged files.
func (t *tree) discard() error {
	var err error
	for _, s := range slices.Concat(t.staged, t.files) {
		err = errors.Join(err, ignoreAbsent(t.stage.Remove(s.tmp)))
	}
	t.staged, t.files = nil, nil
	return err
}

// remove removes the file for a reference.
func (t *tree) remove(ctx context.Context, path string) error {
	dir, name, err := t.find(filePath(path), false)
	if err == nil {
		err = t.hide(ctx, t.name(dir, name))
	}
	if err == nil {
		err = dir.Remove(name)
	}
	return ignoreAbsent(err)
}

// walk visits all files below a path, which may be absent. visit may remove
// the file.
func (t *tree) walk(path string, visit func(dir *durable.Dir, name string) error) error {
	dir, name, err := t.find(path, false)
	if err != nil {
		return ignoreAbsent(err)
	}
	top, err := dir.Sub(name)
	if err != nil {
		return ignoreAbsent(err)
	}
	defer top.Close()
	return walk(top, visit)
}

func walk(dir *durable.Dir, visit func(dir *durable.Dir, name string) error) error {
	var names []string
	if err := dir.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	for _, name := range names {
		st, err := dir.Stat(name)
		switch {
		case err != nil:
		case st.Mode&syscall.S_IFMT == syscall.S_IFDIR:
			var sub *durable.Dir
			if sub, err = dir.Sub(name); err == nil {
				err = errors.Join(walk(sub, visit), sub.Close())
			}
		default:
			err = visit(dir, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
