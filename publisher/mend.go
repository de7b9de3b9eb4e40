package publisher

import (
	"errors"
	"io/fs"
	"strconv"
	"syscall"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// What stands below resourcesync is derived: whatever becomes of it, the queue
// goes on. Files of a set that cannot be used are set aside, and the set
// begins anew with a list from now on. An error of the storage is none of
// that: it is returned, the engine keeps its events, and the same is tried
// again.

// A damage is an error about files that are not what was written.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// unusable reports whether the error is about files that are gone, or not what
// was written, and will not be better the next time.
func unusable(err error) bool {
	if errors.Is(err, queuefs.ErrFailed) || errors.Is(err, queuefs.ErrClosed) {
		return false
	}
	var d damage
	if errors.As(err, &d) {
		return true
	}
	for _, e := range []error{fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP, syscall.ENXIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// mend begins a set anew if the error says that its files are unusable; any
// other error is returned. f.mu is held.
func (f *feed) mend(c *changes, err error) error {
	if err == nil || !unusable(err) {
		return err
	}
	return f.restart(c, err)
}

// restart sets everything of a set aside and begins anew after the last event.
// f.mu is held.
func (f *feed) restart(c *changes, cause error) error {
	aside := ""
	err := f.p.revive()
	if err == nil {
		aside, err = f.setAside(c.set)
	}
	if err != nil {
		return errors.Join(cause, err)
	}
	f.p.report(f.q.ID()+"/"+c.set.String(), "%v; moved to %s, a new Change List begins", cause, aside)
	*c = changes{set: c.set, mark: f.now(), life: c.life + 1,
		lists: spans{file: c.lists.file}, packages: spans{file: c.packages.file}}
	c.dumped = c.mark.seq
	return nil
}

// setAside moves the directory of a set, or what stands where it or that of
// the queue should be, and returns where to.
func (f *feed) setAside(s Set) (string, error) {
	root := f.p.root()
	q, err := root.Sub(f.q.ID())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "nowhere", nil
	case err != nil && unusable(err):
		return setAside(root, f.q.ID())
	case err != nil:
		return "", err
	}
	defer q.Close()
	aside, err := setAside(q, s.String())
	if errors.Is(err, fs.ErrNotExist) {
		return "nowhere", nil
	}
	return f.q.ID() + "/" + aside, err
}

// setAside moves an entry to a free name beside it, which it returns. Nothing
// that cannot be used is ever removed. The name has a dot, as no queue or set
// has.
func setAside(d *durable.Dir, name string) (string, error) {
	for i := 1; ; i++ {
		aside := name + "." + strconv.Itoa(i)
		_, err := d.Stat(aside)
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := d.Rename(name, d, aside); err != nil {
			return "", err
		}
		return aside, d.Sync()
	}
}

const rootName = "resourcesync"

// root returns the directory that everything stands in.
func (p *Publisher) root() *durable.Dir { return p.roots.Load().Dir }

// A root is a directory resourcesync.
type root struct {
	*durable.Dir
	dev, ino uint64
	older    *root // used before it was gone from the home
}

// openRoot makes or opens resourcesync in the home.
func openRoot(home *durable.Dir) (*root, error) {
	d, err := home.MakeSub(rootName)
	if err != nil {
		return nil, err
	}
	st, err := home.Stat(rootName)
	if err != nil {
		d.Close()
		return nil, err
	}
	return &root{Dir: d, dev: uint64(st.Dev), ino: st.Ino}, nil
}

// revive sees to it that root is the directory in the home, if somebody has
// removed or replaced that. The former one stays open, since there may be
// readers.
func (p *Publisher) revive() error {
	p.reviving.Lock()
	defer p.reviving.Unlock()
	home, err := durable.OpenDir(p.svc.dir, p.Fault)
	if err != nil {
		return err
	}
	defer home.Close()
	now := p.roots.Load()
	st, err := home.Stat(rootName)
	switch {
	case err == nil && now.dev == uint64(st.Dev) && now.ino == st.Ino:
		return nil
	case err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFDIR:
		_, err = setAside(home, rootName)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	r, err := openRoot(home)
	if err != nil {
		return err
	}
	r.older = now
	p.roots.Store(r)
	return p.remember()
}

// close lets go of the directory and those before it.
func (r *root) close() error {
	var err error
	for ; r != nil; r = r.older {
		err = errors.Join(err, r.Close())
	}
	return err
}
