package queuefs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/tree"
)

// maxJobFile bounds a job file: a sidecar with every octet escaped, and the
// rest.
const maxJobFile = 3*MaxSidecar + 256<<10

// view is a consistent copy of all that memory knows of a job.
type view struct {
	index.Job
	temp string
}

func (q *Queue) view(id JobID) (v view, ok bool) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if v.Job, ok = q.idx.Job(id); ok {
		v.temp = q.backlog.temps[id]
	}
	return v, ok
}

// readers look again this often when a file moves under them.
const readTries = 100

// text returns the job file as the index knows it: from the journal as long
// as the file is behind, else from the directory.
func (q *Queue) text(id JobID) ([]byte, view, error) {
	var last []byte
	for range readTries {
		v, ok := q.view(id)
		if !ok {
			return nil, v, q.noJob()
		}
		var text []byte
		var err error
		if v.Journaled.File != 0 {
			text, _, err = q.journaledParts(&v, false)
		} else {
			text = make([]byte, 0, v.FileLength+512)
			text, err = q.tree.JobFile(id, v.Status, text)
		}
		switch {
		case err == nil && sha256.Sum256(text) == v.FileSHA256:
			return text, v, nil
		case err == nil && last != nil && bytes.Equal(last, text):
			// It does not move: somebody edited the file.
			return text, v, nil
		case err == nil:
			last = text
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, journal.ErrReleased):
			if w, ok := q.view(id); ok && w == v {
				return nil, v, fmt.Errorf("job file of %s: %w", id, err)
			}
		default:
			return nil, v, fmt.Errorf("job file of %s: %w", id, err)
		}
	}
	return nil, view{}, fmt.Errorf("job file of %s does not hold still", id)
}

// noJob is the error for a job outside of the index; a closed service has no
// index.
func (q *Queue) noJob() error {
	if err := q.svc.usable(); errors.Is(err, ErrClosed) {
		return err
	}
	return ErrNoJob
}

// Job returns a job of any status. The error is [ErrNoJob] if there is none. If
// other hands have lost or damaged its file, the job has the facts in the
// index.
func (q *Queue) Job(id JobID) (Job, error) {
	text, v, err := q.text(id)
	if errors.Is(err, ErrNoJob) || transient(err) {
		return Job{}, err
	}
	var j Job
	if err == nil {
		if j, err = ParseJob(text); err == nil && j.ID != id {
			err = fmt.Errorf("it speaks of %s", j.ID)
		}
	}
	if err != nil {
		if v.Job == (index.Job{}) {
			return Job{}, err
		}
		q.svc.report(Problem{Path: "queues/" + q.id + "/" + v.Status.String() + "/" + id.String(), Text: err.Error()})
		j = q.restored(id, &v)
	}
	j.Queue, j.Status = q.id, v.Status // the directory decides, not the line
	j.Size = v.Size                    // the length of the payload as it is served
	return j, nil
}

// transient tells whether err says nothing of the file it came from: the file
// may be whole, and nothing must be written in its place.
func transient(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EIO, syscall.EAGAIN, syscall.EACCES, syscall.EPERM, syscall.ESTALE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// JobFile returns the exact octets of the job file if the job stands in st,
// else [ErrNoJob].
func (q *Queue) JobFile(id JobID, st Status) ([]byte, Facts, error) {
	text, v, err := q.text(id)
	if err != nil {
		return nil, Facts{}, err
	}
	if v.Status != st {
		return nil, Facts{}, ErrNoJob
	}
	return text, fileFacts(&v.Job), nil
}

// Status returns the status of a job and its last change, from memory; 0 if
// there is no such job.
func (q *Queue) Status(id JobID) (Status, time.Time) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if st, at := q.idx.Status(id); st != 0 {
		return st, micro(at)
	}
	return 0, time.Time{}
}

// Peek returns the job at the head of the queue and leaves it there (Cutie 0.3,
// 5.7). If all pending jobs are on hold, or there is none, the error is
// [ErrEmpty].
func (q *Queue) Peek() (Job, error) {
	for range readTries {
		q.mu.RLock()
		id := q.idx.Head()
		q.mu.RUnlock()
		if id == 0 {
			break
		}
		j, err := q.Job(id)
		if err == nil && j.Status == Pending {
			return j, nil
		}
		if err != nil && !errors.Is(err, ErrNoJob) {
			return Job{}, err
		}
	}
	return Job{}, ErrEmpty
}

// A Payload is the content of a job, to be closed after use. It stays readable even when
// the job is culled meanwhile.
type Payload = tree.Payload

