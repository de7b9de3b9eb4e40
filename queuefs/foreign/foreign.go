// Package foreign takes in homes of Cutie 0.3 written by other programs.
//
// Cutie 0.3, 6.5 leaves the form of job identifiers open. Here a job has a number, and
// its identifier is j and twelve digits; so a home with others is not opened, and
// nothing in it is changed. [Import] copies it, with a new identifier for each job in
// the same order. The old one stays in the job file, as the element formerIdentifier.
package foreign

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/namaste"
)

// FormerIdentifier is the element of a job file with the identifier in the imported
// home.
const FormerIdentifier = "formerIdentifier"

// An Error is a home with job identifiers of another form.
type Error struct {
	Home string
	Path string // of such a job, below the home
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s is a job of another program, whose identifiers have another form", e.Home, e.Path)
}

// statuses are the directories of job files.
var statuses = []job.Status{job.Pending, job.Consumed, job.Deleted}

// Check looks for job identifiers of another form in a home never opened by this
// program. The error is an [*Error]. It changes nothing.
func Check(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, home.LogDir, home.IndexDir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	queues, err := queuesOf(dir)
	if err != nil {
		return err
	}
	for _, q := range queues {
		for _, st := range statuses {
			names, err := namesIn(filepath.Join(q.dir, st.String()))
			if err != nil {
				return err
			}
			for _, name := range names {
				if _, err := job.ParseID(name); err == nil {
					continue
				}
				// Any other file is dealt with as damage.
				if _, err := read(filepath.Join(q.dir, st.String(), name), name, 1, st); err == nil {
					return &Error{Home: dir, Path: filepath.Join(home.QueuesDir, q.id, st.String(), name)}
				}
			}
		}
	}
	return nil
}

type queue struct{ id, dir string }

// queuesOf returns the queues of a home: the lines of queues.txt, or else the
// directories with queue-info.txt.
func queuesOf(dir string) (queues []queue, err error) {
	base := filepath.Join(dir, home.QueuesDir)
	if _, err := os.Stat(base); errors.Is(err, fs.ErrNotExist) {
		base = filepath.Join(dir, "queue") // as Cutie 0.3, 6.4 prints it, too
	}
	text, err := os.ReadFile(filepath.Join(dir, home.ListName))
	var ids []string
	switch {
	case err == nil:
		ids, _ = home.List(text).Legible() // the opening tells of other lines
	case errors.Is(err, fs.ErrNotExist):
		if ids, err = home.Directories(base); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	for _, id := range ids {
		queues = append(queues, queue{id, filepath.Join(base, id)})
	}
	return queues, nil
}

// namesIn returns the names of files in a directory in their order; a missing directory
// has none.
func namesIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), durable.TempPrefix) && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// A Row is a job of an import.
type Row struct{ Queue, Old, New string }

// Import copies a home to a new directory and returns the table of all jobs. It changes
// nothing in from, and refuses a directory to that exists. After an error to is
// incomplete, and no home.
func Import(from, to string) (table []Row, err error) {
	d, err := durable.OpenDir(from, nil)
	if err != nil {
		return nil, err
	}
	err = home.CheckTag(d, func(home.Problem) {})
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	queues, err := queuesOf(from)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return nil, err
	}
	var list home.List
	for _, q := range queues {
		rows, err := importQueue(q, filepath.Join(to, home.QueuesDir, q.id))
		if err != nil {
			return nil, err
		}
		table, list = append(table, rows...), list.Add(q.id)
	}
	if err := copyFile(filepath.Join(from, home.InfoName), filepath.Join(to, home.InfoName)); err != nil {
		return nil, err
	}
	if d, err = durable.OpenDir(to, nil); err != nil {
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
	tag := namaste.Tag{Number: namaste.Type, Value: home.TagValue}
	return table, d.Replace(tag.FileName(), []byte(tag.Content()))
}

// importQueue copies a queue. All its job files are read before the first is written.
func importQueue(q queue, to string) (table []Row, err error) {
	where := map[string]job.Status{}
	var names []string
	for _, st := range statuses {
		found, err := namesIn(filepath.Join(q.dir, st.String()))
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if other, twice := where[name]; twice {
				return nil, fmt.Errorf("%s: job %q is both %v and %v; remove one of its files", q.dir, name, other, st)
			}
			where[name] = st
		}
		names = append(names, found...)
	}
	payloads, err := namesIn(filepath.Join(q.dir, "payload"))
	if err != nil {
		return nil, err
	}
	for _, name := range payloads {
		if where[name] == 0 {
			return nil, fmt.Errorf("%s: payload %q has no job file; remove it, or bring its job file back", q.dir, name)
		}
	}
	slices.Sort(names) // the order of the queue (Cutie 0.3, 6.5)
	jobs := make([]job.Job, len(names))
	for i, name := range names {
		if jobs[i], err = read(filepath.Join(q.dir, where[name].String(), name), name, job.ID(i+1), where[name]); err != nil {
			return nil, err
		}
	}
	for _, sub := range []string{"payload", "pending", "consumed", "deleted"} {
		if err := os.MkdirAll(filepath.Join(to, sub), 0o700); err != nil {
			return nil, err
		}
	}
	for i, name := range names {
		j := &jobs[i]
		id := j.ID.String()
		if err := copyFile(filepath.Join(q.dir, "payload", name), filepath.Join(to, "payload", id)); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(to, j.Status.String(), id), j.AppendText(nil), 0o600); err != nil {
			return nil, err
		}
		table = append(table, Row{q.id, name, id})
	}
	return table, copyFile(filepath.Join(q.dir, home.QueueInfoName), filepath.Join(to, home.QueueInfoName))
}

// read reads a job file under its new number. The directory decides on the status.
func read(path, name string, id job.ID, st job.Status) (job.Job, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return job.Job{}, err
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

// copyFile copies a file as a whole, unsynced.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
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
