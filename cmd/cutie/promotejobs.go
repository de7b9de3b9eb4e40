package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cutie/publisher/destination"
	"cutie/queuefs/digest"
	"cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/replay"
)

// A job file proves its payload and its results. The changes in the copy prove job files, by
// the digest in the last change of each, without the original. So a promotion tells files
// changed, moved or made by other hands.

// fewFaults is how many files an error names.
const fewFaults = 5

// prove compares job files and settings of the queues with their last changes, before the
// promotion changes any. One after a crash has changed some: it proves none.
func (o *promotion) prove(ctx context.Context, dir string, r *promoted) error {
	begun, err := destination.Promoting(dir)
	if begun || err != nil {
		return err
	}
	for i := range r.Queues {
		faults, err := r.Queues[i].prove(ctx, dir)
		if err != nil {
			return err
		}
		r.Problems = append(r.Problems, faults...)
	}
	n := len(r.Problems)
	if n == 0 || o.force || !o.refuses {
		return nil
	}
	var first []string
	for _, f := range r.Problems[:min(n, fewFaults)] {
		first = append(first, f.String())
	}
	return withHint(fmt.Errorf("%w: %s: %d files are not as the original published them last: %s",
		errDiffers, dir, n, strings.Join(first, "; ")),
		"--force promotes the copy as it is, and lists them all; while the original lives, cutie sync --again --checksum --delete all "+dir+" mends it")
}

// prove returns the faults of the files of a queue. A copy without changes proves none.
func (q *promotedQueue) prove(ctx context.Context, dir string) (faults []durable.Finding, err error) {
	at := path.Join(home.QueuesDir, q.Queue)
	settings := path.Join(at, home.QueueInfoName)
	if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(settings))); errors.Is(err, fs.ErrNotExist) && !slices.ContainsFunc(q.changing, func(c destination.Changing) bool { return c.File == settings }) {
		faults = append(faults, durable.Finding{Path: settings, Text: "missing"})
	}
	h, err := destination.OpenHistory(dir, q.Queue+wholeQueue)
	if errors.Is(err, destination.ErrNoHistory) {
		return faults, nil
	}
	if err != nil {
		return nil, err
	}
	defer h.Close()
	jobFile := func(file string) bool {
		of, name := path.Split(file)
		_, err := job.ParseID(name)
		return err == nil && path.Dir(path.Clean(of)) == at && slices.Contains(jobDirs, path.Base(of))
	}
	changing := map[string]bool{} // names of files in transit, and of jobs with results in transit
	for _, c := range q.changing {
		changing[path.Base(c.File)], changing[path.Base(path.Dir(c.File))] = true, true
	}
	err = h.Deviations(ctx, at, func(file string) bool { return file == settings || jobFile(file) }, func(file string, d destination.Deviation) error {
		switch {
		case changing[path.Base(file)]:
		case slices.Contains(q.held, file): // it goes with the promotion
		case file == settings: // they have no number of an event, and may be later ones
			q.Others = true
		case q.isLater(dir, file):
			q.Later++
		case d == destination.Unproved && h.First > 1:
			q.Unproved++
		case d == destination.Unproved:
			faults = append(faults, durable.Finding{Path: file, Text: "the original never published it"})
		case d == destination.Removed:
			faults = append(faults, durable.Finding{Path: file, Text: "the original has removed it since"})
		default:
			faults = append(faults, durable.Finding{Path: file, Text: "its contents are not those that the original published last"})
		}
		return nil
	})
	if errors.Is(err, destination.ErrNoHistory) {
		return faults, nil // the report says why
	}
	return faults, err
}

// isLater reports whether a job file is of a later event than LastEvent: a copy that is cut
// off has files of changes not noted yet.
func (q *promotedQueue) isLater(dir, file string) bool {
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
	if err != nil {
		return false
	}
	j, err := job.Parse(text)
	return err == nil && uint64(j.Seq) > q.LastEvent
}

// The newest jobs of a busy original change while a copy asks for their files. If the
// original is lost just then, the copy may have a former job file, or a payload and no
// job file; payloads, results and settings may be in transit as well. An event of the home
// says what becomes of these jobs, so that its followers have the same, and do not wait for
// these files, nor keep them.

// A placed job was given a state.
type placed struct {
	id  job.ID
	st  job.Status
	why string // a pending one is on hold
}

// A lacked result is one that the copy does not have.
type lacked struct {
	id   job.ID
	name string
}

