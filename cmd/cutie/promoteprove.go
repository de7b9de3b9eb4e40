package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cutie/cmd/cutie/fault"
	"cutie/publisher/destination"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
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
	return fault.Hint(fmt.Errorf("%w: %s: %d files are not as the original published them last: %s",
		fault.ErrDiffers, dir, n, strings.Join(r.Problems[:min(n, fewFaults)], "; ")),
		"--force promotes the copy as it is, and lists them all; while the original lives, cutie sync --again --checksum --delete all "+dir+" mends it")
}

// prove returns the faults of the files of a queue. A copy without changes proves none.
func (q *promotedQueue) prove(ctx context.Context, dir string) (faults []string, err error) {
	at := path.Join(home.QueuesDir, q.Queue)
	settings := path.Join(at, home.QueueInfoName)
	if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(settings))); errors.Is(err, fs.ErrNotExist) && !slices.ContainsFunc(q.changing, func(c destination.Changing) bool { return c.File == settings }) {
		faults = append(faults, settings+" is missing")
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
		return err == nil && path.Dir(path.Clean(of)) == at && slices.Contains([]string{job.Pending.String(), job.Consumed.String(), job.Deleted.String()}, path.Base(of))
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
			faults = append(faults, file+": the original never published it")
		case d == destination.Removed:
			faults = append(faults, file+": the original has removed it since")
		default:
			faults = append(faults, file+": its contents are not those that the original published last")
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
