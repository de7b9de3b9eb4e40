package tree

import (
	"bytes"
	"errors"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// Files is the wanted state of the files of a job.
type Files struct {
	ID            job.ID
	Status        job.Status // 0: culled, without files
	From          job.Status // of the job file in the directory; 0: none yet, or [index.FiledUnknown]
	Text, Payload []byte     // of job file and payload; nil: stays as it is
	Temp          string     // temporary file with a large payload; "": none
	Size          int64      // of the payload
	PayloadFiled  bool       // the payload has its name
	Begun         bool       // writing began: From may no longer hold

	name   string
	strays []job.Status // with a file that should not be there
}

// Prepare has the system read what the changes of directories will ask of the
// disk. If it is unknown where the job file is, it compares the files with f:
// after a crash the files of most jobs are as they should be. Contents are
// trusted only if believed.
func (t *Tree) Prepare(f *Files, believed bool) {
	f.name = f.ID.String()
	if f.Status == 0 {
		return
	}
	if f.Payload != nil {
		_, _ = t.pays().Stat(f.name)
	}
	if f.From == index.FiledUnknown {
		t.compare(f, believed)
		return
	}
	if f.From != 0 {
		_, _ = t.status(f.From).Stat(f.name)
	}
	if f.From != f.Status {
		_, _ = t.status(f.Status).Stat(f.name)
	}
}

// compare finds the files of f that are there already.
func (t *Tree) compare(f *Files, believed bool) {
	for st := job.Pending; st <= job.Deleted; st++ {
		if st == f.Status {
			if believed && holds(t.status(st), f.name, f.Text) {
				f.Text = nil
			}
		} else if _, err := t.status(st).Stat(f.name); !errors.Is(err, fs.ErrNotExist) {
			f.strays = append(f.strays, st)
		}
	}
	if f.Payload != nil && believed && holds(t.pays(), f.name, f.Payload) {
		f.Payload = nil
	}
}

// holds reports whether a file has these contents.
func holds(d *durable.Dir, name string, data []byte) bool {
	st, err := d.Stat(name)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != int64(len(data)) {
		return false
	}
	got, err := d.ReadFile(name, make([]byte, 0, len(data)+1024), len(data))
	return err == nil && bytes.Equal(got, data)
}

// WritePayloads writes the payloads of prepared files, up to the first error, and
// returns the number of jobs done. The changes of directories take turns, those
// of payloads beside the turns of job files: a processor is lost while it waits
// for the lock of a directory.
func (t *Tree) WritePayloads(files []*Files) (int, error) {
	return inTurn(&t.payTurn, files, t.writePayload)
}

// WriteJobFiles writes the job files of jobs with payloads in place, up to the
// first error, and returns the number of jobs done. A culled job loses all files.
func (t *Tree) WriteJobFiles(files []*Files) (int, error) {
	return inTurn(&t.jobTurn, files, t.writeJobFile)
}

func inTurn(turn *sync.Mutex, files []*Files, do func(*Files) error) (n int, err error) {
	turn.Lock()
	defer turn.Unlock()
	for n < len(files) && err == nil {
		files[n].Begun = true
		if err = do(files[n]); err == nil {
			n++
		}
	}
	return n, err
}

// writePayload writes the payload, or gives a large one its name. A file that
// could not be trusted is written anew.
func (t *Tree) writePayload(f *Files) error {
	switch {
	case f.Status == 0 || f.PayloadFiled:
		return nil
	case f.Temp == "" && f.Payload == nil:
		return nil
	case f.Temp == "":
		return t.pays().Renew(f.name, f.Payload)
	}
	err := t.opts.Temp.Rename(f.Temp, t.pays(), f.name)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, e := t.opts.Temp.Stat(f.Temp); !errors.Is(e, fs.ErrNotExist) {
		return err // payload/ itself is missing
	}
	// It got its name before a crash, or other hands took it away. Then the other
	// files go on: a reader or a check of the payload will find it missing.
	switch st, e := t.pays().Stat(f.name); {
	case e != nil && !errors.Is(e, fs.ErrNotExist):
		return e
	case e != nil || st.Size != f.Size:
		t.opts.Report(t.Path(Payloads, f.name), "payload lost before it got its name")
	}
	return nil
}

// writeJobFile makes the job file, or gives it new lines and moves it.
func (t *Tree) writeJobFile(f *Files) error {
	if f.Status == 0 {
		return t.remove(f)
	}
	to := t.status(f.Status)
	for _, st := range f.strays {
		if err := t.status(st).Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	switch {
	case f.Text == nil:
		return nil
	case f.From == 0 || f.From == index.FiledUnknown:
		return to.Renew(f.name, f.Text)
	}
	// The new lines first, then the move. A crash between the two leaves
	// pending/ID that says consumed; the journal still has the event.
	old := t.status(f.From)
	err := old.Rewrite(f.name, f.Text)
	if err == nil && f.From != f.Status {
		err = old.Rename(f.name, to, f.name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return to.Renew(f.name, f.Text) // other hands took it away
	}
	return err
}

// remove removes the files of a culled job, also a payload that never got its
// name.
func (t *Tree) remove(f *Files) error {
	if f.Temp != "" {
		if err := t.opts.Temp.Remove(f.Temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, st := range []job.Status{job.Pending, job.Consumed, job.Deleted, 0} {
		if err := t.status(st).Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
