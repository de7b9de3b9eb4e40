// Package table is what the engine knows, row by row, in one file: the log, compacted.
//
// The file is a bbolt database with a bucket for each [Kind] of row. What bbolt lacks is
// here. Each value begins with a CRC-32C over its kind, its key and its contents, so that no
// value stands for another one. bbolt trusts its file, so an opening verifies all of its
// tree first. bbolt maps it, so that a bad sector or a cut file is a fault of memory, and damage
// that comes later may be a panic: every access passes [Table.do], which turns both into
// [durable.ErrDamaged]. Rows are staged by Put and Delete, seen by readers at once, and reach
// stable storage with the next Commit, all of them or none.
//
// A Table is derived from the log and the directories, all but [Callbacks], [Mirrors] and
// [Subscriptions]: a damaged one is set aside, and made again by the opening of the home.
package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// Name is the name of the file, in the directory log of a home.
const Name = home.TableName

// A Kind is a kind of rows.
type Kind string

// Kinds are all kinds of rows.
var Kinds = []Kind{Meta, Queues, Pages, Culled, Callbacks, Mirrors, Subscriptions}

// Own are the kinds of rows that a backup takes along: the files of a home do not have what
// they say.
var Own = []Kind{Callbacks, Subscriptions}

// The kinds of rows.
const (
	Meta   Kind = "meta"   // of the whole home: checkpoint, floor, service
	Queues Kind = "queues" // queue → [Queue]
	Pages  Kind = "pages"  // queue, number of a page → page of the index
	Culled Kind = "culled" // queue, event → tombstone

	Callbacks Kind = "callbacks" // queue → URL of its callback
	Mirrors   Kind = "mirrors"   // queue → [home.Mirror]

	Subscriptions Kind = "subscriptions" // of publisher/hub, and of this directory alone: no image has them
)

// CommitSize is how many bytes of rows one transaction should have: [Table.Full].
const CommitSize = 8 << 20

// ErrFailed: a commit has failed, and what is on stable storage is not known. Nothing is
// committed any more until the table is opened again.
var ErrFailed = errors.New("the table could not be written")

// A Table has the rows. It is safe for concurrent use.
type Table struct {
	// Failed is called once, when the table cannot be used any more; nil: nobody is told. Set
	// it before the first commit.
	Failed func(error)

	// Damaged are the small rows that did not verify at the opening, those of [Meta] and
	// [Queues]. A key may be damaged, too: then nobody asks for the row, and the right one is
	// missing.
	Damaged []Row

	dir  *durable.Dir
	db   *bbolt.DB // nil: looked at, and there is none
	file *os.File  // of db

	commits sync.Mutex // one commit at a time; before mu

	mu      sync.Mutex
	staged  rows  // by Put and Delete
	writing rows  // of a commit on its way
	size    int   // bytes staged
	broken  error // of an access that found damage, or of a failed commit
}

// rows are contents by kind and key; nil takes a row away.
type rows map[Kind]map[string][]byte

// Open opens the table in the directory log of a home, or makes an empty one. To look
// nothing is made, and commits fail. The error wraps [durable.ErrDamaged] if the file is no
// table, or its tree does not verify; rows are verified when they are read.
func Open(dir *durable.Dir, look bool) (*Table, error) {
	t := None(dir)
	if look {
		if st, err := dir.Stat(Name); errors.Is(err, fs.ErrNotExist) || err == nil && st.Size == 0 { // bbolt has to write one
			return t, nil
		}
	}
	err := t.open(look)
	if err == nil {
		err = t.verify()
	}
	if err == nil && !look {
		err = t.compact()
	}
	if err != nil {
		_ = t.Close() // bbolt may have closed the file
		return nil, err
	}
	return t, nil
}

// None returns a table without rows and without a file, to look at. Commits fail.
func None(dir *durable.Dir) *Table { return &Table{dir: dir, staged: rows{}} }

func (t *Table) open(look bool) error {
	return t.do(func() error {
		o := &bbolt.Options{ReadOnly: look, Timeout: time.Second, FreelistType: bbolt.FreelistMapType}
		o.OpenFile = func(string, int, os.FileMode) (*os.File, error) {
			open := t.dir.Update
			if look {
				open = t.dir.Open
			}
			var err error
			t.file, err = open(Name)
			return t.file, err
		}
		db, err := bbolt.Open(t.dir.Path()+"/"+Name, 0o600, o)
		if err != nil {
			if errors.Is(err, bolterrors.ErrTimeout) {
				return fmt.Errorf("%s: another process has it open; end that process, and try again", Name)
			}
			if errors.As(err, new(*fs.PathError)) || errors.As(err, new(unix.Errno)) {
				return err
			}
			return damage(err)
		}
		t.db = db
		return nil
	})
}

