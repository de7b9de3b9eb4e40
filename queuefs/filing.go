package queuefs

import (
	"cmp"
	"errors"

	"cutie/queuefs/index"
	"cutie/queuefs/tree"
)

// filedAtOnce is how many jobs have their files written in one go, and
// filedOctets what these may have together in the journal: to take turns for
// every one would cost more than to write it.
const (
	filedAtOnce = 32
	filedOctets = 1 << 20
)

// A draft is the state that the files of a job are to have.
type draft struct {
	v     view
	files tree.Files
	done  bool
}

// fileSome brings the files of the jobs that are behind longest up to the
// journal, and returns how many it took up: at most n, and not many. Only one
// caller at a time works on a job: it stays marked dirty, and is not in the
// list, until it is done. The first error ends it.
func (q *Queue) fileSome(n int) (int, error) {
	q.tree.Begin()
	defer q.tree.End()
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
		id := q.backlog.dirty[len(drafts)]
		j, ok := q.idx.Known(id)
		if !ok {
			return nil, ErrClosed
		}
		if j.Journaled.Payload != 0 {
			octets += j.Size
		}
		temp := q.backlog.temps[id]
		drafts = append(drafts, draft{v: view{j, temp}, files: tree.Files{ID: id, Status: j.Status, From: j.Filed,
			Temp: temp, Size: j.Size, PayloadFiled: j.PayloadFiled}})
	}
	q.backlog.dirty = q.backlog.dirty[len(drafts):]
	q.backlog.drafted += uint64(len(drafts))
	return drafts, nil
}

// filed notes what became of a draft; q.mu is held. It returns false if the
// queue was closed.
func (q *Queue) filed(d *draft) bool {
	id := d.files.ID
	if _, ok := q.idx.Known(id); !ok {
		return false
	}
	if !d.done {
		if d.files.Begun && d.v.Filed != index.FiledUnknown {
			q.idx.SetFiled(id, index.FiledUnknown)
		}
		q.backlog.dirty = append(q.backlog.dirty, id)
		return true
	}
	q.idx.SetFiled(id, d.v.Status)
	if d.v.Status != 0 {
		q.idx.SetPayloadFiled(id)
	}
	delete(q.backlog.temps, id)
	if !q.idx.SetFilesWritten(id, d.v.Journaled) {
		q.backlog.dirty = append(q.backlog.dirty, id)
		return true
	}
	q.svc.dirty.Add(-1)
	return true
}

// fileDrafts writes the files of drafts, up to the first error; that draft
// becomes the last of them, so that it does not keep the others from their
// files at every try. Directories change in turns, so everything to be read is
// read before.
func (q *Queue) fileDrafts(drafts []draft) error {
	ready := 0
	var unready error
	for ; ready < len(drafts); ready++ {
		if unready = q.prepare(&drafts[ready]); unready != nil {
			break
		}
	}
	files := make([]*tree.Files, ready)
	for i := range files {
		files[i] = &drafts[i].files
	}
	placed, unplaced := q.tree.WritePayloads(files)
	done, undone := q.tree.WriteJobFiles(files[:placed])
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

// toLast makes draft i the last one.
func toLast(drafts []draft, i int) {
	d := drafts[i]
	copy(drafts[i:], drafts[i+1:])
	drafts[len(drafts)-1] = d
}

// prepare reads what the files of a job will have.
func (q *Queue) prepare(d *draft) error {
	if err := q.fileResults(d.files.ID); err != nil {
		return err
	}
	f := &d.files
	if f.Status != 0 {
		var err error
		if f.Text, f.Payload, err = q.journaledParts(&d.v, !f.PayloadFiled && f.Temp == "" && d.v.Journaled.Payload != 0); err != nil {
			return err
		}
	}
	q.tree.Prepare(f, !q.svc.doubt.Load())
	return nil
}
