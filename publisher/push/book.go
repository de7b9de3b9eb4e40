package push

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"sync"

	"cutie/queuefs/durable"
)

// A Record is a pointer to a struct that JSON keeps.
type Record interface {
	comparable
	Key() string // never changes
}

// A Book is a set of records in one sealed file, a line of JSON each, with a [tail] once
// there are many: then saving costs what has changed. Fields of
// records may be read in View and changed in Update only; Get, All, Put, Drop
// and Members are called within these two.
//
//	file       done on opening
//	absent     there are no records
//	complete   taken up
//	damaged    set aside and reported; there are no records
type Book[R Record] struct {
	file    durable.Sealed
	writing sync.Mutex // before mu: one Save at a time; guards tail and sealed
	tail    tail
	sealed  int // bytes of the sealed file

	mu      sync.Mutex
	records map[string]R
	fresh   map[string]uint64 // versions of new records that no file has yet
	version uint64            // of the records
	kept    uint64            // version on stable storage
	lines   map[string]uint64 // hashes of the lines on stable storage, by key
	members uint64
}

// OpenBook reads the records.
func OpenBook[R Record](file durable.Sealed, report func(error)) (*Book[R], error) {
	b := &Book[R]{file: file, records: map[string]R{}, fresh: map[string]uint64{}, lines: map[string]uint64{}}
	contents, err := file.Read()
	if err == nil {
		err = b.decode(contents)
	}
	b.tail, b.sealed = newTail(file, contents), len(contents)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return b, b.readTail(report)
	case !errors.Is(err, durable.ErrDamaged):
		return nil, err
	}
	b.tail.bad = true
	clear(b.records)
	to, e := file.SetAside()
	if e != nil {
		return nil, errors.Join(err, e)
	}
	report(fmt.Errorf("%w; moved to %s", err, to))
	return b, nil
}

// CheckBook reads the files of a book that nobody has open, and calls bad with each one that
// is not as it was written. It changes nothing.
func CheckBook[R Record](file durable.Sealed, bad func(name string, err error)) {
	b := &Book[R]{file: file, records: map[string]R{}, lines: map[string]uint64{}}
	contents, err := file.Read()
	if err == nil {
		err = b.decode(contents)
	}
	if err != nil {
		bad(file.Name, err)
		return
	}
	b.tail = newTail(file, contents)
	whole, _, err := b.tail.read(file.Max, b.change)
	if err == nil && !whole {
		err = b.tail.damage()
	}
	if err != nil {
		bad(b.tail.name, err)
	}
}

func (b *Book[R]) decode(contents []byte) error {
	n := 0
	for line := range bytes.Lines(contents) {
		n++
		var none, r R
		err := json.Unmarshal(line, &r)
		if err == nil && r == none {
			err = errors.New("no record")
		}
		if err != nil {
			return fmt.Errorf("%s: %w: line %d: %v", b.file.Name, durable.ErrDamaged, n, err)
		}
		b.records[r.Key()] = r
		b.lines[r.Key()] = hashOf(bytes.TrimSuffix(line, []byte("\n")))
	}
	return nil
}

// readTail takes up the changes since the sealed file.
func (b *Book[R]) readTail(report func(error)) error {
	whole, former, err := b.tail.read(b.file.Max, b.change)
	if former {
		return b.tail.remove()
	}
	if err != nil || whole {
		return err
	}
	b.tail.bad = true
	to, err := b.file.Dir.SetAside(b.file.Dir, b.tail.name, b.tail.name)
	if err == nil {
		report(fmt.Errorf("%w; moved to %s", b.tail.damage(), to))
	}
	return err
}

// change takes up a line of a tail.
func (b *Book[R]) change(text []byte) error {
	kind, rest, _ := bytes.Cut(text, []byte(" "))
	if string(kind) == "+" {
		return b.decode(rest)
	}
	var key string
	if err := json.Unmarshal(rest, &key); err != nil {
		return err
	}
	delete(b.records, key)
	delete(b.lines, key)
	return nil
}

