package queuefs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/tree"
)

// checkPayload compares the payload of a job with the index. A lost payload
// cannot come back, so it stays a problem. Repairing moves the file in its
// place to corrupt/ and puts a pending job on hold, so that consumers pass over
// it until somebody brings the payload, or deletes the job.
func (q *Queue) checkPayload(e Entry, there, repair bool, r *Report) error {
	path := q.tree.Path(tree.Payloads, e.Job.String())
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
		to, err := q.tree.SetPayloadAside(e.Job)
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
	n, sum, err := q.tree.SumPayload(e.Job)
	switch {
	case err != nil:
		return err
	case n != e.Payload.Length:
		return fmt.Errorf("payload has %d octets instead of %d", n, e.Payload.Length)
	case sum != e.Payload.SHA256:
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
		p := Problem{Path: q.tree.ResultPath(id, b.name), Text: b.err.Error()}
		if !repair || transient(b.err) || exhausted(b.err) {
			r.Problems = append(r.Problems, p)
			continue
		}
		to, err := q.tree.SetResultAside(id, b.name)
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
