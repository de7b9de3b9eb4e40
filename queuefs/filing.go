package queuefs

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
)

// filedAtOnce is how many jobs have their files written in one go, and
// filedOctets what these may have together in the journal: to take turns for
// every one would cost more than to write it.
const (
	filedAtOnce = 32
	filedOctets = 1 << 20
)

// A draft is what a job is to have in files.
type draft struct {
	id            JobID
	name          string
	v             view
	text, payload []byte   // nil: stays as it is
	strays        []Status // where there are files of it that should not be
	begun, done   bool
}

// fileSome brings the files of the jobs that are behind longest up to the
// journal, and returns how many it took up: at most n, and not many. Only one
// caller at a time works on a job: it stays marked dirty, and is not in the
// list, until it is done. The first error ends it.
func (q *Queue) fileSome(n int) (int, error) {
	q.filing.RLock()
	defer q.filing.RUnlock()
	drafts, err := q.takeDirty(min(n, filedAtOnce))
	if err != nil || len(drafts) == 0 {
		return 0, err
	}
	err = q.fileDrafts(drafts)
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range drafts {
		if !q.filed(&drafts[i]) {
			return 0, errors.Join(err, ErrClosed)
		}
	}
	return len(drafts), err
}

// takeDirty takes up to n jobs from the list.
func (q *Queue) takeDirty(n int) ([]draft, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.backlog.dirty))
	if n == 0 {
		q.backlog.dirty = nil
		return nil, nil
	}
	drafts := make([]draft, 0, n)
	for octets := int64(0); len(drafts) < n && octets < filedOctets; {
		d := draft{id: q.backlog.dirty[len(drafts)]}
		var ok bool
		if d.v.Job, ok = q.idx.Known(d.id); !ok {
			return nil, ErrClosed
		}
		d.v.temp = q.backlog.temps[d.id]
		if d.v.Journaled.Payload != 0 {
			octets += d.v.Size
		}
		drafts = append(drafts, d)
	}
	q.backlog.dirty = q.backlog.dirty[len(drafts):]
	q.backlog.drafted += uint64(len(drafts))
	return drafts, nil
}

// filed notes what became of a draft; q.mu is held. It returns false if the
// queue was closed.
func (q *Queue) filed(d *draft) bool {
	if _, ok := q.idx.Known(d.id); !ok {
		return false
	}
	if !d.done {
		if d.begun && d.v.Filed != index.FiledUnknown {
			q.idx.SetFiled(d.id, index.FiledUnknown)
		}
		q.backlog.dirty = append(q.backlog.dirty, d.id)
		return true
	}
	q.idx.SetFiled(d.id, d.v.Status)
	if d.v.Status != 0 {
		q.idx.SetPayloadFiled(d.id)
	}
	delete(q.backlog.temps, d.id)
	if !q.idx.SetFilesWritten(d.id, d.v.Journaled) {
		q.backlog.dirty = append(q.backlog.dirty, d.id)
		return true
	}
	q.svc.dirty.Add(-1)
	return true
}

// fileDrafts writes the files of drafts, up to the first error; that draft
// becomes the last of them, so that it does not keep the others from their
// files at every try. The changes of directories take turns, those of payloads
// beside those of job files: a processor is lost that waits for the lock of a
// directory. So before its turns everybody reads, beside others, what they
// would otherwise wait for.
func (q *Queue) fileDrafts(drafts []draft) error {
	ready := 0
	var unready error
	for ; ready < len(drafts); ready++ {
		if unready = q.prepare(&drafts[ready]); unready != nil {
			break
		}
	}
	placed, unplaced := inTurn(&q.filing.payload, drafts[:ready], q.placePayload)
	done, undone := inTurn(&q.filing.text, drafts[:placed], q.placeText)
	for i := range done {
		drafts[i].done = true
	}
	if unready != nil {
		toLast(drafts, ready)
	}
	if unplaced != nil {
		toLast(drafts, placed)
	}
	if undone != nil {
		toLast(drafts, done)
	}
	return cmp.Or(undone, unplaced, unready)
}

// inTurn does something with drafts in turn, and returns how many it was done
// with before an error.
func inTurn(turn *sync.Mutex, drafts []draft, do func(*draft) error) (n int, err error) {
	turn.Lock()
	defer turn.Unlock()
	for n < len(drafts) && err == nil {
		drafts[n].begun = true
		if err = do(&drafts[n]); err == nil {
			n++
		}
	}
	return n, err
}

// toLast makes draft i the last one.
func toLast(drafts []draft, i int) {
	d := drafts[i]
	copy(drafts[i:], drafts[i+1:])
	drafts[len(drafts)-1] = d
}

