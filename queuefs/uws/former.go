package uws

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
)

// Homes of former versions have records of jobs in uws/Q: of PENDING jobs in
// staged, with their files, of other jobs in jobs. A move puts each record into
// its job file, and submits PENDING jobs on hold. Old identifiers do not contain
// the number of the job; uws/Q/ids has it.
//
//	staged, jobs  ids     after a crash
//	------------  ------  --------------------------------------------------
//	there         absent  done again; submitted jobs are on hold
//	there         there   done again; ids has the submitted jobs
//	absent        there   done
const (
	rootDir   = "uws"
	stagedDir = "staged"
	jobsDir   = "jobs"
	idsFile   = "ids"
	maxRecord = 2 << 20
	maxIDs    = 1 << 30
)

// formerIDs are the numbers of jobs by old identifiers.
type formerIDs map[string]queuefs.JobID

func (f formerIDs) number(id string) queuefs.JobID { return f[id] }

// file returns the contents of uws/Q/ids.
func (f formerIDs) file() (text []byte) {
	for id, n := range f {
		text = fmt.Appendf(text, "%s %v\n", id, n)
	}
	return text
}

// readIDs reads uws/Q/ids without culled jobs. The file can be absent.
func readIDs(file durable.Sealed, q *queuefs.Queue) (formerIDs, error) {
	text, err := file.Read()
	if errors.Is(err, fs.ErrNotExist) {
		return formerIDs{}, nil
	}
	if err != nil {
		return nil, err
	}
	ids := formerIDs{}
	for line := range strings.Lines(string(text)) {
		id, number, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := queuefs.ParseJobID(number)
		if err != nil {
			return nil, err
		}
		if st, _ := q.Status(n); st != 0 {
			ids[id] = n
		}
	}
	return ids, nil
}

