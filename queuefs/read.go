package queuefs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/journal/segment"
)

// maxJobFile bounds what is read as a job file: a sidecar with every octet
// escaped, and the rest.
const maxJobFile = 3*MaxSidecar + 256<<10

// view is a consistent look at what the index says of a job.
type view struct {
	slot [slotSize]byte
	md5  [16]byte // of the payload; zero: unknown
	u    unfiled
	temp string
	typ  string
}

func (q *Queue) view(id JobID) (v view, ok bool) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	p := q.idx.page(id)
	if p == nil {
		return v, false
	}
	s := p.slot(int(id % PageJobs))
	if s.status() == 0 {
		return v, false
	}
	copy(v.slot[:], s)
	v.md5 = p.md5(int(id % PageJobs))
	v.u, v.temp, v.typ = q.unfiled.of(id), q.temps[id], q.types[s.mediaType()]
	return v, true
}

func (v *view) s() slot { return slot(v.slot[:]) }

// readers look again this often when a file moves under them.
const readTries = 100

// text returns the job file as the index knows it: from the journal as long
// as the file is behind, else from the directory.
func (q *Queue) text(id JobID) ([]byte, view, error) {
	var name [13]byte
	var last []byte
	for range readTries {
		v, ok := q.view(id)
		if !ok {
			return nil, v, q.noJob()
		}
		s := v.s()
		var text []byte
		var err error
		if v.u.text != 0 {
			text = make([]byte, s.textLen())
			err = q.svc.log.ReadAt(text, v.u.text)
		} else {
			text = make([]byte, 0, s.textLen()+512)
			text, err = q.dirs.status[s.status()].ReadFile(string(id.Append(name[:0])), text, maxJobFile)
		}
		switch {
		case err == nil && sha256.Sum256(text) == [32]byte(s.fileSHA()):
			return text, v, nil
		case err == nil && last != nil && bytes.Equal(last, text):
			// It does not move: somebody edited the file.
			return text, v, nil
		case err == nil:
			last = text
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, segment.ErrReleased):
			if w, ok := q.view(id); ok && w == v {
				return nil, v, fmt.Errorf("job file of %s: %w", id, err)
			}
		default:
			return nil, v, fmt.Errorf("job file of %s: %w", id, err)
		}
	}
	return nil, view{}, fmt.Errorf("job file of %s does not hold still", id)
}

// noJob is the error for a job that is not in the index, which a closed
// service no longer has.
func (q *Queue) noJob() error {
	if err := q.svc.usable(); errors.Is(err, ErrClosed) {
		return err
	}
	return ErrNoJob
}

// Job returns a job of any status. The error is [ErrNoJob] if there is none.
// A job whose file was lost or damaged by other hands is given as far as the
// index knows it.
func (q *Queue) Job(id JobID) (Job, error) {
	text, v, err := q.text(id)
	if errors.Is(err, ErrNoJob) || transient(err) {
		return Job{}, err
	}
	s := v.s()
	var j Job
	if err == nil {
		if j, err = ParseJob(text); err == nil && j.ID != id {
			err = fmt.Errorf("it speaks of %s", j.ID)
		}
	}
	if err != nil {
		if v.slot == ([slotSize]byte{}) {
			return Job{}, err
		}
		q.svc.report(Problem{Path: "queues/" + q.id + "/" + s.status().String() + "/" + id.String(), Text: err.Error()})
		j = q.restored(id, &v)
	}
	j.Queue, j.Status = q.id, s.status() // the directory decides, not the line
	j.Size = s.size()                    // what the payload is served with
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

// job is what the index alone knows.
func (v *view) job(id JobID) Job {
	s := v.s()
	j := Job{ID: id, Status: s.status(), MediaType: v.typ, Size: s.size(), Submitted: micro(s.submitted()),
		Digests: []digest.Value{digest.NewValue(digest.SHA256, s.sha())},
		Extra:   anvl.Record{{Name: "note", Value: "job file lost, restored from the index"}}}
	if v.md5 != ([16]byte{}) {
		j.Digests = append(j.Digests, digest.NewValue(digest.MD5, v.md5[:]))
	}
	at := micro(s.changed())
	switch s.status() {
	case Pending:
		if s.has(flagHeld) {
			j.Held = at
		}
	case Consumed:
		j.Consumed = at
		if s.has(flagLeased) {
			j.Lease.Ends = at // nobody can show that it has it
		}
	case Deleted:
		j.Deleted = at
	}
	if j.Outcome = s.outcome(); j.Outcome != 0 {
		j.Finished = at
	}
	return j
}

// JobFile returns the exact octets of the job file if the job stands in st,
// else [ErrNoJob].
func (q *Queue) JobFile(id JobID, st Status) ([]byte, Facts, error) {
	text, v, err := q.text(id)
	if err != nil {
		return nil, Facts{}, err
	}
	s := v.s()
	if s.status() != st {
		return nil, Facts{}, ErrNoJob
	}
	return text, s.fileFacts(), nil
}

// Status returns where a job stands and its last change, from memory; 0 if
// there is no such job.
func (q *Queue) Status(id JobID) (Status, time.Time) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if s := q.idx.slot(id); s != nil && s.status() != 0 {
		return s.status(), micro(s.changed())
	}
	return 0, time.Time{}
}