func damage(err error) error { return fmt.Errorf("%s: %w: %w", Name, durable.ErrDamaged, err) }

// do runs an access to the file. A fault of the mapped memory and a panic of bbolt are
// damage; nobody uses the database after it, for bbolt may hold its locks.
func (t *Table) do(access func() error) (err error) {
	if err := t.err(); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if why := recover(); why != nil {
			err = damage(fmt.Errorf("%v", why))
			t.fail(err)
		}
	}()
	return access()
}

func (t *Table) fail(err error) {
	t.mu.Lock()
	first := t.broken == nil
	if first {
		t.broken = err
	}
	t.mu.Unlock()
	if first && t.Failed != nil && !errors.Is(err, fs.ErrClosed) {
		t.Failed(err)
	}
}

// verify goes through the whole file: a damaged tree shows itself here, where the table can be
// set aside, and not under a change. Who wants a row verifies it.
func (t *Table) verify() error {
	return t.do(func() error {
		st, err := t.file.Stat()
		if err != nil {
			return err
		}
		return verifyFile(t.file, st.Size(), func(kind, key, value []byte) {
			// Who reads a row of a queue that there is reports it, and the hub reads all of its own.
			if k := Kind(kind); !slices.Contains([]Kind{Pages, Culled, Callbacks, Mirrors, Subscriptions}, k) {
				if _, err := unseal(k, string(key), value); err != nil {
					t.Damaged = append(t.Damaged, Row{Kind: k, Key: string(key)})
				}
			}
		})
	})
}

// leastWaste is up to where free space in the file is not given back, in bytes.
const leastWaste = 8 << 20

// compact writes the file anew when most of it is free.
func (t *Table) compact() error {
	var size, free int64
	err := t.do(func() error {
		return t.db.View(func(tx *bbolt.Tx) error {
			size = tx.Size()
			free = int64(t.db.Stats().FreePageN) * int64(t.db.Info().PageSize)
			return nil
		})
	})
	if err != nil || free < leastWaste || free < size/2 {
		return err
	}
	return t.copyAnew()
}

// copyAnew puts a copy in the place of the file. Without one, as on a full disk, it is as good
// as it was.
func (t *Table) copyAnew() error {
	tmp, err := t.copyTo()
	if err != nil {
		if tmp != "" {
			_ = t.dir.Remove(tmp) // else the next opening does
		}
		if errors.Is(err, durable.ErrDamaged) {
			return err
		}
		return nil
	}
	// From here on either file may be there after a crash, with the same rows.
	if err := errors.Join(t.dir.Rename(tmp, t.dir, Name), t.dir.Sync(), t.db.Close()); err != nil {
		return err
	}
	t.db, t.file = nil, nil
	return t.open(false)
}

func (t *Table) copyTo() (tmp string, err error) {
	out, tmp, err := t.dir.Temp()
	if err != nil {
		return "", err
	}
	err = t.dir.Step("copy "+Name, func() error {
		return t.do(func() error {
			o := &bbolt.Options{FreelistType: bbolt.FreelistMapType}
			o.OpenFile = func(string, int, os.FileMode) (*os.File, error) { return out, nil }
			to, err := bbolt.Open(out.Name(), 0o600, o)
			if err != nil {
				return err
			}
			return errors.Join(bbolt.Compact(to, t.db, CommitSize), to.Sync(), to.Close())
		})
	})
	return tmp, err
}

// Close lets go of the file. What is staged is lost.
func (t *Table) Close() error {
	if t == nil || t.file == nil {
		return nil
	}
	t.commits.Lock()
	defer t.commits.Unlock()
	err := t.err()
	t.fail(fs.ErrClosed)
	if errors.Is(err, durable.ErrDamaged) || t.db == nil {
		// bbolt may hold its locks for ever. The mapping keeps the file open, and locked.
		return errors.Join(unix.Flock(int(t.file.Fd()), unix.LOCK_UN), t.file.Close())
	}
	return t.db.Close()
}

