package queuefs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/namaste"
)

// CheckOptions say what [Check] may change.
type CheckOptions struct {
	Repair  bool             // mend what can be mended
	Rebuild bool             // forget the index and make it from the directories; what is missing in the home is made
	Now     func() time.Time // nil means time.Now
	Segment int64            // as in Options
}

// A Report is what a check found.
type Report struct {
	Queues, Jobs int
	Octets       int64     // of payloads read
	Mended       []Problem // found and dealt with
	Problems     []Problem // that remain
}

// Check opens the home in dir, which nobody else may have open, and compares
// the whole of it: that each job has one job file, in the directory of its
// status, which says what the index says, and a payload with its digests. Even
// without Repair it does what opening a home does: it replays the journal and
// takes in what was moved by hand.
func Check(dir string, o CheckOptions) (r Report, err error) {
	mended := func(p Problem) { r.Mended = append(r.Mended, p) }
	if o.Rebuild {
		if err := rebuild(dir, o, mended); err != nil {
			return r, err
		}
	}
	s, err := Open(dir, Options{Report: mended, Now: o.Now, Segment: o.Segment})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.fileNow(); err != nil {
		return r, err
	}
	for _, q := range s.Queues() {
		r.Queues++
		if err := q.check(&r, o.Repair); err != nil {
			return r, fmt.Errorf("queue %s: %w", q.id, err)
		}
	}
	return r, nil
}

// fileNow brings all files up to the journal.
func (s *Service) fileNow() error {
	at := s.log.Done().At
	for _, q := range s.Queues() {
		if err := q.fileUpTo(at); err != nil {
			return err
		}
	}
	return nil
}

// check compares a queue whose files are exact.
func (q *Queue) check(r *Report, repair bool) error {
	where, err := q.list(nil)
	if err != nil {
		return err
	}
	payloads := map[JobID]bool{}
	if err := q.dirs.payload.Names(func(name string) {
		id, err := ParseJobID(name)
		if err != nil {
			r.Problems = append(r.Problems, Problem{Path: q.path(payloadDir, name), Text: "not the name of a job"})
			return
		}
		payloads[id] = true
	}); err != nil {
		return err
	}
	for n := range q.Pages() {
		entries, _, _ := q.Page(n, nil)
		for _, e := range entries {
			r.Jobs++
			st := where[e.Job]
			delete(where, e.Job)
			if !payloads[e.Job] {
				r.Problems = append(r.Problems, Problem{Path: q.path(payloadDir, e.Job.String()), Text: "payload missing"})
			} else if err := q.checkPayload(e); err != nil {
				r.Problems = append(r.Problems, Problem{Path: q.path(payloadDir, e.Job.String()), Text: err.Error()})
			} else {
				r.Octets += e.Payload.Length
			}
			delete(payloads, e.Job)
			if err := q.checkJobFile(e, st, repair, r); err != nil {
				return err
			}
		}
	}
	if err := q.checkResults(r); err != nil {
		return err
	}
	for _, id := range sortedIDs(where) {
		r.Problems = append(r.Problems, Problem{Path: q.path(where[id].String(), id.String()), Text: "job file of a job the index does not know"})
	}
	for _, id := range sortedIDs(payloads) {
		r.Problems = append(r.Problems, Problem{Path: q.path(payloadDir, id.String()), Text: "payload without a job"})
	}
	return nil
}

