// Package catalog keeps the small contents of many names in one file, so that a name
// costs no file, no descriptor, and no sync of its own. A change is an entry at the end
// of the file; the last entry of a name counts.
//
//	"\xffCUTIE\x00\x01" | CRC-32C u32 | octets of name u16, contents u32 | name | contents
//
// The checksum covers all after it and the kind of the catalog. An entry without
// contents takes its name away. A crash can tear the entries that were not synced, in
// any order. They are skipped, and the former entries of their names count: keep the sources
// of a later state until the file is synced.
package catalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync"

	"cutie/queuefs/durable"
)

const (
	magic  = "\xffCUTIE\x00\x01"
	header = len(magic) + 4 + 2 + 4

	// MaxName and MaxContents bound the octets of an entry.
	MaxName     = 1 << 10
	MaxContents = 1 << 20

	// Of a file above leastWaste, at most half is waste.
	leastWaste = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A File is a catalog. It is safe for concurrent use.
type File struct {
	dir  *durable.Dir
	name string
	kind string

	mu   sync.Mutex
	file *os.File         // open for as long as the catalog is; nil before the first entry
	out  bool             // it is open for writing, too
	size int64            // bytes of the file
	live int64            // of them in entries that count
	at   map[string]where // the last entry of each name
	hurt int64            // where the last damage begins; 0 without any, or at the beginning
	torn bool             // there are octets that do not verify
}

type where struct {
	off  int64 // of the contents
	size int32
}

// An Entry is the new contents of a name; none take it away.
type Entry struct {
	Name     string
	Contents []byte
}

// Open reads the catalog name in dir, of a kind: entries of another kind do not verify.
// damaged are the octets that do not, below the offset synced: see [File.Doubtful].
func Open(dir *durable.Dir, name, kind string, synced int64) (f *File, damaged int64, err error) {
	f = &File{dir: dir, name: name, kind: kind, at: map[string]where{}}
	if _, err := dir.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return f, synced, nil
	}
	if f.file, err = dir.Open(name); err != nil {
		return nil, 0, err
	}
	data, err := f.whole()
	if err != nil {
		return nil, 0, errors.Join(err, f.file.Close())
	}
	f.size = int64(len(data))
	if damaged = max(0, synced-f.size); damaged > 0 {
		defer func() { f.torn, f.hurt = true, f.size }()
	}
	for off := int64(0); off < f.size; {
		e, ok := f.parse(data[off:])
		if !ok {
			next := bytes.Index(data[off+1:], []byte(magic))
			to := f.size
			if next >= 0 {
				to = off + 1 + int64(next)
			}
			f.torn = true
			if off < synced {
				damaged += min(to, synced) - off
				f.hurt = off
			}
			off = to
			continue
		}
		off += f.count(e, off)
	}
	return f, damaged, nil
}

// whole reads the file.
func (f *File) whole() ([]byte, error) {
	st, err := f.file.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, st.Size())
	n, err := f.file.ReadAt(data, 0)
	if n == len(data) {
		err = nil
	}
	return data[:n], err
}

// parse reads the entry that data begins with.
func (f *File) parse(data []byte) (e Entry, ok bool) {
	if len(data) < header || string(data[:len(magic)]) != magic {
		return e, false
	}
	rest := data[len(magic):]
	sum := binary.LittleEndian.Uint32(rest)
	rest = rest[4:]
	names, contents := int(binary.LittleEndian.Uint16(rest)), int(binary.LittleEndian.Uint32(rest[2:]))
	if names > MaxName || contents > MaxContents || len(rest) < 6+names+contents {
		return e, false
	}
	rest = rest[:6+names+contents]
	return Entry{string(rest[6 : 6+names]), rest[6+names:]}, sum == f.sum(rest)
}

func (f *File) sum(covered []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(f.kind), castagnoli), castagnoli, covered)
}

// print appends an entry to dst.
func (f *File) print(dst []byte, e *Entry) []byte {
	dst = append(dst, magic...)
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(e.Name)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(e.Contents)))
	dst = append(append(dst, e.Name...), e.Contents...)
	binary.LittleEndian.PutUint32(dst[at:], f.sum(dst[at+4:]))
	return dst
}

