package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"
)

// A Cache keeps the directories open that were used last, so that the number of
// descriptors does not grow with the number of directories. It is safe for concurrent
// use.
type Cache struct {
	limit int

	mu   sync.Mutex
	open int    // directories
	idle *entry // ends of a ring: next was used last, prev is to be closed first
}

// NewCache returns a cache of up to limit descriptors, or a quarter of the number this
// process may have if that is less. More are open only while more are in use at the
// same time.
func NewCache(limit int) *Cache {
	var all unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &all) == nil {
		limit = int(min(uint64(limit), uint64(all.Cur)/4))
	}
	c := &Cache{limit: max(limit, 1), idle: new(entry)}
	c.idle.next, c.idle.prev = c.idle, c.idle
	return c
}

// An entry is a directory that is opened when it is used.
type entry struct {
	dir        *Dir
	cache      *Cache
	parent     *Dir
	missing    bool   // may be missing: it is made then
	closed     bool   // by its owner
	users      int32  // calls on their way
	next, prev *entry // in the ring of the cache: open and not in use
}

// Dir returns the directory name in parent, to be opened when it is used. Errors come
// from its methods then. With make it is made if it is missing, on stable storage
// after the next [Dir.SyncFS].
func (c *Cache) Dir(parent *Dir, name string, make bool) *Dir {
	d := newDir(name, -1, parent.fault)
	d.open = parent.open
	d.entry = &entry{dir: d, cache: c, parent: parent, missing: make}
	return d
}

// errVoid is the error of a directory to be made, below one opened with [LookIn].
var errVoid = fmt.Errorf("not made: %w", unix.ENOENT)

// enter is hold for work on the entry name; release must follow.
func (d *Dir) enter(name string) error {
	if err := element(name); err != nil {
		return err
	}
	return d.hold()
}

// hold keeps the descriptor of a directory open until release.
func (d *Dir) hold() error {
	e := d.entry
	if e == nil {
		return nil
	}
	c := e.cache
	c.mu.Lock()
	if held, err := e.holdOpen(); held || err != nil {
		c.mu.Unlock()
		return err
	}
	c.mu.Unlock()
	fd, err := e.openNow()
	if err != nil {
		return err
	}
	c.mu.Lock()
	held, err := e.holdOpen()
	if !held && err == nil {
		e.users++
		d.fd.Store(int64(fd))
		c.open++
		fd = -1
	}
	over := c.over()
	c.mu.Unlock()
	if fd >= 0 { // somebody else was first
		unix.Close(fd)
	}
	closeAll(over)
	return err
}

// holdOpen holds a directory that is open. mu is held.
func (e *entry) holdOpen() (bool, error) {
	if e.closed {
		return false, e.dir.pathError("open", ".", fs.ErrClosed)
	}
	if e.dir.at() < 0 {
		return false, nil
	}
	if e.users++; e.users == 1 {
		e.unlink()
	}
	return true, nil
}

func (e *entry) unlink() {
	if e.next != nil {
		e.next.prev, e.prev.next = e.prev, e.next
		e.next, e.prev = nil, nil
	}
}

// openNow opens the directory. Without free descriptors the cache gives up its own.
func (e *entry) openNow() (fd int, err error) {
	if err := e.parent.hold(); err != nil {
		return -1, err
	}
	defer e.parent.release()
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	name := e.dir.path
	fd, err = openat(e.parent.at(), name, flags, 0)
	if err == unix.EMFILE || err == unix.ENFILE {
		e.cache.clear()
		fd, err = openat(e.parent.at(), name, flags, 0)
	}
	if err == unix.ENOENT && e.missing {
		err = e.parent.fault.run("mkdir in "+e.parent.base(), func() error { return unix.Mkdirat(e.parent.at(), name, e.parent.dirMode()) })
		if err == nil || errors.Is(err, fs.ErrExist) {
			fd, err = openat(e.parent.at(), name, flags, 0)
		}
		if errors.Is(err, unix.EROFS) {
			err = errVoid
		}
	}
	return fd, e.parent.pathError("open", name, err)
}

// release ends hold.
func (d *Dir) release() {
	e := d.entry
	if e == nil {
		return
	}
	c := e.cache
	c.mu.Lock()
	var over []int
	if e.users--; e.users == 0 {
		if e.closed {
			over = []int{c.takeOut(e)}
		} else {
			e.next, e.prev = c.idle.next, c.idle
			e.next.prev, e.prev.next = e, e
			over = c.over()
		}
	}
	c.mu.Unlock()
	closeAll(over)
}

// over takes the descriptors out that are too many, to be closed. mu is held.
func (c *Cache) over() (fds []int) {
	for c.open > c.limit && c.idle.prev != c.idle {
		fds = append(fds, c.takeOut(c.idle.prev))
	}
	return fds
}

// takeOut takes an open directory without users out. mu is held.
func (c *Cache) takeOut(e *entry) int {
	e.unlink()
	c.open--
	return int(e.dir.fd.Swap(-1))
}

// clear closes all directories that nobody uses.
func (c *Cache) clear() {
	c.mu.Lock()
	var fds []int
	for c.idle.prev != c.idle {
		fds = append(fds, c.takeOut(c.idle.prev))
	}
	c.mu.Unlock()
	closeAll(fds)
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// close is [Dir.Close] of a directory in a cache. Calls on their way end well.
func (e *entry) close() error {
	c := e.cache
	c.mu.Lock()
	if e.closed {
		c.mu.Unlock()
		return e.dir.pathError("close", ".", fs.ErrClosed)
	}
	e.closed = true
	var over []int
	if e.users == 0 && e.dir.at() >= 0 {
		over = []int{c.takeOut(e)}
	}
	c.mu.Unlock()
	closeAll(over)
	return nil
}

// Open returns how many directories of the cache are open.
func (c *Cache) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// pathOf is the path that the nearest directory that is always open has below it to
// the directory of e, with that directory.
func (e *entry) pathOf() (from *Dir, path string) {
	from, path = e.parent, e.dir.path
	for from.entry != nil {
		from, path = from.entry.parent, from.path+"/"+path
	}
	return from, path
}

// A Finding is what a look at a file, an object, a document or a setting found.
type Finding struct {
	Level Level
	Path  string // of a file below its home, of an object, a URL, or a part of the machine, such as disk
	Text  string // what is wrong, and what was done about it
	Cure  string // what helps; "" if nothing is wrong, or the command has one hint for all
}

func (f Finding) String() string { return f.Path + ": " + f.Text }

// A Level is how bad a finding is.
type Level uint8

const (
	Faulty  Level = iota // to be mended
	Unread               // a file that cannot be read now, and may be whole
	Warning              // works, and may not for long, or not as expected
	Mended               // was faulty
	Fine
)

func (l Level) String() string { return [...]string{"fault", "unread", "warning", "mended", "ok"}[l] }

// Damage is a file that is faulty, or cannot be read now.
func Damage(path, text string, unread bool) Finding {
	f := Finding{Path: path, Text: text}
	if unread {
		f.Level = Unread
	}
	return f
}