var seed = maphash.MakeSeed()

func hashOf(line []byte) uint64 { return maphash.Bytes(seed, line) }

// View runs f while no record changes. f must not wait.
func (b *Book[R]) View(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// Update is View for changes that Save writes. If f fails it must not have
// changed anything.
func (b *Book[R]) Update(f func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	err := f()
	if err != nil {
		b.version--
	}
	return err
}

// Get returns the record with the key, or nil.
func (b *Book[R]) Get(key string) R { return b.records[key] }

// All returns the records in any order.
func (b *Book[R]) All() iter.Seq[R] { return maps.Values(b.records) }

// Put adds a record or replaces it.
func (b *Book[R]) Put(r R) {
	key := r.Key()
	b.records[key], b.fresh[key] = r, b.version
	b.members++
}

// Drop removes a record, unless another one has replaced it.
func (b *Book[R]) Drop(r R) {
	if key := r.Key(); b.records[key] == r {
		delete(b.records, key)
		delete(b.fresh, key)
		b.members++
	}
}

// Members returns a number that changes with each Put and Drop.
func (b *Book[R]) Members() uint64 { return b.members }

// Save puts the present records on stable storage. Callers that come during a
// writing share the next one.
func (b *Book[R]) Save() error {
	var want uint64
	b.View(func() { want = b.version })
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	version, saved := b.version, b.kept >= want
	var c changes
	var err error
	if !saved {
		c, err = b.encode()
	}
	b.mu.Unlock()
	if saved || err != nil {
		return err
	}
	if err := b.write(&c); err != nil {
		return err
	}
	b.View(func() {
		b.kept, b.lines = version, c.lines
		maps.DeleteFunc(b.fresh, func(_ string, v uint64) bool { return v <= version })
	})
	return nil
}

// changes are the records as they are, and what of them is not on stable storage.
type changes struct {
	contents []byte // of a sealed file
	lines    map[string]uint64
	tail     [][]byte // lines of a tail
	size     int      // of these
}

func (c *changes) add(text []byte) {
	c.tail = append(c.tail, text)
	c.size += len(text)
}

func (b *Book[R]) encode() (c changes, err error) {
	c.lines = make(map[string]uint64, len(b.records))
	for _, key := range slices.Sorted(maps.Keys(b.records)) {
		line, err := json.Marshal(b.records[key])
		if err != nil {
			return c, err
		}
		c.contents = append(append(c.contents, line...), '\n')
		hash := hashOf(line)
		if was, ok := b.lines[key]; !ok || was != hash {
			c.add(append([]byte("+ "), line...))
		}
		c.lines[key] = hash
	}
	for key := range b.lines {
		if _, ok := c.lines[key]; !ok {
			quoted, err := json.Marshal(key)
			if err != nil {
				return c, err
			}
			c.add(append([]byte("- "), quoted...))
		}
	}
	return c, nil
}

// smallBook is how many bytes are written whole each time.
const smallBook = 16 << 10

// write puts changes on stable storage. The sealed file is written when the tail has
// become as long, so all in all twice as much is written as has changed.
func (b *Book[R]) write(c *changes) error {
	if !b.tail.bad && len(c.contents) > smallBook && b.tail.size+c.size <= b.sealed && b.tail.add(c.tail) == nil {
		return nil
	}
	former := b.tail.size > 0 || b.tail.bad
	b.tail.bad = true
	now := newTail(b.file, c.contents)
	// With the same contents in the sealed file, a crash would leave a tail that counts.
	if now.of != b.tail.of || !former {
		if err := b.file.Write(c.contents); err != nil {
			return err
		}
	}
	if former {
		if err := b.tail.remove(); err != nil {
			return err
		}
	}
	b.tail, b.sealed = now, len(c.contents)
	return nil
}
