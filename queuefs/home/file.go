package home

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/namaste"
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

// rewrite gives the elements of a property file their values. An element that gets an
// empty value is removed.
func rewrite(doc *anvl.Document, elements anvl.Record) []byte {
	for _, e := range elements {
		switch old, _ := doc.Lookup(e.Name); {
		case old == e.Value:
		case e.Value == "":
			doc.Remove(e.Name)
		default:
			doc.Set(e.Name, e.Value)
		}
	}
	return doc.Bytes()
}

// Homes of Cutie 0.3 that other programs wrote.
//
// Cutie 0.3, 6.5 leaves the form of job identifiers open. Here a job has a number, and
// its identifier is j and twelve digits; so a home with others is not opened, and
// nothing in it is changed. [Import] copies it, with a new identifier for each job in
// the same order. The old one stays in the job file, as the element formerIdentifier.

// FormerIdentifier is the element of a job file with the identifier in the imported
// home.
const FormerIdentifier = "formerIdentifier"

// A ForeignError is a home with job identifiers of another form.
type ForeignError struct {
	Home string
	Path string // of such a job, below the home
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s: %s is a job of another program, whose identifiers have another form", e.Home, e.Path)
}

// statuses are the directories of job files.
var statuses = []job.Status{job.Pending, job.Consumed, job.Deleted}

// CheckForeign looks for job identifiers of another form in a home never opened by this
// program. The error is an [*ForeignError]. It changes nothing.
func CheckForeign(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, LogDir, TableName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	src, err := openSource(dir)
	if err != nil {
		return err
	}
	defer src.close()
	for _, id := range src.ids {
		q, err := src.base.Sub(id)
		if err != nil {
			continue // the opening tells of it
		}
		path, err := another(q)
		if err = errors.Join(err, q.Close()); err != nil {
			return err
		}
		if path != "" {
			return &ForeignError{Home: dir, Path: filepath.Join(QueuesDir, id, path)}
		}
	}
	return nil
}

// another returns the path of a job in a queue whose identifier has another form, "" if there
// is none. Any other file is dealt with as damage.
func another(q *durable.Dir) (path string, err error) {
	for _, st := range statuses {
		err := within(q, st.String(), func(d *durable.Dir, names []string) error {
			for _, name := range names {
				if _, err := job.ParseID(name); err == nil {
					continue
				}
				if _, err := read(d, name, 1, st); err == nil {
					path = filepath.Join(st.String(), name)
					return nil
				}
			}
			return nil
		})
		if path != "" || err != nil {
			return path, err
		}
	}
	return "", nil
}

// A source is a home that another program wrote. Nothing outside it is read, and nothing but
// regular files: links are not followed.
type source struct {
	home, base *durable.Dir // base has the queues
	ids        []string     // the lines of queues.txt, or else the directories with queue-info.txt
}

func openSource(dir string) (*source, error) {
	src := &source{}
	if err := src.open(dir); err != nil {
		return nil, errors.Join(explain(err), src.close())
	}
	return src, nil
}

func (s *source) open(dir string) (err error) {
	if s.home, err = durable.OpenDir(dir, nil); err != nil {
		return err
	}
	s.base, err = s.home.Sub(QueuesDir)
	if errors.Is(err, fs.ErrNotExist) {
		s.base, err = s.home.Sub("queue") // as Cutie 0.3, 6.4 prints it, too
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no queues
	}
	if err != nil {
		return err
	}
	list, err := ReadList(s.home)
	if errors.Is(err, fs.ErrNotExist) {
		s.ids, err = Directories(s.base)
		return err
	}
	s.ids, _ = list.Legible() // the opening tells of other lines
	return err
}

func (s *source) close() error {
	var err error
	for _, d := range []*durable.Dir{s.home, s.base} {
		if d != nil {
			err = errors.Join(err, d.Close())
		}
	}
	return err
}

// within calls do with a directory in d and the names in it, in their order; a missing
// directory has none.
func within(d *durable.Dir, name string, do func(d *durable.Dir, names []string) error) error {
	sub, err := d.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explain(err)
	}
	var names []string
	err = sub.Names(func(name string) {
		if !strings.HasPrefix(name, durable.TempPrefix) {
			names = append(names, name)
		}
	})
	if err == nil {
		slices.Sort(names)
		err = do(sub, names)
	}
	return errors.Join(err, sub.Close())
}

// explain names the cure for an error about a link, a pipe, a device or the like.
func explain(err error) error {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("%w: links are not followed; put what is meant in its place", err)
	}
	return err
}

// open opens a regular file.
func open(d *durable.Dir, name string) (*os.File, error) {
	f, err := d.Open(name)
	return f, explain(err)
}

// A Row is a job of an import.
type Row struct{ Queue, Old, New string }