func sortedIDs[V any](m map[JobID]V) []JobID {
	ids := make([]JobID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (q *Queue) path(dir, name string) string { return queuesDir + "/" + q.id + "/" + dir + "/" + name }

func (q *Queue) checkPayload(e Entry) error {
	f, err := q.dirs.payload.Open(e.Job.String())
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	switch {
	case err != nil:
		return err
	case n != e.Payload.Length:
		return fmt.Errorf("payload has %d octets instead of %d", n, e.Payload.Length)
	case [32]byte(h.Sum(nil)) != e.Payload.SHA256:
		return fmt.Errorf("payload has not its SHA-256 digest")
	}
	return nil
}

// checkJobFile compares the job file with the index. A file that was edited
// and still parses is taken as it is when repairing; one that does not is set
// aside and written again.
func (q *Queue) checkJobFile(e Entry, st Status, repair bool, r *Report) error {
	path := q.path(e.Status.String(), e.Job.String())
	var why string
	var j Job
	var text []byte
	var err error
	if st != e.Status {
		why = "job file missing"
		if st != 0 {
			why = "job file is in " + st.String()
		}
	} else if j, text, err = q.readJob(e.Job, st); transient(err) {
		return err
	} else if err != nil {
		why = err.Error()
	} else if sha256.Sum256(text) != e.File.SHA256 {
		why = "job file was edited"
	} else if j.Status != st {
		why = "job file says " + j.Status.String()
	} else {
		return nil
	}
	if !repair {
		r.Problems = append(r.Problems, Problem{Path: path, Text: why})
		return nil
	}
	r.Mended = append(r.Mended, Problem{Path: path, Text: why + "; mended"})
	if st != 0 && st != e.Status {
		return q.takeMove(e.Job, e.Status, st)
	}
	if err != nil && st != 0 {
		if err := q.setAside(st, e.Job.String(), why); err != nil {
			return err
		}
	}
	if st == 0 || err != nil {
		v, _ := q.view(e.Job)
		j = q.restored(e.Job, &v)
	}
	return q.commit(func() ([]*record, error) {
		k := j
		seq, us := q.next()
		k.enter(e.Status)
		k.Seq, k.Size = seq, e.Payload.Length
		q.idx.slot(e.Job).setFiled(filedUnknown)
		rec := q.recordOf(&k, Update, e.Status, us)
		rec.submitted = e.Payload.Modified.UnixMicro()
		return []*record{rec}, nil
	})
}

// rebuild makes what a home needs around its queue directories and takes the
// index away, so that opening the home reads the directories. The journal
// stays: what it holds is later than the files.
func rebuild(dir string, o CheckOptions, mended func(Problem)) error {
	d, err := durable.OpenDir(dir, nil)
	if err != nil {
		return err
	}
	defer d.Close()
	lock, err := lockHome(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	now := o.Now
	if now == nil {
		now = time.Now
	}
	tag := namaste.Tag{Number: namaste.Type, Value: "Cutie/" + specVersion}
	if err := checkTag(d, mended); errors.Is(err, ErrNoHome) {
		if err := d.Replace(tag.FileName(), []byte(tag.Content())); err != nil {
			return err
		}
		mended(Problem{Path: tag.FileName(), Text: "missing; made"})
	} else if err != nil {
		return err
	}
	if _, err := d.Stat(infoName); errors.Is(err, fs.ErrNotExist) {
		if err := d.Replace(infoName, ServiceInfo{Scheme: Scheme, Created: now()}.file()); err != nil {
			return err
		}
		mended(Problem{Path: infoName, Text: "missing; made"})
	}
	if err := rebuildQueues(d, now, mended); err != nil {
		return err
	}
	logs, err := d.MakeSub(logDir)
	if err != nil {
		return err
	}
	defer logs.Close()
	ix, err := logs.MakeSub(indexDir)
	if err != nil {
		return err
	}
	defer ix.Close()
	return dropIndex(ix)
}

// dropIndex removes all pages. The checkpoint stays: it says where the journal
// begins to know better than the directories. So do the numbers of the queues,
// which never go back.
func dropIndex(ix *durable.Dir) error {
	qs, err := ix.MakeSub(queuesDir)
	if err != nil {
		return err
	}
	defer qs.Close()
	var names []string
	if err := qs.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	for _, name := range names {
		d, err := qs.Sub(name)
		if err != nil {
			continue // no directory, so nobody reads it
		}
		err = dropPages(d)
		d.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// rebuildQueues lists every queue directory in queues.txt and gives it the
// files it lacks.
func rebuildQueues(d *durable.Dir, now func() time.Time, mended func(Problem)) error {
	qdir, err := openQueues(d)
	if err != nil {
		return err
	}
	defer qdir.Close()
	data, err := d.ReadFile(queuesName, nil, 64<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listed, err := readQueues(data)
	if err != nil {
		return err
	}
	var names []string
	if err := qdir.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		id, err := CleanQueueID(name)
		if err != nil || id != name {
			continue
		}
		sub, err := qdir.Sub(name)
		if err != nil {
			continue // no directory
		}
		if _, err := sub.Stat(queueInfo); errors.Is(err, fs.ErrNotExist) {
			info := QueueInfo{ID: id, Identifier: id, CullingSize: -1, CullingAge: -1, Created: now()}
			err = sub.Replace(queueInfo, info.file())
			mended(Problem{Path: queuesDir + "/" + name + "/" + queueInfo, Text: "missing; made"})
			if err != nil {
				sub.Close()
				return err
			}
		}
		sub.Close()
		if !slices.Contains(listed, id) {
			if len(data) > 0 && !strings.HasSuffix(string(data), "\n") {
				data = append(data, '\n')
			}
			data = append(append(data, id...), '\n')
			mended(Problem{Path: queuesName, Text: "queue " + id + " was not listed; added"})
			if err := d.Replace(queuesName, data); err != nil {
				return err
			}
		}
	}
	return nil
}