// A changing file is one of a job in transit.
type changing struct {
	of string // directory of the queue
	id job.ID
	as string // name of a result
	at time.Time
}

// changingFiles returns the files of jobs in transit in some directories of the queue.
func (q *promotedQueue) changingFiles(dirs ...string) (all []changing) {
	for _, c := range q.changing {
		of, name := path.Split(c.File)
		f := changing{of: path.Base(of), at: c.Time}
		id, err := job.ParseID(name)
		if at, number := path.Split(path.Clean(of)); path.Base(at) == dir.Results && job.CheckResultName(name) == nil {
			f.of, f.as = dir.Results, name
			id, err = job.ParseID(number)
		}
		if f.id = id; err == nil && slices.Contains(dirs, f.of) {
			all = append(all, f)
		}
	}
	return all
}

// place gives the jobs of a copy the state of the last event seen, where their job file
// is a former one or missing. A pending one is put on hold, so that an operator decides.
// Then it makes the deletions that waited for these files, and lists payloads and results that
// are missing: jobs without their payload are put on hold, results are empty files until
// [promotedQueue.report] takes them from their jobs, by an event.
func (q *promotedQueue) place(copied string, now time.Time) error {
	q.dir, q.now = filepath.Join(copied, home.QueuesDir, q.Queue), now
	for _, f := range q.changingFiles(jobDirs...) {
		st, err := job.ParseStatus(f.of)
		if err == nil {
			err = q.placeJob(f.id, st, f.at)
		}
		if err != nil {
			return err
		}
	}
	if err := q.makeDeletions(copied); err != nil {
		return err
	}
	for _, f := range q.changingFiles(dir.Payloads) {
		if err := q.lackPayload(f.id); err != nil {
			return err
		}
	}
	for _, f := range q.changingFiles(dir.Results) {
		if err := q.lackResult(f.id, f.as); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := q.lackOfLater(); err != nil {
		return err
	}
	return q.eachFile(dir.Payloads, func(id job.ID) error {
		if slices.ContainsFunc(jobDirs, func(of string) bool { return q.has(of, id) }) {
			return nil
		}
		return q.placeJob(id, job.Pending, time.Time{})
	})
}

// jobDirs are the directories of job files.
var jobDirs = []string{job.Pending.String(), job.Consumed.String(), job.Deleted.String()}

// eachFile gives the jobs with a file in a directory of the queue to do.
func (q *promotedQueue) eachFile(dir string, do func(job.ID) error) error {
	files, err := os.ReadDir(filepath.Join(q.dir, dir))
	for _, e := range files {
		id, parsed := job.ParseID(e.Name())
		if err == nil && parsed == nil && e.Type().IsRegular() {
			err = do(id)
		}
	}
	return err
}

// has reports whether a job has a file in a directory of the queue.
func (q *promotedQueue) has(dir string, id job.ID) bool {
	_, err := os.Lstat(filepath.Join(q.dir, dir, id.String()))
	return !errors.Is(err, fs.ErrNotExist)
}

// write writes a job file.
func (q *promotedQueue) write(j *job.Job, st job.Status) error {
	return replace(filepath.Join(q.dir, st.String()), j.ID.String(), j.AppendText(nil))
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

// placeJob places one job: changed is the time of the event. A job without any file keeps its
// number, which published changes name.
func (q *promotedQueue) placeJob(id job.ID, st job.Status, changed time.Time) error {
	j, was, err := q.formerJob(id, st)
	if errors.Is(err, fs.ErrNotExist) {
		j, err = job.Job{ID: id, Status: job.Pending, Submitted: changed.UTC().Truncate(time.Microsecond)}, nil
	}
	if err != nil {
		return err
	}
	replay.Place(&j, was, st, changed, q.now)
	q.placed = append(q.placed, placed{id, st, replay.NoJobFile})
	err = q.write(&j, st)
	for _, other := range jobDirs {
		if err == nil && other != st.String() {
			err = os.Remove(filepath.Join(q.dir, other, id.String()))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// formerJob returns the newest job file of a job in the copy, and its place; after a
// crash it may be in st, too. Without one it returns a job made of the payload, and 0.
func (q *promotedQueue) formerJob(id job.ID, st job.Status) (j job.Job, was job.Status, err error) {
	for at := job.Pending; at <= job.Deleted; at++ {
		text, err := os.ReadFile(filepath.Join(q.dir, at.String(), id.String()))
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
		j, err = bareJob(filepath.Join(q.dir, dir.Payloads, id.String()), id)
	}
	return j, was, err
}

// bareJob is a job of which nothing but the payload is known.
func bareJob(payload string, id job.ID) (job.Job, error) {
	st, err := os.Stat(payload)
	if err != nil {
		return job.Job{}, err
	}
	n, sum, err := sumOf(payload)
	return job.Job{ID: id, Status: job.Pending, Submitted: st.ModTime().UTC().Truncate(time.Microsecond), Size: n,
		Digests: []digest.Value{digest.NewValue(digest.SHA256, sum[:])}}, err
}

// lackPayload notes a job whose payload is in transit and missing, and puts a pending one on
// hold. Without a job file it was removed since.
func (q *promotedQueue) lackPayload(id job.ID) error {
	if q.has(dir.Payloads, id) {
		return nil
	}
	j, st, err := q.formerJob(id, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	q.noPayload = append(q.noPayload, id)
	if st != job.Pending {
		return nil
	}
	j.Hold(q.now, replay.NoPayload, time.Time{})
	q.placed = append(slices.DeleteFunc(q.placed, func(p placed) bool { return p.id == id }), placed{id, st, replay.NoPayload})
	return q.write(&j, st)
}

// lackOfLater lists what the jobs of later events than LastEvent lack: a copy that was cut
// off has job files of changes not noted yet, and perhaps not what belongs to them.
func (q *promotedQueue) lackOfLater() error {
	for st := job.Pending; st <= job.Deleted; st++ {
		err := q.eachFile(st.String(), func(id job.ID) error {
			j, at, err := q.formerJob(id, st)
			if err != nil || at != st || uint64(j.Seq) <= q.LastEvent {
				return nil // the check names a file that cannot be read
			}
			if !slices.Contains(q.noPayload, id) {
				err = q.lackPayload(id)
			}
			for _, r := range j.Results {
				if err == nil && !slices.Contains(q.lacked, lacked{id, r.Name}) && !q.hasResult(id, r) {
					err = q.lackResult(id, r.Name)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lackedType is the media type of an empty file in the place of a result, until the event
// that takes it from the job: a promotion that goes on knows it again.
const lackedType = "application/x-cutie-lacked"

// hasResult reports whether a result is in the copy as the job file has it.
func (q *promotedQueue) hasResult(id job.ID, r job.Result) bool {
	if r.MediaType == lackedType {
		return false
	}
	_, sum, err := sumOf(filepath.Join(q.dir, dir.Results, id.String(), r.Name))
	return err == nil && sum == r.SHA256
}

// sumOf reads a file.
func sumOf(file string) (n int64, sum [sha256.Size]byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, sum, err
	}
	defer f.Close()
	h := sha256.New()
	n, err = io.Copy(h, f)
	return n, [sha256.Size]byte(h.Sum(nil)), err
}

// lacksPayload reports whether a path below the home is that of a payload in transit.
func (q *promotedQueue) lacksPayload(file string) bool {
	of, name := path.Split(file)
	id, err := job.ParseID(name)
	return err == nil && path.Clean(of) == path.Join(home.QueuesDir, q.Queue, dir.Payloads) && slices.Contains(q.noPayload, id)
}

// lackResult gives a job an empty file in the place of a result. Without a job file the error
// is [fs.ErrNotExist].
func (q *promotedQueue) lackResult(id job.ID, name string) error {
	j, st, err := q.formerJob(id, 0)
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
	results := filepath.Join(q.dir, dir.Results, id.String())
	if err := os.MkdirAll(results, 0o700); err != nil {
		return err
	}
	if err := replace(results, name, nil); err != nil {
		return err
	}
	q.lacked = append(q.lacked, lacked{id, name})
	return q.write(&j, st)
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
func (q *promotedQueue) noteSettings() error {
	if !slices.ContainsFunc(q.changing, func(c destination.Changing) bool { return path.Base(c.File) == home.QueueInfoName }) {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(q.dir, home.QueueInfoName))
	if err != nil {
		return err
	}
	q.Former = true
	return replace(q.dir, home.QueueInfoName, replay.NoteFormer(text, q.now))
}

// replace writes a file of a home that nobody has open.
func replace(dir, name string, text []byte) error {
	d, err := durable.OpenDir(dir, nil)
	if err != nil {
		return err
	}
	return errors.Join(d.Replace(name, text), d.Close())
}