// Size returns the bytes of the file.
func (t *Table) Size() int64 {
	st, err := t.dir.Stat(Name)
	if err != nil {
		return 0
	}
	return st.Size
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the checksum of a row.
func sum(k Kind, key string, contents []byte) uint32 {
	n := crc32.Checksum([]byte(k+"\x00"), castagnoli)
	n = crc32.Update(n, castagnoli, []byte(key+"\x00"))
	return crc32.Update(n, castagnoli, contents)
}

// seal puts the checksum of a row before its contents.
func seal(k Kind, key string, contents []byte) []byte {
	value := make([]byte, 4, 4+len(contents))
	binary.LittleEndian.PutUint32(value, sum(k, key, contents))
	return append(value, contents...)
}

// unseal returns the contents of a row. The error wraps [durable.ErrDamaged].
func unseal(k Kind, key string, value []byte) ([]byte, error) {
	if len(value) < 4 || binary.LittleEndian.Uint32(value) != sum(k, key, value[4:]) {
		return nil, damage(fmt.Errorf("row %s %q does not verify", k, key))
	}
	return value[4:], nil
}

// waiting returns what is staged of a row; ok is false if nothing is.
func (t *Table) waiting(k Kind, key string) (contents []byte, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if contents, ok = t.staged[k][key]; !ok {
		contents, ok = t.writing[k][key]
	}
	return contents, ok
}

// Get returns the contents of a row, nil without one. The error wraps [durable.ErrDamaged]
// if they do not verify.
func (t *Table) Get(k Kind, key string) (contents []byte, err error) {
	if contents, ok := t.waiting(k, key); ok || t.db == nil {
		return contents, nil
	}
	err = t.do(func() error {
		return t.db.View(func(tx *bbolt.Tx) (err error) {
			b := tx.Bucket([]byte(k))
			if b == nil {
				return nil
			}
			if value := b.Get([]byte(key)); value != nil {
				contents, err = unseal(k, key, value)
				contents = bytes.Clone(contents)
			}
			return err
		})
	})
	return contents, err
}

// Has reports whether there is a row, damaged or not.
func (t *Table) Has(k Kind, key string) bool {
	contents, err := t.Get(k, key)
	return contents != nil || err != nil
}

// Each calls visit with the committed rows of a kind whose keys begin with prefix, from the
// key from on, in the order of their keys, until it returns false. bad says that a row does
// not verify. The contents are in the mapped file: visit copies what it keeps, and must not
// commit.
func (t *Table) Each(k Kind, prefix, from string, visit func(key string, contents []byte, bad error) bool) error {
	if t.db == nil {
		return nil
	}
	return t.do(func() error {
		return t.db.View(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(k))
			if b == nil {
				return nil
			}
			c := b.Cursor()
			for key, value := c.Seek([]byte(max(prefix, from))); bytes.HasPrefix(key, []byte(prefix)) && key != nil; key, value = c.Next() {
				contents, bad := unseal(k, string(key), value)
				if !visit(string(key), contents, bad) {
					break
				}
			}
			return nil
		})
	})
}

// Last returns the last key of a kind that begins with prefix, of committed rows; "" without
// one.
func (t *Table) Last(k Kind, prefix string) (last string, err error) {
	if t.db == nil {
		return "", nil
	}
	err = t.do(func() error {
		return t.db.View(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(k))
			if b == nil {
				return nil
			}
			c := b.Cursor()
			key, _ := c.Seek([]byte(prefix + "\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
			if key == nil {
				key, _ = c.Last()
			} else {
				key, _ = c.Prev()
			}
			if bytes.HasPrefix(key, []byte(prefix)) {
				last = string(key)
			}
			return nil
		})
	})
	return last, err
}

// Rows are the rows of one kind, for a room that has no other ones in the table.
type Rows struct {
	table *Table
	kind  Kind
}

// Rows returns the rows of a kind.
func (t *Table) Rows(k Kind) Rows { return Rows{t, k} }

// Each calls visit with all committed rows, as [Table.Each] does.
func (r Rows) Each(visit func(key string, contents []byte, bad error) bool) error {
	return r.table.Each(r.kind, "", "", visit)
}

// Put stages a row, see [Table.Put].
func (r Rows) Put(key string, contents []byte) { r.table.Put(r.kind, key, contents) }

// Delete stages the end of a row.
func (r Rows) Delete(key string) { r.table.Delete(r.kind, key) }

// Commit puts all that is staged, of other kinds too, on stable storage, see [Table.Commit].
func (r Rows) Commit() error { return r.table.Commit() }

// A Row is a row to be staged. Without contents it goes.
type Row struct {
	Kind     Kind
	Key      string
	Contents []byte
}

// Put stages a row. The contents stay as they are.
func (t *Table) Put(k Kind, key string, contents []byte) { t.PutAll([]Row{{k, key, contents}}) }

// Delete stages the end of a row.
func (t *Table) Delete(k Kind, key string) { t.Put(k, key, nil) }