// former moves the records of a queue, if there are any, and returns the
// numbers of jobs with old identifiers.
func (h *Handler) former(q *queuefs.Queue) (formerIDs, error) {
	dir, err := durable.OpenDir(h.svc.Dir(), nil)
	for _, name := range []string{rootDir, q.ID()} {
		if err == nil {
			up := dir
			dir, err = up.Sub(name)
			up.Close()
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	m := &move{q: q, dir: dir, ids: durable.Sealed{Dir: dir, Name: idsFile, Kind: "uws identifiers of queue " + q.ID(), Max: maxIDs}}
	if m.known, err = readIDs(m.ids, q); err == nil {
		err = m.run()
	}
	h.strange = append(h.strange, m.strange...)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: jobs of a former version could not be moved into the queue: %w", rootDir, q.ID(), err)
	}
	return m.known, nil
}

// A move is of the records of one queue.
type move struct {
	q      *queuefs.Queue
	dir    *durable.Dir
	ids    durable.Sealed
	drafts map[string]queuefs.JobID // jobs of the queue on hold, by identifier

	mu      sync.Mutex // several records are moved at a time
	known   formerIDs
	strange []error // of records set aside
}

// run moves all records.
func (m *move) run() error {
	jobs, err := m.read(jobsDir)
	if err != nil {
		return err
	}
	staged, err := m.read(stagedDir)
	if err != nil || jobs == nil && staged == nil {
		return err
	}
	if err := m.findDrafts(); err != nil {
		return err
	}
	if err := m.each(jobs, m.keep); err != nil {
		return err
	}
	// In the order of their making, one after the other: so they stand in the queue.
	slices.SortStableFunc(staged, func(a, b *record) int { return a.created.Compare(b.created) })
	for _, r := range staged {
		if err := m.submit(r); err != nil {
			return fmt.Errorf("%s: %w", r.id, err)
		}
	}
	if err := m.ids.Write(m.known.file()); err != nil {
		return err
	}
	if err := m.each(staged, m.abort); err != nil {
		return err
	}
	return errors.Join(m.dir.RemoveTree(stagedDir), m.dir.RemoveTree(jobsDir), m.dir.Sync())
}

// read returns the records in a directory, nil without the directory.
// Unreadable records, and records older than the queue, are set aside with
// their files.
func (m *move) read(name string) ([]*record, error) {
	dir, err := m.dir.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var ids []string
	if err := dir.Names(func(id string) {
		if _, err := queuefs.ParseJobID(id); err == nil || isMade(id) {
			ids = append(ids, id)
		}
	}); err != nil {
		return nil, err
	}
	all := make([]*record, 0, len(ids))
	for _, id := range ids {
		text, err := dir.ReadFile(id, nil, maxRecord)
		if err != nil {
			return nil, err
		}
		r, err := parseRecord(id, text)
		if err == nil && r.created.Before(stamp(m.q.Info().Created)) {
			err = errors.New("older than the queue")
		}
		if err == nil {
			all = append(all, r)
			continue
		}
		for n := range maxUploads {
			file := uploadName(id, n)
			if _, err := m.dir.SetAside(dir, file, file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		to, e := m.dir.SetAside(dir, id, id)
		if e != nil {
			return nil, e
		}
		m.strange = append(m.strange, fmt.Errorf("%s/%s/%s/%s was moved to %s: %w", rootDir, m.q.ID(), name, id, to, err))
	}
	return all, nil
}

// each moves many records at a time, to share the syncs of the journal.
func (m *move) each(all []*record, do func(*record) error) error {
	var (
		workers sync.WaitGroup
		failed  error
	)
	next := make(chan *record)
	for range 64 {
		workers.Go(func() {
			for r := range next {
				if err := do(r); err != nil {
					m.mu.Lock()
					failed = fmt.Errorf("%s: %w", r.id, err)
					m.mu.Unlock()
				}
			}
		})
	}
	for _, r := range all {
		next <- r
	}
	close(next)
	workers.Wait()
	return failed
}

// findDrafts finds the jobs submitted before a crash.
func (m *move) findDrafts() error {
	m.drafts = map[string]queuefs.JobID{}
	for _, n := range m.q.IDs(queuefs.ListOptions{Held: true, Limit: 1 << 40}) {
		cut, err := m.q.Job(n)
		if err != nil && !errors.Is(err, queuefs.ErrNoJob) {
			return err
		}
		if id := cut.Extra.Value(elemID); id != "" {
			m.drafts[id] = n
		}
	}
	return nil
}

// knows notes the number of a job made here.
func (m *move) knows(id string, n queuefs.JobID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if isMade(id) {
		m.known[id] = n
	}
}

// keep puts the record of a started job into its job file. A culled job needs
// none.
func (m *move) keep(r *record) error {
	n := r.job
	for {
		cut, err := m.q.Job(n)
		if errors.Is(err, queuefs.ErrNoJob) || err == nil && isMade(r.id) && cut.Extra.Value(elemID) != r.id {
			return nil
		}
		if err != nil {
			return err
		}
		if next := replacedBy(&cut); isMade(r.id) && next > cut.ID {
			n = next
			continue
		}
		m.knows(r.id, r.job)
		j := &job{q: m.q, cut: cut}
		if !r.destroyed.IsZero() || !r.archived.IsZero() || j.destroyed() {
			r.destruction = time.Time{}
		}
		want := with(with(with(cut.Extra, elemDuration, r.seconds()), elemDestroyed, timeOrNone(r.destroyed)), elemArchived, timeOrNone(r.archived))
		if slices.Equal(want, cut.Extra) && cut.Destruction.Equal(r.destruction) {
			return nil
		}
		return j.amend(context.Background(), func(cut *queuefs.Job) error {
			cut.Extra, cut.Destruction = want, r.destruction
			return nil
		})
	}
}

// submit submits a PENDING job on hold, once.
func (m *move) submit(r *record) error {
	m.mu.Lock()
	_, done := m.known[r.id]
	m.mu.Unlock()
	if done {
		return nil
	}
	n := m.drafts[r.id]
	if n == 0 && r.from != 0 { // RUN was on its way
		var err error
		if n, err = m.started(r); err != nil {
			return err
		}
	}
	if n != 0 {
		r.job = n
		return m.keep(r)
	}
	meta := queuefs.Meta{Submitter: r.submitter, Owner: r.owner, MediaType: mediaForm, Destruction: r.destruction, OnHold: true,
		Extra: anvl.Record{{Name: elemID, Value: r.id}, {Name: elemCreated, Value: formatTime(r.created)}}}
	meta.Extra = with(with(meta.Extra, elemRunID, r.runID), elemDuration, r.seconds())
	if info := m.q.Info(); !info.UWS.Is("uwsJdl") || len(r.uploads) > 0 {
		meta.Sidecar = formatPairs(r.params)
	}
	staged, err := m.dir.Sub(stagedDir)
	if err != nil {
		return err
	}
	defer staged.Close()
	f := &filled{q: m.q, accepted: true}
	defer f.discard()
	for i, u := range r.uploads {
		file, err := staged.Open(uploadName(r.id, i))
		if err != nil {
			return err
		}
		err = f.take(u, file)
		file.Close()
		if err != nil {
			return err
		}
	}
	cut, err := f.submit(context.Background(), meta, r.params)
	if err != nil {
		return err
	}
	m.knows(r.id, cut.ID)
	return nil
}

// started returns the number of a job with an unfinished RUN, 0 if it is not in
// the queue.
func (m *move) started(r *record) (queuefs.JobID, error) {
	for _, n := range m.q.IDs(queuefs.ListOptions{After: r.from - 1, Limit: 1 << 40}) {
		cut, err := m.q.Job(n)
		if err != nil && !errors.Is(err, queuefs.ErrNoJob) {
			return 0, err
		}
		if err == nil && cut.Extra.Value(elemID) == r.id {
			return n, nil
		}
	}
	return 0, nil
}

// abort ends a job with an ABORT before its start.
func (m *move) abort(r *record) error {
	if r.aborted.IsZero() || m.known[r.id] == 0 {
		return nil
	}
	cut, err := m.q.Job(m.known[r.id])
	if err != nil {
		return err
	}
	return (&job{q: m.q, cut: cut}).stop(context.Background(), abortWhy)
}
