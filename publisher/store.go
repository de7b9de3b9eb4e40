package publisher

import (
	"errors"
	"io"
	"io/fs"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

const rootName = "resourcesync"

// A store is the directory resourcesync of a home. Somebody may remove or
// replace it while readers have files in it open.
type store struct {
	home  string
	fault durable.Fault
	roots atomic.Pointer[root]

	mu sync.Mutex // held to change roots
}

// A root is one directory that was resourcesync.
type root struct {
	*durable.Dir
	dev, ino uint64
	older    *root // used before
}

// openStore opens resourcesync in a home, or makes it, and removes unfinished
// files.
func openStore(home string, fault durable.Fault) (*store, error) {
	dir, err := durable.OpenDir(home, fault)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	r, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := r.Sweep(nil); err != nil {
		r.Close()
		return nil, err
	}
	s := &store{home: home, fault: fault}
	s.roots.Store(r)
	return s, nil
}

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

// root returns the directory.
func (s *store) root() *durable.Dir { return s.roots.Load().Dir }

// revive makes root the directory now in the home, and reports whether that is
// another one. The former one stays open for its readers.
func (s *store) revive() (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	home, err := durable.OpenDir(s.home, s.fault)
	if err != nil {
		return false, err
	}
	defer home.Close()
	now := s.roots.Load()
	st, err := home.Stat(rootName)
	switch {
	case err == nil && now.dev == uint64(st.Dev) && now.ino == st.Ino:
		return false, nil
	case err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFDIR:
		_, err = setAside(home, rootName)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return false, err
	}
	r, err := openRoot(home)
	if err != nil {
		return false, err
	}
	r.older = now
	s.roots.Store(r)
	return true, nil
}

// close closes the directory and those before it.
func (s *store) close() error {
	var err error
	for r := s.roots.Load(); r != nil; r = r.older {
		err = errors.Join(err, r.Close())
	}
	return err
}

// setAside moves an entry to a free name beside it, and returns that name. It
// has a dot, and no queue or set has one.
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

// A staged is a file under a temporary name, until it is complete and on stable
// storage.
type staged struct {
	root *durable.Dir
	name string // "" once it is in place
	io.WriteCloser
	sync func() error
}

func (s *store) stage() (*staged, error) {
	root := s.root()
	f, name, err := root.Temp()
	if err != nil {
		return nil, err
	}
	return &staged{root: root, name: name, WriteCloser: f, sync: func() error { return root.SyncFile(f) }}, nil
}

// commit gives the file its name in a directory, over an older one.
func (d *staged) commit(to *durable.Dir, name string) error {
	if err := d.sync(); err != nil {
		return err
	}
	if err := d.root.Rename(d.name, to, name); err != nil {
		return err
	}
	d.name = ""
	return to.Sync()
}

// discard closes the file, and removes it unless it is in place. A file that
// cannot be removed goes when the home is opened next.
func (d *staged) discard() {
	d.Close()
	if d.name != "" {
		d.root.Remove(d.name)
	}
}

// sealed returns a small state file. Files of former versions have no seal.
func sealed(d *durable.Dir, name, kind string) durable.Sealed {
	return durable.Sealed{Dir: d, Name: name, Kind: kind, Max: 256 << 20, Old: func(file []byte) ([]byte, error) { return file, nil }}
}

// A damage is an error about files with other contents than were written.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// unusable reports whether the error is about files that are gone or damaged
// and stay so. Other errors of storage may pass.
func unusable(err error) bool {
	if errors.Is(err, queuefs.ErrFailed) || errors.Is(err, queuefs.ErrClosed) {
		return false
	}
	var d damage
	if errors.As(err, &d) {
		return true
	}
	for _, e := range []error{durable.ErrDamaged, fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP, syscall.ENXIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