// count takes an entry at an offset in, and returns its size.
func (f *File) count(e Entry, off int64) int64 {
	size := func(contents int) int64 { return int64(header + len(e.Name) + contents) }
	if was, ok := f.at[e.Name]; ok {
		f.live -= size(int(was.size))
	}
	if len(e.Contents) == 0 {
		delete(f.at, e.Name)
		return size(0)
	}
	f.at[e.Name] = where{off + size(0), int32(len(e.Contents))}
	f.live += size(len(e.Contents))
	return size(len(e.Contents))
}

// Has reports whether a name has contents.
func (f *File) Has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.at[name]
	return ok
}

// Doubtful reports whether damage may have taken a later entry of a name.
func (f *File) Doubtful(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at[name].off < f.hurt
}

// Get returns the contents of a name, nil without any. The error wraps
// [durable.ErrDamaged] if they do not verify any more.
func (f *File) Get(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, ok := f.at[name]
	if !ok {
		return nil, nil
	}
	n := int64(header + len(name))
	data := make([]byte, n+int64(w.size))
	if _, err := f.file.ReadAt(data, w.off-n); err != nil && err != io.EOF {
		return nil, err
	}
	if e, ok := f.parse(data); ok && e.Name == name {
		return e.Contents, nil
	}
	return nil, fmt.Errorf("%s: entry of %s: %w", f.name, name, durable.ErrDamaged)
}

// All yields all names and contents, in no order. The contents are lent until the next
// ones.
func (f *File) All() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.file == nil {
			return
		}
		data, err := f.whole()
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for name, w := range f.at {
			if !yield(Entry{name, data[w.off : w.off+int64(w.size)]}, nil) {
				return
			}
		}
	}
}

// Size returns the bytes of the file.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size
}

// Torn reports whether the file has octets that do not verify.
func (f *File) Torn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.torn
}

// Append adds entries, unsynced. After an error none of them counts.
func (f *File) Append(entries ...Entry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var buf []byte
	for i := range entries {
		if e := &entries[i]; len(e.Name) > MaxName || len(e.Contents) > MaxContents {
			return fmt.Errorf("%s: %.40q: %w", f.name, e.Name, durable.ErrTooLong)
		}
		buf = f.print(buf, &entries[i])
	}
	if len(buf) == 0 {
		return nil
	}
	if err := f.write(); err != nil {
		return err
	}
	// At the offset: the torn end of a failed attempt is written over.
	err := f.dir.Step("append to "+f.name, func() error {
		_, err := f.file.WriteAt(buf, f.size)
		return err
	})
	if err != nil {
		return err
	}
	for i := range entries {
		f.size += f.count(entries[i], f.size)
	}
	return nil
}

// write opens the file for writing. mu is held.
func (f *File) write() error {
	if f.out {
		return nil
	}
	out, err := f.dir.Update(f.name)
	if err != nil {
		return err
	}
	if f.file != nil {
		f.file.Close()
	}
	f.file, f.out = out, true
	return nil
}

// Sync puts all entries on stable storage.
func (f *File) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.out {
		return nil
	}
	return errors.Join(f.dir.SyncFile(f.file), f.dir.Sync())
}

// Wasteful reports whether [File.Compact] has something to do.
func (f *File) Wasteful() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wasteful()
}

func (f *File) wasteful() bool { return f.torn || f.size >= leastWaste && f.live <= f.size/2 }

// Compact writes the file anew if most of it is waste. When it returns the new one is
// on stable storage. After an error the former one is in use.
func (f *File) Compact() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.wasteful() || f.file == nil {
		return nil
	}
	data, err := f.whole()
	if err != nil {
		return err
	}
	now := &File{dir: f.dir, name: f.name, kind: f.kind, at: make(map[string]where, len(f.at))}
	buf := make([]byte, 0, f.live)
	for name, w := range f.at {
		e := Entry{name, data[w.off : w.off+int64(w.size)]}
		buf = now.print(buf, &e)
		now.size += now.count(e, now.size)
	}
	out, tmp, err := f.dir.Temp()
	if err != nil {
		return err
	}
	if _, err = out.Write(buf); err == nil {
		err = f.dir.SyncFile(out)
	}
	if err == nil {
		err = f.dir.Rename(tmp, f.dir, f.name)
	}
	if err != nil {
		return errors.Join(err, out.Close(), f.dir.Remove(tmp))
	}
	f.file.Close()
	f.file, f.out, f.size, f.live, f.at, f.torn = out, true, now.size, now.live, now.at, false
	return f.dir.Sync()
}

// Close lets go of the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