// Import copies a home to a new directory and returns the table of all jobs. It changes
// nothing in from, and refuses a directory to that exists. After an error to is
// incomplete, and no home.
func Import(from, to string) (table []Row, err error) {
	src, err := openSource(from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	if err := CheckTag(src.home, func(Problem) {}); err != nil {
		return nil, err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return nil, err
	}
	var list List
	for _, id := range src.ids {
		q, err := src.base.Sub(id)
		if err != nil {
			return nil, explain(err)
		}
		rows, err := importQueue(q, id, filepath.Join(to, QueuesDir, id))
		if err = errors.Join(err, q.Close()); err != nil {
			return nil, err
		}
		table, list = append(table, rows...), list.Add(id)
	}
	if err := copyFile(src.home, InfoName, filepath.Join(to, InfoName)); err != nil {
		return nil, err
	}
	d, err := durable.OpenDir(to, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := list.Write(d); err != nil {
		return nil, err
	}
	if err := d.SyncFS(); err != nil {
		return nil, err
	}
	// With the tag the directory becomes a home.
	tag := namaste.Tag{Value: TagValue}
	return table, d.Replace(tag.FileName(), []byte(tag.Content()))
}

// payloadDir is the directory of payloads in a queue.
const payloadDir = "payload"

// importQueue copies a queue. All its job files are read before the first is written.
func importQueue(q *durable.Dir, id, to string) (table []Row, err error) {
	where := map[string]job.Status{}
	var names []string
	for _, st := range statuses {
		err := within(q, st.String(), func(d *durable.Dir, found []string) error {
			for _, name := range found {
				if other, twice := where[name]; twice {
					return fmt.Errorf("%s: job %q is both %v and %v; remove one of its files", q.Path(), name, other, st)
				}
				if info, err := d.Stat(name); err != nil {
					return err
				} else if info.Mode&unix.S_IFMT != unix.S_IFDIR {
					where[name] = st
					names = append(names, name)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names) // the order of the queue (Cutie 0.3, 6.5)
	jobs := make([]job.Job, len(names))
	for _, st := range statuses {
		err := within(q, st.String(), func(d *durable.Dir, _ []string) (err error) {
			for i, name := range names {
				if where[name] == st && err == nil {
					jobs[i], err = read(d, name, job.ID(i+1), st)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, sub := range []string{payloadDir, "pending", "consumed", "deleted"} {
		if err := os.MkdirAll(filepath.Join(to, sub), 0o700); err != nil {
			return nil, err
		}
	}
	copied := make([]bool, len(names))
	err = within(q, payloadDir, func(d *durable.Dir, payloads []string) error {
		for _, name := range payloads {
			i, known := slices.BinarySearch(names, name)
			info, err := d.Stat(name)
			switch {
			case err != nil:
				return err
			case info.Mode&unix.S_IFMT == unix.S_IFDIR:
				continue
			case !known:
				return fmt.Errorf("%s: payload %q has no job file; remove it, or bring its job file back", q.Path(), name)
			}
			if err := copyFile(d, name, filepath.Join(to, payloadDir, jobs[i].ID.String())); err != nil {
				return err
			}
			copied[i] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		j := &jobs[i]
		if !copied[i] {
			return nil, fmt.Errorf("%s: job %q has no payload; bring it back, or remove the job file", q.Path(), name)
		}
		if err := os.WriteFile(filepath.Join(to, j.Status.String(), j.ID.String()), j.AppendText(nil), 0o600); err != nil {
			return nil, err
		}
		table = append(table, Row{id, name, j.ID.String()})
	}
	return table, copyFile(q, QueueInfoName, filepath.Join(to, QueueInfoName))
}

// maxJobFile is the most bytes of a job file.
const maxJobFile = 3*job.MaxSidecar + 256<<10

// read reads a job file under its new number. The directory decides on the status.
func read(d *durable.Dir, name string, id job.ID, st job.Status) (job.Job, error) {
	path := d.Path() + "/" + name
	f, err := open(d, name)
	if err != nil {
		return job.Job{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxJobFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return job.Job{}, err
	}
	if len(text) > maxJobFile {
		return job.Job{}, fmt.Errorf("%s: a job file has %d bytes at most", path, maxJobFile)
	}
	rec, err := anvl.ParseRecord(text)
	if err != nil {
		return job.Job{}, fmt.Errorf("%s: %w", path, err)
	}
	if said := rec.Value("identifier"); said != name {
		return job.Job{}, fmt.Errorf("%s: it speaks of %.60q", path, said)
	}
	rec.Set("identifier", id.String())
	j, err := job.Parse(anvl.AppendRecord(nil, rec))
	if err != nil {
		return job.Job{}, fmt.Errorf("%s: %w", path, err)
	}
	j.Status = st
	j.Extra = job.With(j.Extra, FormerIdentifier, name)
	return j, nil
}

// copyFile copies a regular file as a whole, unsynced.
func copyFile(from *durable.Dir, name, to string) (err error) {
	in, err := open(from, name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