// prepare reads what the files of a job will have, and has the system read
// what the changes of directories will ask of the disk.
func (q *Queue) prepare(d *draft) error {
	var b [13]byte
	d.name = string(d.id.Append(b[:0]))
	if err := q.fileResults(d.id); err != nil {
		return err
	}
	if d.v.Status == 0 {
		return nil
	}
	var err error
	if d.text, d.payload, err = q.journaledParts(&d.v, !d.v.PayloadFiled && d.v.temp == "" && d.v.Journaled.Payload != 0); err != nil {
		return err
	}
	if d.payload != nil {
		_, _ = q.dirs.payload.Stat(d.name)
	}
	from := d.v.Filed
	if from == index.FiledUnknown {
		q.compare(d)
		return nil
	}
	if from != 0 {
		_, _ = q.dirs.status[from].Stat(d.name)
	}
	if from != d.v.Status {
		_, _ = q.dirs.status[d.v.Status].Stat(d.name)
	}
	return nil
}

// compare finds out what of a draft there is already: after a crash the files of
// most jobs are as they should be.
func (q *Queue) compare(d *draft) {
	believed := !q.svc.doubt.Load()
	for st := Pending; st <= Deleted; st++ {
		if st == d.v.Status {
			if believed && holds(q.dirs.status[st], d.name, d.text) {
				d.text = nil
			}
		} else if _, err := q.dirs.status[st].Stat(d.name); !errors.Is(err, fs.ErrNotExist) {
			d.strays = append(d.strays, st)
		}
	}
	if d.payload != nil && believed && holds(q.dirs.payload, d.name, d.payload) {
		d.payload = nil
	}
}

// holds tells whether a file has these contents.
func holds(d *durable.Dir, name string, data []byte) bool {
	st, err := d.Stat(name)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != int64(len(data)) {
		return false
	}
	got, err := d.ReadFile(name, make([]byte, 0, len(data)+1024), len(data))
	return err == nil && bytes.Equal(got, data)
}

// placePayload writes the payload, or gives a large one its name. As placeText
// it may be called again after any of its steps: a file that could not be
// trusted is written anew.
func (q *Queue) placePayload(d *draft) error {
	switch {
	case d.v.Status == 0 || d.v.PayloadFiled:
		return nil
	case d.v.temp == "" && d.payload == nil:
		return nil
	case d.v.temp == "":
		return create(q.dirs.payload, d.name, d.payload)
	}
	err := q.svc.temp.Rename(d.v.temp, q.dirs.payload, d.name)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, e := q.svc.temp.Stat(d.v.temp); !errors.Is(e, fs.ErrNotExist) {
		return err // what is missing is payload/ itself
	}
	// It got its name before a crash, or other hands took it away. Then the other
	// files go on: who reads or checks the payload will find that it is missing.
	switch st, e := q.dirs.payload.Stat(d.name); {
	case e != nil && !errors.Is(e, fs.ErrNotExist):
		return e
	case e != nil || st.Size != d.v.Size:
		q.svc.report(Problem{Path: q.path(payloadDir, d.name), Text: "payload lost before it got its name"})
	}
	return nil
}

// placeText makes the job file, or gives it new lines and moves it. A culled job
// loses all files.
func (q *Queue) placeText(d *draft) error {
	name := d.name
	if d.v.Status == 0 {
		return q.unfile(name, d.v.temp)
	}
	to := q.dirs.status[d.v.Status]
	from := d.v.Filed
	for _, st := range d.strays {
		if err := q.dirs.status[st].Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	switch {
	case d.text == nil:
		return nil
	case from == 0 || from == index.FiledUnknown:
		return create(to, name, d.text)
	}
	// The new lines first, then the move. A crash between the two leaves
	// pending/ID that says consumed; the journal still has the event.
	old := q.dirs.status[from]
	err := old.Rewrite(name, d.text)
	if err == nil && from != d.v.Status {
		err = old.Rename(name, to, name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return create(to, name, d.text) // other hands took it away
	}
	return err
}

// create makes a file, over what a former life may have left. It is whole or
// not there.
func create(d *durable.Dir, name string, data []byte) error {
	err := d.Put(name, data)
	if errors.Is(err, fs.ErrExist) {
		if err := d.Remove(name); err != nil {
			return err
		}
		err = d.Put(name, data)
	}
	return err
}

// unfile removes the files of a culled job, also one that never got its name.
func (q *Queue) unfile(name, temp string) error {
	if temp != "" {
		if err := q.svc.temp.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, d := range []*durable.Dir{q.dirs.status[Pending], q.dirs.status[Consumed], q.dirs.status[Deleted], q.dirs.payload} {
		if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
