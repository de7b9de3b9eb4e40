package queuefs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"cutie/queuefs/anvl"
)

// checkPayload compares the payload of a job with the index. A lost payload
// cannot come back, so it stays a problem. Repairing moves the file in its
// place to corrupt/ and puts a pending job on hold, so that consumers pass over
// it until somebody brings the payload, or deletes the job.
func (q *Queue) checkPayload(e Entry, there, repair bool, r *Report) error {
	path := q.path(payloadDir, e.Job.String())
	err := errors.New("payload missing")
	if there {
		err = q.verifyFile(e)
	}
	if err == nil {
		r.Octets += e.Payload.Length
		return nil
	}
	why := err.Error()
	if repair && !transient(err) && !exhausted(err) {
		done, err := q.mendPayload(e, there, why)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		why += done
	}
	r.Problems = append(r.Problems, Problem{Path: path, Text: why})
	return nil
}

// mendPayload mends a job with a lost payload and returns how.
func (q *Queue) mendPayload(e Entry, there bool, why string) (done string, err error) {
	if there {
		to, err := q.dirs.root.SetAside(q.dirs.payload, e.Job.String(), payloadDir+"-"+e.Job.String())
		if err != nil {
			return "", err
		}
		done = "; moved to " + to
	}
	if e.Status != Pending {
		return done, nil
	}
	_, err = q.alter(context.Background(), e.Job, Pending, ErrNotPending, func(j *Job, t time.Time) (Kind, error) {
		if !j.Held.IsZero() {
			return 0, nil
		}
		j.Held, j.HeldFor = t, why
		return Hold, nil
	})
	return done + "; the job is on hold", err
}

// verifyFile reads the payload where it stands.
func (q *Queue) verifyFile(e Entry) error {
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
		return errors.New("payload has not its SHA-256 digest")
	}
	return nil
}

// A badResult differs from its job file, or is in none.
type badResult struct {
	name  string
	err   error
	named bool
}

// mendResults tells of bad results of a job. Repairing moves their files to
// corrupt/ and takes their names out of the job file, where a note stays.
func (q *Queue) mendResults(id JobID, bad []badResult, repair bool, r *Report) error {
	var lost []string
	for _, b := range bad {
		p := Problem{Path: q.resultPath(id, b.name), Text: b.err.Error()}
		if !repair || transient(b.err) || exhausted(b.err) {
			r.Problems = append(r.Problems, p)
			continue
		}
		to, err := q.moveResult(id, b.name)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
		if to != "" {
			p.Text += "; moved to " + to
		}
		if b.named {
			lost = append(lost, b.name)
			p.Text += "; the job has it no longer"
		}
		r.Mended = append(r.Mended, p)
	}
	if len(lost) == 0 {
		return nil
	}
	_, err := q.alter(context.Background(), id, 0, nil, func(j *Job, _ time.Time) (Kind, error) {
		j.Results = slices.DeleteFunc(slices.Clone(j.Results), func(r Result) bool { return slices.Contains(lost, r.Name) })
		j.Extra = append(slices.Clip(j.Extra), anvl.Element{Name: "note", Value: "lost results: " + strings.Join(lost, " ")})
		return Update, nil
	})
	return err
}

// moveResult moves a result to corrupt/, "" if it is not there.
func (q *Queue) moveResult(id JobID, name string) (to string, err error) {
	dir, err := q.resultsOf(id)
	if err == nil {
		to, err = q.dirs.root.SetAside(dir, name, resultDir+"-"+id.String()+"-"+name)
		dir.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return to, err
}