// Peek returns the job at the head of the queue and leaves it there (Cutie
// 0.3, 5.7). If no job is pending, but for those on hold, the error is
// [ErrEmpty].
func (q *Queue) Peek() (Job, error) {
	for range readTries {
		id := q.head()
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

// A Payload is the content of a job, to be closed after use. It stays
// readable even when the job is culled meanwhile.
type Payload struct {
	io.ReadSeeker
	size int64
	file *os.File
}

// Size returns the octets of the payload.
func (p *Payload) Size() int64 { return p.size }

// Close lets go of the payload.
func (p *Payload) Close() error {
	if p.file != nil {
		return p.file.Close()
	}
	return nil
}

// WriteTo writes the rest of the payload to w, as for a consumer, who is the
// last to ask for it. Whoever serves a payload to many reads from it.
func (p *Payload) WriteTo(w io.Writer) (int64, error) {
	if p.file != nil {
		return durable.CopyOnce(w, p.file)
	}
	return p.ReadSeeker.(*bytes.Reader).WriteTo(w)
}

// SendTo is WriteTo for one of many who ask for the payload: it goes from the
// page cache to the connection without passing through the program.
func (p *Payload) SendTo(w io.Writer) (int64, error) {
	if p.file != nil {
		return io.Copy(w, p.file)
	}
	return p.WriteTo(w)
}

// Payload opens the payload of a job of any status.
func (q *Queue) Payload(id JobID) (*Payload, error) {
	var name [13]byte
	for range readTries {
		v, ok := q.view(id)
		if !ok {
			return nil, q.noJob()
		}
		size := v.s().size()
		file := string(id.Append(name[:0]))
		var err error
		if size <= inlineLimit {
			var data []byte
			switch {
			case v.u.payload != 0:
				data = make([]byte, size)
				err = q.svc.log.ReadAt(data, v.u.payload)
			default:
				data = make([]byte, 0, size+512)
				if v.temp != "" {
					data, err = q.svc.temp.ReadFile(v.temp, data, inlineLimit)
				}
				if v.temp == "" || errors.Is(err, fs.ErrNotExist) { // it has its name by now
					data, err = q.dirs.payload.ReadFile(file, data, inlineLimit)
				}
			}
			if err == nil && int64(len(data)) != size {
				return nil, fmt.Errorf("payload of %s has %d octets instead of %d", id, len(data), size)
			}
			if err == nil {
				return &Payload{ReadSeeker: bytes.NewReader(data), size: size}, nil
			}
		} else {
			var f *os.File
			if v.temp != "" {
				f, err = q.svc.temp.Open(v.temp)
			}
			if v.temp == "" || errors.Is(err, fs.ErrNotExist) {
				f, err = q.dirs.payload.Open(file)
			}
			if err == nil {
				if st, e := f.Stat(); e != nil || st.Size() != size {
					f.Close()
					return nil, fmt.Errorf("payload of %s has not the %d octets it should: %w", id, size, errors.Join(e, errDamagedPayload))
				}
				return &Payload{ReadSeeker: f, size: size, file: f}, nil
			}
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, segment.ErrReleased) {
			return nil, fmt.Errorf("payload of %s: %w", id, err)
		}
		if w, ok := q.view(id); ok && w == v {
			return nil, fmt.Errorf("payload of %s: %w", id, err)
		}
	}
	return nil, fmt.Errorf("payload of %s does not hold still", id)
}

var errDamagedPayload = errors.New("payload damaged")

// QueueState is what the queue is like at one instant (Cutie 0.3, 3.2).
type QueueState struct {
	Info                       QueueInfo
	Pending, Consumed, Deleted int64
	Held                       int64     // pending ones that are passed over
	Leased                     int64     // consumed ones whose consumer is to report
	Failed                     int64     // those with this outcome
	Seq                        Seq       // of the last event; without one, Before
	Before                     Seq       // last event of former queues of the name, 0 if there was none
	LastEvent                  time.Time // of creation before the first event
	LastSubmission             time.Time // zero if never
	LastConsumption            time.Time // zero if never
	Damage                     string    // why Info is not what queue-info.txt says; "" if it is
	Oldest                     time.Time // submission of the job at the head; zero if none is pending but those on hold
}

// State returns the state of the queue, from memory.
func (q *Queue) State() QueueState {
	q.mu.RLock()
	defer q.mu.RUnlock()
	s := QueueState{Info: q.set.info, Pending: q.idx.count[Pending], Consumed: q.idx.count[Consumed],
		Deleted: q.idx.count[Deleted], Held: q.idx.held, Leased: q.idx.leased, Failed: q.idx.failed, Seq: q.seq, Before: q.before, Damage: q.set.bad, LastEvent: micro(q.seqTime)}
	if q.submitted != 0 {
		s.LastSubmission = micro(q.submitted)
	}
	if q.consumed != 0 {
		s.LastConsumption = micro(q.consumed)
	}
	if id := q.idx.first(q.idx.head); id != 0 {
		s.Oldest = micro(q.idx.slot(id).submitted())
	}
	return s
}

// JournalSyncs returns how often the journal was synced since the service was
// opened, and how long that took in all.
func (s *Service) JournalSyncs() (n int64, took time.Duration) { return s.log.Syncs() }

// IndexSize returns the octets of memory that the index takes.
func (s *Service) IndexSize() (size int64) {
	for _, q := range s.Queues() {
		q.mu.RLock()
		size += int64(q.idx.full) * pageSize
		q.mu.RUnlock()
	}
	return size
}

// An Entry is what a publisher needs of a job.
type Entry struct {
	Job     JobID
	Status  Status
	Payload Facts
	File    Facts
}

func (s slot) fileFacts() Facts {
	return Facts{Length: int64(s.textLen()), SHA256: [32]byte(s.fileSHA()),
		Type: jobFileType, Modified: micro(s.changed())}
}

func (q *Queue) entry(id JobID, p *page) Entry {
	s := p.slot(int(id % PageJobs))
	typ := q.types[s.mediaType()]
	if typ == "" {
		typ = DefaultMediaType
	}
	return Entry{Job: id, Status: s.status(), File: s.fileFacts(), Payload: Facts{Length: s.size(),
		SHA256: [32]byte(s.sha()), MD5: p.md5(int(id % PageJobs)), Type: typ, Modified: micro(s.submitted())}}
}

// Entry returns what a publisher needs of one job, from memory; false if
// there is no such job.
func (q *Queue) Entry(id JobID) (Entry, bool) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	p := q.idx.page(id)
	if p == nil || p.slot(int(id%PageJobs)).status() == 0 {
		return Entry{}, false
	}
	return q.entry(id, p), true
}

// Pages returns how many pages of PageJobs job numbers the queue has had.
func (q *Queue) Pages() int {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return len(q.idx.pages)
}

// Page appends the jobs of page n to dst, in order, and returns the last event
// that touched the page, 0 for none, with its time. All of it is of one
// instant, and from memory.
func (q *Queue) Page(n int, dst []Entry) (entries []Entry, version Seq, at time.Time) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if n < 0 || n >= len(q.idx.pages) || q.idx.pages[n] == nil {
		return dst, 0, time.Time{}
	}
	p := q.idx.pages[n]
	dst = slices.Grow(dst, p.count[Pending]+p.count[Consumed]+p.count[Deleted])
	for i := range PageJobs {
		if s := p.slot(i); s.status() != 0 {
			dst = append(dst, q.entry(JobID(n*PageJobs+i), p))
		}
	}
	return dst, p.version, micro(p.at)
}

// PageVersion returns the last event that touched page n, its time, and how
// many jobs the page has, without looking at them.
func (q *Queue) PageVersion(n int) (version Seq, at time.Time, pending, total int) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if n < 0 || n >= len(q.idx.pages) || q.idx.pages[n] == nil {
		return 0, time.Time{}, 0, 0
	}
	p := q.idx.pages[n]
	return p.version, micro(p.at), p.count[Pending], p.count[Pending] + p.count[Consumed] + p.count[Deleted]
}

// InfoFile returns queue-info.txt as it stands.
func (q *Queue) InfoFile() ([]byte, Facts) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.set.file, q.set.facts
}