// Payload opens the payload of a job of any status.
func (q *Queue) Payload(id JobID) (*Payload, error) {
	for range readTries {
		v, ok := q.view(id)
		if !ok {
			return nil, q.noJob()
		}
		size := v.Size
		var err error
		if size <= inlineLimit {
			var data []byte
			switch {
			case v.Journaled.Payload != 0:
				data, err = q.journaledPayload(&v)
			default:
				data, err = q.tree.ReadPayload(id, v.temp, make([]byte, 0, size+512), inlineLimit)
			}
			if err == nil && int64(len(data)) != size {
				return nil, fmt.Errorf("payload of %s has %d octets instead of %d", id, len(data), size)
			}
			if err == nil {
				return tree.PayloadOf(data), nil
			}
		} else {
			var f *os.File
			f, err = q.tree.OpenPayload(id, v.temp)
			if err == nil {
				if st, e := f.Stat(); e != nil || st.Size() != size {
					f.Close()
					return nil, fmt.Errorf("payload of %s has not the %d octets it should: %w", id, size, errors.Join(e, errDamagedPayload))
				}
				return tree.PayloadIn(f, size), nil
			}
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, journal.ErrReleased) {
			return nil, fmt.Errorf("payload of %s: %w", id, err)
		}
		if w, ok := q.view(id); ok && w == v {
			return nil, fmt.Errorf("payload of %s: %w", id, err)
		}
	}
	return nil, fmt.Errorf("payload of %s does not hold still", id)
}

var errDamagedPayload = errors.New("payload damaged")

// QueueState is the state of a queue at one instant (Cutie 0.3, 3.2).
type QueueState struct {
	Info                       QueueInfo
	Pending, Consumed, Deleted int64
	Held                       int64     // pending ones on hold
	Leased                     int64     // consumed ones in work
	Failed                     int64     // with this outcome
	Seq                        Seq       // of the last event; without one, Before
	Before                     Seq       // last event of former queues of the name, 0 if there was none
	LastEvent                  time.Time // of creation before the first event
	LastSubmission             time.Time // zero if never
	LastConsumption            time.Time // zero if never
	Damage                     string    // why Info differs from queue-info.txt; "" if it does not
	Oldest                     time.Time // submission of the job at the head; zero if no job can be taken
}

// State returns the state of the queue, from memory.
func (q *Queue) State() QueueState {
	q.mu.RLock()
	defer q.mu.RUnlock()
	x, n, last := q.idx, &q.idx.Counts, q.idx.Last()
	s := QueueState{Info: q.set.info, Pending: n.Status[Pending], Consumed: n.Status[Consumed], Deleted: n.Status[Deleted],
		Held: n.Held, Leased: n.Leased, Failed: n.Failed, Seq: last.Seq, Before: q.life.before, Damage: q.set.Bad, LastEvent: micro(last.Time)}
	s.LastSubmission, s.LastConsumption = microOrZero(x.LastSubmit), microOrZero(x.LastConsume)
	if j, ok := x.Job(x.First()); ok {
		s.Oldest = micro(j.Submitted)
	}
	return s
}

// JournalSyncs returns how often the journal was synced since the service was
// opened, and how long that took.
func (s *Service) JournalSyncs() journal.Syncs { return s.log.Stats().Syncs }

// IndexSize returns the memory of the index, in bytes.
func (s *Service) IndexSize() (size int64) {
	for _, q := range s.Queues() {
		q.mu.RLock()
		_, full := q.idx.Held()
		size += int64(full) * index.PageMemory
		q.mu.RUnlock()
	}
	return size
}

// An Entry has the facts of a job for a publisher.
type Entry struct {
	Job     JobID
	Status  Status
	Payload Facts
	File    Facts
}

func fileFacts(j *index.Job) Facts {
	return Facts{Length: int64(j.FileLength), SHA256: j.FileSHA256, Type: job.FileType, Modified: micro(j.Changed)}
}

func entryOf(id JobID, j *index.Job) Entry {
	return Entry{Job: id, Status: j.Status, File: fileFacts(j), Payload: Facts{Length: j.Size,
		SHA256: j.SHA256, MD5: j.MD5, Type: cmp.Or(j.MediaType, DefaultMediaType), Modified: micro(j.Submitted)}}
}

// Entry returns the facts of one job for a publisher, from memory; false if
// there is no such job.
func (q *Queue) Entry(id JobID) (Entry, bool) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	j, ok := q.idx.Job(id)
	if !ok {
		return Entry{}, false
	}
	return entryOf(id, &j), true
}

// Pages returns how many pages of PageJobs job numbers the queue has had.
func (q *Queue) Pages() int {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.idx.Pages()
}

// Page appends the jobs of page n to dst, in order, and returns the last event
// of the page, 0 for none, with its time. All of it is of one instant, and from
// memory.
func (q *Queue) Page(n int, dst []Entry) (entries []Entry, version Seq, at time.Time) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	p := q.idx.Page(n)
	dst = slices.Grow(dst, p.Total)
	q.idx.EachOf(n, func(id JobID, j index.Job) { dst = append(dst, entryOf(id, &j)) })
	return dst, p.Version, microOrZero(p.At)
}

// PageVersion returns the last event of page n, its time, and how many jobs the
// page has, without visiting them.
func (q *Queue) PageVersion(n int) (version Seq, at time.Time, pending, total int) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	p := q.idx.Page(n)
	return p.Version, microOrZero(p.At), p.Pending, p.Total
}

// InfoFile returns queue-info.txt as it stands.
func (q *Queue) InfoFile() ([]byte, Facts) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.set.Text, q.set.facts
}