// PutAll stages rows that no commit parts.
func (t *Table) PutAll(all []Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range all {
		t.stage(r)
	}
}

// stage is Put with mu held.
func (t *Table) stage(r Row) {
	of := t.staged[r.Kind]
	if of == nil {
		of = map[string][]byte{}
		t.staged[r.Kind] = of
	}
	if was, ok := of[r.Key]; ok {
		t.size -= len(r.Key) + len(was)
	}
	of[r.Key] = r.Contents
	t.size += len(r.Key) + len(r.Contents)
}

// Set puts a row on stable storage; without contents it goes. If it fails without space the row
// is as it was, and no later commit makes the change; a damaged one is gone. Callers for one row
// take turns.
func (t *Table) Set(k Kind, key string, contents []byte) error {
	was, _ := t.Get(k, key)
	t.Put(k, key, contents)
	err := t.Commit()
	if err != nil {
		t.Put(k, key, was) // the commit may have come to its end all the same
	}
	return err
}

// Full reports whether so much is staged that a commit is due, lest a transaction grow
// without limit.
func (t *Table) Full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size >= CommitSize
}

// Drop stages the end of all rows of a kind whose keys begin with prefix, also of those that
// are staged.
func (t *Table) Drop(k Kind, prefix string) error {
	t.mu.Lock()
	for _, of := range []map[string][]byte{t.staged[k], t.writing[k]} {
		for key := range of {
			if strings.HasPrefix(key, prefix) {
				t.stage(Row{Kind: k, Key: key})
			}
		}
	}
	t.mu.Unlock()
	return t.Each(k, prefix, "", func(key string, _ []byte, _ error) bool {
		t.Delete(k, key)
		return true
	})
}

// DeleteAll commits the end of all rows of a kind whose keys begin with prefix, some at a time.
func (t *Table) DeleteAll(k Kind, prefix string) error {
	if err := t.Commit(); err != nil { // what is staged goes, too
		return err
	}
	return t.DeleteUntil(k, prefix, func(string, []byte) bool { return true })
}

// DeleteUntil is DeleteAll up to the first row that old does not report as old. Rows that do
// not verify have no contents.
func (t *Table) DeleteUntil(k Kind, prefix string, old func(key string, contents []byte) bool) error {
	const some = 10_000
	for {
		n := 0
		err := t.Each(k, prefix, "", func(key string, contents []byte, _ error) bool {
			if !old(key, contents) {
				return false
			}
			t.Delete(k, key)
			n++
			return n < some
		})
		if err != nil || n == 0 {
			return err
		}
		if err := t.Commit(); err != nil || n < some {
			return err
		}
	}
}

// Commit puts all that is staged on stable storage. Without space the error wraps
// [unix.ENOSPC] or [unix.EDQUOT], and the rows stay staged; after any other error, and after
// any of a sync, it wraps ErrFailed, and so do all later ones.
func (t *Table) Commit() error {
	t.commits.Lock()
	defer t.commits.Unlock()
	t.mu.Lock()
	if t.size == 0 && len(t.staged) == 0 {
		t.mu.Unlock()
		return nil
	}
	size := t.size
	t.writing, t.staged, t.size = t.staged, rows{}, 0
	t.mu.Unlock()
	err := t.dir.Step("commit "+Name, func() error { return t.write(t.writing) })
	t.mu.Lock()
	if err != nil {
		t.size += size
		for k, of := range t.writing {
			maps.Copy(of, t.staged[k])
			t.staged[k] = of
		}
	}
	t.writing = nil
	t.mu.Unlock()
	again := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS)
	if err == nil || again && !errors.Is(err, ErrFailed) {
		return err
	}
	t.fail(fmt.Errorf("%w: %w", ErrFailed, err))
	return t.err()
}

// err returns why the table cannot be used.
func (t *Table) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broken
}

func (t *Table) write(all rows) error {
	return t.do(func() error {
		err := t.db.Update(func(tx *bbolt.Tx) error {
			for _, k := range slices.Sorted(maps.Keys(all)) {
				b, err := tx.CreateBucketIfNotExists([]byte(k))
				if err != nil {
					return err
				}
				for _, key := range slices.Sorted(maps.Keys(all[k])) {
					if contents := all[k][key]; contents == nil {
						err = b.Delete([]byte(key))
					} else {
						err = b.Put([]byte(key), seal(k, key, contents))
					}
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
		if errors.As(err, new(unix.Errno)) && !errors.As(err, new(*fs.PathError)) { // of bbolt's fdatasync
			return fmt.Errorf("%w: sync: %w", ErrFailed, err)
		}
		return err
	})
}
