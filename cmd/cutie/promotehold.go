package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/replay"
	"cutie/queuefs/tree"
)

// The newest jobs of a busy original change while a copy asks for their files. If the
// original is lost just then, the copy may have a former job file, or a payload and no
// job file. An event of the home says what becomes of these jobs, so that its followers
// have the same.

// A placed job was given a state.
type placed struct {
	id  job.ID
	st  job.Status
	why string // a pending one is on hold
}

// place gives the jobs of a copy the state of the last event seen, where their job file
// is a former one or missing. A pending one is put on hold, so that an operator decides.
// Then it makes the deletions that waited for these files.
func (q *promotedQueue) place(dir string, now time.Time) (err error) {
	at := filepath.Join(dir, home.QueuesDir, q.Queue)
	for _, c := range q.changing {
		of, name := path.Split(c.File)
		id, err := job.ParseID(name)
		if err != nil {
			continue
		}
		st, err := job.ParseStatus(path.Base(of))
		if err != nil {
			continue // a payload or a result
		}
		if err := q.placeJob(at, id, st, c.Time, now); err != nil {
			return err
		}
	}
	if err := q.makeDeletions(dir); err != nil {
		return err
	}
	if err := q.lackPayloads(at, now); err != nil {
		return err
	}
	if err := q.lackResults(at); err != nil {
		return err
	}
	if err := q.lackOfLater(at, now); err != nil {
		return err
	}
	payloads, err := os.ReadDir(filepath.Join(at, tree.Payloads))
	if err != nil {
		return err
	}
	for _, e := range payloads {
		id, err := job.ParseID(e.Name())
		if err != nil || !e.Type().IsRegular() || hasFile(at, e.Name()) {
			continue
		}
		if err := q.placeJob(at, id, job.Pending, time.Time{}, now); err != nil {
			return err
		}
	}
	return nil
}

// makeDeletions removes the files whose deletion the copy has seen and held back.
func (q *promotedQueue) makeDeletions(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, file := range q.held {
		if err := root.Remove(filepath.FromSlash(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// placeJob places one job: changed is the time of the event, at now it is put on hold. A job
// without any file keeps its number, which published changes name.
func (q *promotedQueue) placeJob(dir string, id job.ID, st job.Status, changed, now time.Time) error {
	j, was, err := formerJob(dir, id, st)
	if errors.Is(err, fs.ErrNotExist) {
		j, err = job.Job{ID: id, Status: job.Pending, Submitted: changed.UTC().Truncate(time.Microsecond)}, nil
	}
	if err != nil {
		return err
	}
	replay.Place(&j, was, st, changed, now)
	q.placed = append(q.placed, placed{id, st, replay.NoJobFile})
	to, err := durable.OpenDir(filepath.Join(dir, st.String()), nil)
	if err != nil {
		return err
	}
	err = to.Replace(id.String(), j.AppendText(nil))
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	for other := job.Pending; other <= job.Deleted; other++ {
		if err == nil && other != st {
			err = os.Remove(filepath.Join(dir, other.String(), id.String()))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// formerJob returns the newest job file of a job in the copy, and its place; after a
// crash it may be in st, too. Without one it returns a job made of the payload, and 0.
func formerJob(dir string, id job.ID, st job.Status) (j job.Job, was job.Status, err error) {
	for at := job.Pending; at <= job.Deleted; at++ {
		text, err := os.ReadFile(filepath.Join(dir, at.String(), id.String()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return j, 0, err
		}
		if k, err := job.Parse(text); err != nil {
			return j, 0, fmt.Errorf("%s/%v: %w", at, id, err)
		} else if was == 0 || k.Seq > j.Seq || k.Seq == j.Seq && at == st {
			j, was = k, at
		}
	}
	if was == 0 {
		j, err = bareJob(filepath.Join(dir, tree.Payloads, id.String()), id)
	}
	return j, was, err
}

func hasFile(dir, name string) bool {
	for st := job.Pending; st <= job.Deleted; st++ {
		if _, err := os.Lstat(filepath.Join(dir, st.String(), name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// bareJob is a job of which nothing but the payload is known.
func bareJob(payload string, id job.ID) (job.Job, error) {
	f, err := os.Open(payload)
	if err != nil {
		return job.Job{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return job.Job{}, err
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	return job.Job{ID: id, Status: job.Pending, Submitted: st.ModTime().UTC().Truncate(time.Microsecond), Size: n,
		Digests: []digest.Value{digest.NewValue(digest.SHA256, h.Sum(nil))}}, err
}
