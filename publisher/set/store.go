package set

import (
	"errors"
	"fmt"
	"io/fs"

	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"cutie/publisher/names"
	"cutie/queuefs/durable"
	"cutie/queuefs/ledger"
)

// StoreOptions are those of a store.
type StoreOptions struct {
	Stamp    string                               // in the first line of files
	Settings []byte                               // contents of the file of settings
	Check    func(settings []byte) error          // of another one in its place
	Report   func(path, text string, args ...any) // called with damage
	Fault    durable.Fault                        // for tests
}

// A Store is the directory resourcesync of a home. Somebody may remove or
// replace it while readers have files in it open. It is safe for concurrent use.
type Store struct {
	StoreOptions
	Verified durable.Verified // closed lists and packages
	home     string
	roots    atomic.Pointer[root]

	mu sync.Mutex // held to change roots
}

// A root is a directory with the name resourcesync, now or before.
type root struct {
	*durable.Dir
	dev, ino uint64
	older    *root // used before
}

// OpenStore opens resourcesync in a home, or makes it. It removes unfinished files,
// and writes the settings.
func OpenStore(home string, o StoreOptions) (*Store, error) {
	dir, err := durable.OpenDir(home, o.Fault)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	r, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{StoreOptions: o, home: home}
	s.roots.Store(r)
	if err := r.Sweep(nil); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if err := s.remember(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return s, nil
}

func openRoot(home *durable.Dir) (*root, error) {
	d, err := home.MakeSub(names.RootName)
	if err != nil {
		return nil, err
	}
	st, err := home.Stat(names.RootName)
	if err != nil {
		d.Close()
		return nil, err
	}
	return &root{Dir: d, dev: uint64(st.Dev), ino: st.Ino}, nil
}

// Clear moves resourcesync to a free name beside it in the home, and returns the
// new name, "" without a directory.
func Clear(home string, fault durable.Fault) (aside string, err error) {
	dir, err := durable.OpenDir(home, fault)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	aside, err = SetAside(dir, names.RootName)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return aside, err
}

// Root returns the directory.
func (s *Store) Root() *durable.Dir { return s.roots.Load().Dir }

// Revive makes the directory now in the home the root. The former one stays open
// for its readers.
func (s *Store) Revive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	home, err := durable.OpenDir(s.home, s.Fault)
	if err != nil {
		return err
	}
	defer home.Close()
	now := s.roots.Load()
	st, err := home.Stat(names.RootName)
	switch {
	case err == nil && now.dev == uint64(st.Dev) && now.ino == st.Ino:
		return nil
	case err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFDIR:
		_, err = SetAside(home, names.RootName)
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
	s.roots.Store(r)
	return s.remember()
}

// Close closes the directory and all former ones.
func (s *Store) Close() error {
	var err error
	for r := s.roots.Load(); r != nil; r = r.older {
		err = errors.Join(err, r.Close())
	}
	return err
}

// Dir opens the directory of a set of a queue.
func (s *Store) Dir(queue, set string) (*durable.Dir, error) {
	return s.dir((*durable.Dir).Sub, queue, set)
}

// MakeDir opens the directory of a set, and makes it if it is absent, unsynced: a
// checkpoint syncs the file system, and [Store.SyncDirs] comes before a first line.
func (s *Store) MakeDir(queue, set string) (*durable.Dir, error) {
	d, err := s.Dir(queue, set)
	if errors.Is(err, fs.ErrNotExist) {
		return s.dir((*durable.Dir).AddSub, queue, set)
	}
	return d, err
}

func (s *Store) dir(sub func(*durable.Dir, string) (*durable.Dir, error), queue, set string) (*durable.Dir, error) {
	q, err := sub(s.Root(), queue)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	return sub(q, set)
}

// SyncDirs syncs the directories above a set. A failed sync is
// [ledger.ErrFailed].
func (s *Store) SyncDirs(queue string) error {
	root := s.Root()
	q, err := root.Sub(queue)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := errors.Join(q.Sync(), root.Sync()); err != nil {
		return errors.Join(ledger.ErrFailed, err)
	}
	return nil
}

// SetAside moves the directory of a set, or anything in its place, and returns
// where to.
func (s *Store) SetAside(queue, set string) (string, error) {
	if err := s.Revive(); err != nil {
		return "", err
	}
	root := s.Root()
	q, err := root.Sub(queue)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "nowhere", nil
	case err != nil && Unusable(err):
		return SetAside(root, queue)
	case err != nil:
		return "", err
	}
	defer q.Close()
	aside, err := SetAside(q, set)
	if errors.Is(err, fs.ErrNotExist) {
		return "nowhere", nil
	}
	return queue + "/" + aside, err
}

// SetAside moves an entry to a free name beside it, and returns the new name. It
// has a dot, and no queue or set has one.
func SetAside(d *durable.Dir, name string) (string, error) {
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

// maxFile bounds the bytes of a file of lines.
const maxFile = 256 << 20

// sealed returns a small state file.
func sealed(d *durable.Dir, name, kind string) durable.Sealed {
	return durable.Sealed{Dir: d, Name: name, Kind: kind, Max: maxFile}
}

// Damage is an error about files with other contents than were written.
type Damage struct{ Err error }

func (d Damage) Error() string { return d.Err.Error() }

// Unwrap returns the error.
func (d Damage) Unwrap() error { return d.Err }

// Absent reports whether the error is about a file that is not there.
func Absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Unusable reports whether the error is about files gone or damaged for good.
// Other errors of storage may pass.
func Unusable(err error) bool {
	if errors.Is(err, ledger.ErrFailed) || errors.Is(err, ledger.ErrClosed) {
		return false
	}
	var d Damage
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

// Damaged returns an error about damage.
func Damaged(format string, args ...any) error { return Damage{fmt.Errorf(format, args...)} }
