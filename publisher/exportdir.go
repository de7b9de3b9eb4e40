package publisher

import (
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

// An exportDir is the directory of an Export, with what is about to be placed.
type exportDir struct {
	root   *durable.Dir
	stage  *durable.Dir            // of files under temporary names; nil while there was none
	open   map[string]*durable.Dir // by path, with those that were made
	staged []staged
	files  []staged // of queues
}

// A staged is a file under a temporary name.
type staged struct {
	tmp  string
	dir  *durable.Dir // where it is to stand
	name string
	rank int
}

// stageName is the directory in which files stand until they are complete.
const stageName = ".cutie-stage"

// staging opens that directory.
func (d *exportDir) staging() (*durable.Dir, error) {
	if d.stage == nil {
		stage, err := d.root.MakeSub(stageName)
		if err != nil {
			return nil, err
		}
		d.stage = stage
	}
	return d.stage, nil
}

func openExportDir(path string, fault durable.Fault) (*exportDir, error) {
	root, err := durable.OpenDir(path, fault)
	if err != nil {
		return nil, err
	}
	return &exportDir{root: root, open: make(map[string]*durable.Dir)}, nil
}

// close removes what was not placed and lets go of the directories.
func (d *exportDir) close() error {
	err := d.discard()
	if d.stage != nil {
		err = errors.Join(err, d.stage.Close(), d.root.RemoveTree(stageName))
	}
	for _, sub := range d.open {
		err = errors.Join(err, sub.Close())
	}
	return errors.Join(err, d.root.Close())
}

// splitPath takes the path of a reference below the base URI apart. It takes
// nothing that would be hidden, or lead elsewhere.
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

// The Source Description is in both: one is told by its name, the other is
// what most web servers look for.
const (
	descriptionFile = "index.xml"
	descriptionPage = "index.html"
)

// filePath is where the file of a reference stands.
func filePath(path string) string {
	if path == wellknown.Path {
		return path + "/" + descriptionFile
	}
	return path
}

// find opens the directory of a path, making it if need be.
func (d *exportDir) find(path string, create bool) (*durable.Dir, string, error) {
	dirs, name, ok := splitPath(path)
	if !ok {
		return nil, "", &fs.PathError{Op: "open", Path: path, Err: errors.New("not a name for a file")}
	}
	at, key := d.root, ""
	for _, s := range dirs {
		key += "/" + s
		sub := d.open[key]
		if sub == nil {
			open := at.Sub
			if create {
				open = at.MakeSub
			}
			var err error
			if sub, err = open(s); err != nil {
				return nil, "", err
			}
			d.open[key] = sub
		}
		at = sub
	}
	return at, name, nil
}

// stat returns size and time of the file of a reference.
func (d *exportDir) stat(path string) (size int64, modified time.Time, err error) {
	dir, name, err := d.find(filePath(path), false)
	if err != nil {
		return 0, modified, err
	}
	st, err := dir.Stat(name)
	if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	return st.Size, time.Unix(st.Mtim.Unix()), err
}

// openFile opens the file of a reference.
func (d *exportDir) openFile(path string) (*os.File, error) {
	dir, name, err := d.find(filePath(path), false)
	if err != nil {
		return nil, err
	}
	return dir.Open(name)
}

// write writes the file of a reference under a temporary name, with the time
// that a web server is to tell, if it is known. sync puts its octets on stable
// storage.
func (d *exportDir) write(path string, rank int, modified time.Time, sync bool, write func(*os.File) error) (staged, error) {
	dir, name, err := d.find(filePath(path), true)
	if err != nil {
		return staged{}, err
	}
	stage, err := d.staging()
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
	return staged{tmp, dir, name, rank}, nil
}

// pending reports whether there is anything to place.
func (d *exportDir) pending() bool { return len(d.staged) > 0 }

// place gives the staged files their names, those that others name first: what
// is of one rank is on stable storage before the next follows.
func (d *exportDir) place() error {
	slices.SortStableFunc(d.staged, func(a, b staged) int { return a.rank - b.rank })
	for len(d.staged) > 0 {
		rank := d.staged[0].rank
		var dirs []*durable.Dir
		for len(d.staged) > 0 && d.staged[0].rank == rank {
			s := d.staged[0]
			if err := d.stage.Rename(s.tmp, s.dir, s.name); err != nil {
				return err
			}
			d.staged = d.staged[1:]
			if rank == rankRoot {
				if err := d.page(s.dir); err != nil {
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

// page makes index.html the same file as index.xml.
func (d *exportDir) page(dir *durable.Dir) error {
	tmp, err := dir.LinkTemp(descriptionFile, d.stage)
	if err != nil {
		return err
	}
	return d.stage.Rename(tmp, dir, descriptionPage)
}

// discard removes what is staged.
func (d *exportDir) discard() error {
	var err error
	for _, s := range slices.Concat(d.staged, d.files) {
		err = errors.Join(err, ignoreAbsent(d.stage.Remove(s.tmp)))
	}
	d.staged, d.files = nil, nil
	return err
}

// remove removes the file of a reference.
func (d *exportDir) remove(path string) error {
	dir, name, err := d.find(filePath(path), false)
	if err == nil {
		err = dir.Remove(name)
	}
	return ignoreAbsent(err)
}

// walk visits all files below a path, which need not be there. They may be
// removed on the way.
func (d *exportDir) walk(path string, visit func(dir *durable.Dir, name string) error) error {
	dir, name, err := d.find(path, false)
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
