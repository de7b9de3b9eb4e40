package home

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
)

// maxInfo is how many bytes a property file may have.
const maxInfo = 1 << 20

// A File is a file for operators to edit at any time. Its methods are not safe for
// concurrent use.
type File[T any] struct {
	dir *durable.Dir
	*kind[T]
	of string // the queue of the file; "" of one of the service

	taken stamp  // of the reading in use, or refused
	seen  *stamp // at the last call of Changed; nil if it was taken
}

// A kind has the things common to files of many queues.
type kind[T any] struct {
	name  string
	limit int // bytes
	parse func(of string, text []byte) (T, error)
	reads durable.Fault // for tests: of the step "properties", a reading
}

// ServiceFile is cutie-info.txt in a home. Its properties are not checked yet,
// see [ServiceInfo.Check].
func ServiceFile(d *durable.Dir) *File[ServiceInfo] {
	return &File[ServiceInfo]{dir: d, kind: &kind[ServiceInfo]{name: InfoName, limit: maxInfo,
		parse: func(_ string, text []byte) (ServiceInfo, error) { return ParseService(text) }}}
}

// QueueFiles returns the function for queue-info.txt in the directory of a queue. reads is
// for tests: of the step "properties", a reading.
func QueueFiles(reads durable.Fault) func(d *durable.Dir, id string) File[QueueInfo] {
	k := &kind[QueueInfo]{name: QueueInfoName, limit: maxInfo, reads: reads, parse: func(id string, text []byte) (QueueInfo, error) {
		info, err := ParseQueue(id, text)
		if err == nil {
			err = info.Check()
		}
		return info, err
	}}
	return func(d *durable.Dir, id string) File[QueueInfo] { return File[QueueInfo]{dir: d, kind: k, of: id} }
}

// ListFile is queues.txt in a home.
func ListFile(d *durable.Dir) *File[[]string] {
	return &File[[]string]{dir: d, kind: &kind[[]string]{name: ListName, limit: maxList,
		parse: func(_ string, text []byte) ([]string, error) { return List(text).Queues() }}}
}

// A Reading is a file at the time it was read.
type Reading[T any] struct {
	Value   *T        // not nil after a reading
	Text    []byte    // nil if it could not be read
	Written time.Time // in microseconds
	Bad     string    // why the file itself says something else; "" if it does not
	Unread  error     // the file could not be read, and may be whole; then Bad is set, too
	stamp   stamp
}

// A stamp changes whenever a file does, unless somebody turns back the clock.
type stamp struct {
	inode          uint64
	size           int64
	written, moved int64 // ns
}

// String returns the stamp as one word.
func (s stamp) String() string {
	return fmt.Sprintf("%d-%d-%d-%d", s.inode, s.size, s.written, s.moved)
}

// Stamp names the state of the file in which the reading found it, for [File.ReadUnless];
// "" if the file says something else.
func (v Reading[T]) Stamp() string {
	if v.Bad != "" || v.stamp == (stamp{}) {
		return ""
	}
	return v.stamp.String()
}

// ReadUnless is Read, but takes known for the text if the file has not changed since a
// reading of it with that stamp.
func (f *File[T]) ReadUnless(stamp string, known []byte) (v Reading[T], err error) {
	v.Value = new(T)
	if v.stamp, v.Written, err = f.stat(); err != nil {
		return v, err
	}
	if stamp == "" || v.stamp.String() != stamp {
		return f.read(v)
	}
	v.Text = known
	*v.Value, err = f.parse(f.of, known)
	return v, err
}

// Read reads the file. After an error the reading has as much as is known.
func (f *File[T]) Read() (v Reading[T], err error) {
	v.Value = new(T)
	if v.stamp, v.Written, err = f.stat(); err != nil {
		return v, err
	}
	return f.read(v)
}

