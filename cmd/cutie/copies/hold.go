package copies

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/tree"
)

// The newest jobs of a busy original change while a copy asks for their files. If the
// original is lost just then, the copy may have a payload and no job file.
const bare = "its job file was not in the copy, nor whether the original handed it out"

// hold gives such payloads a job on hold, so that an operator decides, and returns their
// references.
func hold(dir string, queues []promotedQueue, now time.Time) (held []string, err error) {
	for _, q := range queues {
		some, err := holdIn(filepath.Join(dir, home.QueuesDir, q.Queue), now)
		for _, id := range some {
			held = append(held, q.Queue+"/"+id.String())
		}
		if err != nil {
			return held, err
		}
	}
	return held, nil
}

func holdIn(queue string, now time.Time) (held []job.ID, err error) {
	payloads, err := os.ReadDir(filepath.Join(queue, tree.Payloads))
	if err != nil {
		return nil, err
	}
	pending, err := durable.OpenDir(filepath.Join(queue, job.Pending.String()), nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pending.Close()) }()
	for _, e := range payloads {
		id, err := job.ParseID(e.Name())
		if err != nil || !e.Type().IsRegular() || hasFile(queue, e.Name()) {
			continue
		}
		j, err := bareJob(filepath.Join(queue, tree.Payloads, e.Name()), id)
		if err != nil {
			return held, err
		}
		j.Hold(now, bare, time.Time{})
		if err := pending.Replace(e.Name(), j.AppendText(nil)); err != nil {
			return held, err
		}
		held = append(held, id)
	}
	return held, nil
}

func hasFile(queue, name string) bool {
	for st := job.Pending; st <= job.Deleted; st++ {
		if _, err := os.Lstat(filepath.Join(queue, st.String(), name)); !errors.Is(err, fs.ErrNotExist) {
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
