// Package catalog keeps the small contents of many names in one file, so that a name
// costs no file, no descriptor, and no sync of its own. A change is an entry at the end
// of the file; the last entry of a name counts.
//
//	"\xffCUTIE\x00\x01" | CRC-32C u32 | octets of name u16, contents u32 | name | contents
//
// The checksum covers all after it and the kind of the catalog. An entry without
// contents takes its name away. A crash can tear the entries that were not synced, in
// any order. They are skipped, and the former entries of their names count: keep the source
// of an entry until the file is synced.
package catalog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
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
	size int64            // bytes of the file
	live int64            // of them in entries that count
	at   map[string]where // the last entry of each name
	hurt int64            // where the last damage begins; 0 without any, or at the beginning
	torn bool             // there is damage

	writable bool // file is open for writing
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
// damaged is the number of octets below the offset synced with an error, see
// [File.Doubtful].
func Open(dir *durable.Dir, name, kind string, synced int64) (f *File, damaged int64, err error) {
	f = &File{dir: dir, name: name, kind: kind, at: map[string]where{}}
	f.file, err = dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f.torn = synced > 0
		return f, synced, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if damaged, err = f.scan(synced); err != nil {
		return nil, 0, errors.Join(err, f.file.Close())
	}
	if lost := synced - f.size; lost > 0 {
		damaged += lost
		f.torn, f.hurt = true, f.size
	}
	return f, damaged, nil
}

// scan reads the entries of the file.
func (f *File) scan(synced int64) (damaged int64, err error) {
	in := &window{file: f.file}
	for bad := int64(-1); ; { // bad: the beginning of damage
		data, err := in.at(f.size, header+MaxName+MaxContents)
		if err != nil {
			return damaged, err
		}
		e, ok := f.parse(data)
		if bad >= 0 && (ok || len(data) == 0) {
			f.torn = true
			if bad < synced {
				damaged += min(f.size, synced) - bad
				f.hurt = bad
			}
			bad = -1
		}
		switch {
		case len(data) == 0:
			return damaged, nil
		case ok:
			f.size += f.count(e, f.size)
			continue
		case bad < 0:
			bad = f.size
		}
		if next := bytes.Index(data[1:], []byte(magic)); next >= 0 {
			f.size += 1 + int64(next)
		} else {
			f.size += int64(max(1, len(data)-len(magic)))
		}
	}
}

// A window is a part of a file in memory.
type window struct {
	file *os.File
	off  int64
	data []byte
	buf  []byte
}

// at returns the octets from an offset on: so many, or as many as there are.
func (w *window) at(off int64, octets int) ([]byte, error) {
	full := len(w.data) == len(w.buf) // there may be more
	if end := w.off + int64(len(w.data)); off < w.off || off+int64(octets) > end && (end == 0 || full) {
		if err := w.read(off, 2*octets); err != nil {
			return nil, err
		}
	}
	return w.data[min(off-w.off, int64(len(w.data))):], nil
}

// read reads from an offset on, most octets at most. Its memory is that of the octets
// there are and of one more: most catalogs are small.
func (w *window) read(off int64, most int) error {
	for {
		st, err := w.file.Stat()
		if err != nil {
			return err
		}
		if size := int(min(int64(most), max(0, st.Size()-off)+1)); size > len(w.buf) {
			w.buf = make([]byte, size)
		}
		n, err := w.file.ReadAt(w.buf, off)
		if err != nil && err != io.EOF {
			return err
		}
		w.off, w.data = off, w.buf[:n]
		if n < len(w.buf) || n >= most {
			return nil
		}
		// It has grown meanwhile.
	}
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
	data, err := f.entry(name, w)
	if err != nil {
		return nil, err
	}
	return data[header+len(name):], nil
}

// raw reads the octets of an entry; f.mu is held.
func (f *File) raw(name string, w where) ([]byte, error) {
	n := int64(header + len(name))
	data := make([]byte, n+int64(w.size))
	_, err := f.file.ReadAt(data, w.off-n)
	if err == io.EOF {
		err = nil
	}
	return data, err
}

// entry is raw for octets that verify.
func (f *File) entry(name string, w where) ([]byte, error) {
	data, err := f.raw(name, w)
	if err != nil {
		return nil, err
	}
	if e, ok := f.parse(data); !ok || e.Name != name {
		return nil, fmt.Errorf("%s: entry of %q: %w", f.name, name, durable.ErrDamaged)
	}
	return data, nil
}

// Names returns the names with contents, in the order of the file.
func (f *File) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names()
}

func (f *File) names() []string {
	return slices.SortedFunc(maps.Keys(f.at), func(a, b string) int { return cmp.Compare(f.at[a].off, f.at[b].off) })
}

// Size returns the bytes of the file.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size
}

// Torn reports whether the file has octets with an error.
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

// write opens the file for writing.
func (f *File) write() error {
	if f.writable {
		return nil
	}
	now, err := f.dir.Update(f.name)
	if err != nil {
		return err
	}
	if f.file != nil {
		f.file.Close()
	}
	f.file, f.writable = now, true
	return nil
}

// Sync puts all entries on stable storage.
func (f *File) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
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

// Compact writes the file anew if most of it is waste, or does not verify. When it returns
// the new one is on stable storage. After an error the former one is in use. Entries that
// were damaged meanwhile are copied as they are, so that the next Open finds them.
func (f *File) Compact() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.wasteful() || f.file == nil {
		f.torn = false
		return nil
	}
	out, tmp, err := f.dir.Temp()
	if err != nil {
		return err
	}
	now := &File{at: make(map[string]where, len(f.at))}
	w := bufio.NewWriterSize(out, 1<<18)
	for _, name := range f.names() {
		data, e := f.raw(name, f.at[name])
		if err = e; err != nil {
			break
		}
		now.size += now.count(Entry{name, data[header+len(name):]}, now.size)
		w.Write(data) // Flush has the error
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.dir.SyncFile(out)
	}
	if err == nil {
		err = f.dir.Rename(tmp, f.dir, f.name)
	}
	if err != nil {
		return errors.Join(err, out.Close(), f.dir.Remove(tmp))
	}
	f.file.Close()
	f.file, f.size, f.live, f.at, f.torn, f.hurt, f.writable = out, now.size, now.live, now.at, false, 0, true
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