func (f *File[T]) read(v Reading[T]) (Reading[T], error) {
	var text []byte
	do := func() (err error) {
		text, err = f.dir.ReadFile(f.name, nil, f.limit)
		return err
	}
	if f.reads != nil {
		plain := do
		do = func() error { return f.reads("properties", plain) }
	}
	if err := do(); err != nil {
		return v, err
	}
	var err error
	v.Text = bytes.Clone(text) // many are kept
	*v.Value, err = f.parse(f.of, v.Text)
	return v, err
}

func (f *File[T]) stat() (stamp, time.Time, error) {
	st, err := f.dir.Stat(f.name)
	if err != nil {
		return stamp{}, time.Time{}, err
	}
	return stamp{inode: st.Ino, size: st.Size, written: st.Mtim.Nano(), moved: st.Ctim.Nano()},
		time.Unix(st.Mtim.Unix()).UTC().Truncate(time.Microsecond), nil
}

// Changed reads the file again if it differs from the reading taken, and has held
// still since the last call: an editor may empty it first. due is also true if the
// file cannot be found.
func (f *File[T]) Changed() (v Reading[T], due bool, err error) {
	last := f.taken
	if f.seen != nil {
		last = *f.seen
	}
	v.stamp, v.Written, err = f.stat()
	if f.seen = nil; v.stamp != f.taken {
		now := v.stamp
		f.seen = &now
	}
	if err == nil && (v.stamp != last || f.seen == nil) {
		return v, false, nil
	}
	v.Value = new(T)
	if err == nil {
		v, err = f.read(v)
	}
	return v, true, err
}

// Moves reports whether the last call of Changed found other contents than those in use.
func (f *File[T]) Moves() bool { return f.seen != nil }

// Take says that a reading is in use, or refused: Changed waits for other contents.
func (f *File[T]) Take(v Reading[T]) {
	if f.taken = v.stamp; f.seen != nil && *f.seen == f.taken {
		f.seen = nil
	}
}

// Again lets the next call of Changed read the file, even if it is as before.
func (f *File[T]) Again() {
	if f.seen == nil {
		was := f.taken
		f.seen = &was
	}
	f.taken = stamp{}
}

// Instead returns v with the text known before, for a bad file, and why it is bad.
func (f *File[T]) Instead(v Reading[T], text []byte, why string) (_ Reading[T], err error) {
	v.Text, v.Bad, v.Value = text, why, new(T)
	*v.Value, err = f.parse(f.of, text)
	return v, err
}

// Set gives elements of the file their values and returns the reading of it, or v
// if nothing has changed. All else in the text of v stays. A bad file is set
// aside first.
func (f *File[T]) Set(v Reading[T], elements anvl.Record) (Reading[T], error) {
	doc, err := anvl.ParseDocument(v.Text)
	if err != nil {
		return v, err
	}
	text := rewrite(doc, elements)
	if v.Bad == "" && string(text) == string(v.Text) {
		v.Value = new(T) // settings do not keep it
		*v.Value, err = f.parse(f.of, text)
		return v, err
	}
	if v.Bad != "" {
		if _, err := f.SetAside(); err != nil {
			return v, err
		}
	}
	return f.Replace(text)
}

// Replace writes the file and reads it.
func (f *File[T]) Replace(text []byte) (v Reading[T], err error) {
	if err := f.dir.Replace(f.name, text); err != nil {
		return v, err
	}
	return f.Read()
}

// SetAside moves the file to corrupt/ and returns its new path, relative to the
// directory; "" if there is no file.
func (f *File[T]) SetAside() (to string, err error) {
	if to, err = f.dir.SetAside(f.dir, f.name, f.name); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return to, err
}

// rewrite gives the elements of a property file their values. An empty value is
// not added.
func rewrite(doc *anvl.Document, elements anvl.Record) []byte {
	for _, e := range elements {
		if old, there := doc.Lookup(e.Name); (there || e.Value != "") && old != e.Value {
			doc.Set(e.Name, e.Value)
		}
	}
	return doc.Bytes()
}
