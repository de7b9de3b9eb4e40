package main

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"cutie/publisher/destination"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/replay"
	"cutie/queuefs/tree"
)

// Payloads, results and settings may be in transit as jobs are when an original is lost:
// its lists name them, and the copy has no such file, or a former one. The home makes an
// event of each, so that followers do not wait for these files, nor keep them.

// A lacked result is one that the copy does not have.
type lacked struct {
	id   job.ID
	name string
}

// lackPayloads lists the jobs whose payload is in transit and missing, and puts the pending
// ones on hold.
func (q *promotedQueue) lackPayloads(dir string, now time.Time) error {
	for _, c := range q.changing {
		of, name := path.Split(c.File)
		id, err := job.ParseID(name)
		if err != nil || path.Base(of) != tree.Payloads {
			continue
		}
		if err := q.lackPayload(dir, id, now); err != nil {
			return err
		}
	}
	return nil
}

// lackPayload is lackPayloads for one of them.
func (q *promotedQueue) lackPayload(dir string, id job.ID, now time.Time) error {
	if _, err := os.Lstat(filepath.Join(dir, tree.Payloads, id.String())); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	j, st, err := formerJob(dir, id, 0)
	if errors.Is(err, fs.ErrNotExist) { // its job file was removed since
		return nil
	}
	if err != nil {
		return err
	}
	q.noPayload = append(q.noPayload, id)
	if st != job.Pending {
		return nil
	}
	j.Hold(now, replay.NoPayload, time.Time{})
	q.placed = append(slices.DeleteFunc(q.placed, func(p placed) bool { return p.id == id }), placed{id, st, replay.NoPayload})
	return replace(filepath.Join(dir, st.String()), id.String(), j.AppendText(nil))
}

// lackOfLater lists what the jobs of later events than LastEvent lack: a copy that was cut
// off has job files of changes not noted yet, and perhaps not what belongs to them.
func (q *promotedQueue) lackOfLater(dir string, now time.Time) error {
	for st := job.Pending; st <= job.Deleted; st++ {
		files, err := os.ReadDir(filepath.Join(dir, st.String()))
		if err != nil {
			return err
		}
		for _, e := range files {
			id, err := job.ParseID(e.Name())
			if err != nil || !e.Type().IsRegular() {
				continue
			}
			j, at, err := formerJob(dir, id, st)
			if err != nil || at != st || uint64(j.Seq) <= q.LastEvent {
				continue // the check names a file that cannot be read
			}
			if !slices.Contains(q.noPayload, id) {
				err = q.lackPayload(dir, id, now)
			}
			for _, r := range j.Results {
				if err == nil && !slices.Contains(q.lacked, lacked{id, r.Name}) && !hasResult(dir, id, r) {
					err = q.lackResult(dir, id, r.Name)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// lackedType is the media type of an empty file in the place of a result, until the event
// that takes it from the job: a promotion that goes on knows it again.
const lackedType = "application/x-cutie-lacked"

// hasResult reports whether a result is in the copy as the job file has it.
func hasResult(dir string, id job.ID, r job.Result) bool {
	if r.MediaType == lackedType {
		return false
	}
	f, err := os.Open(filepath.Join(dir, tree.Results, id.String(), r.Name))
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return err == nil && [sha256.Size]byte(h.Sum(nil)) == r.SHA256
}

// lacksPayload reports whether a path below the home is that of a payload in transit.
func (q *promotedQueue) lacksPayload(file string) bool {
	of, name := path.Split(file)
	id, err := job.ParseID(name)
	return err == nil && path.Clean(of) == path.Join(home.QueuesDir, q.Queue, tree.Payloads) && slices.Contains(q.noPayload, id)
}

// lackResults gives jobs empty files in the place of results in transit. [promotedQueue.tell]
// takes these results from the jobs, by an event.
func (q *promotedQueue) lackResults(dir string) error {
	for _, c := range q.changing {
		at, name := path.Split(c.File)
		at, number := path.Split(path.Clean(at))
		id, err := job.ParseID(number)
		if err != nil || path.Base(at) != tree.Results || job.CheckResultName(name) != nil {
			continue
		}
		if err := q.lackResult(dir, id, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// lackResult is lackResults for one of them. Without a job file the error is [fs.ErrNotExist].
func (q *promotedQueue) lackResult(dir string, id job.ID, name string) error {
	j, st, err := formerJob(dir, id, 0)
	if err != nil {
		return err
	}
	if st == 0 {
		return nil // of its payload alone, which has no results
	}
	empty := job.Result{Name: name, MediaType: lackedType, SHA256: sha256.Sum256(nil)}
	j.Results = slices.Clone(j.Results)
	i := slices.IndexFunc(j.Results, func(r job.Result) bool { return r.Name == name })
	if i < 0 && len(j.Results) == job.MaxResults {
		return nil
	}
	if i < 0 {
		j.Results = append(j.Results, empty)
	} else {
		j.Results[i] = empty
	}
	results := filepath.Join(dir, tree.Results, id.String())
	if err := os.MkdirAll(results, 0o700); err != nil {
		return err
	}
	if err := replace(results, name, nil); err != nil {
		return err
	}
	q.lacked = append(q.lacked, lacked{id, name})
	return replace(filepath.Join(dir, st.String()), id.String(), j.AppendText(nil))
}

// drop takes the lacked results from a job.
func (q *promotedQueue) drop(j *job.Job) error {
	j.Results = slices.DeleteFunc(slices.Clone(j.Results), func(r job.Result) bool {
		return slices.Contains(q.lacked, lacked{j.ID, r.Name})
	})
	return nil
}

// noteSettings notes in queue-info.txt that the settings are in transit, if they are: the
// promotion makes a file of its own of it in this way, and the opening of the home an event.
func (q *promotedQueue) noteSettings(dir string, now time.Time) error {
	if !slices.ContainsFunc(q.changing, func(c destination.Changing) bool { return path.Base(c.File) == home.QueueInfoName }) {
		return nil
	}
	dir = filepath.Join(dir, home.QueuesDir, q.Queue)
	text, err := os.ReadFile(filepath.Join(dir, home.QueueInfoName))
	if err != nil {
		return err
	}
	q.Former = true
	return replace(dir, home.QueueInfoName, replay.NoteFormer(text, now))
}

// replace writes a file of a home that nobody has open.
func replace(dir, name string, text []byte) error {
	d, err := durable.OpenDir(dir, nil)
	if err != nil {
		return err
	}
	return errors.Join(d.Replace(name, text), d.Close())
}
