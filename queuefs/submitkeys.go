package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"cutie/queuefs/digest"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// A key names a submission for a client without an answer: it asks again with the key, and
// nothing happens twice. The key is in the job file and in the index, as long as the job
// is known. So it outlives a crash, a rebuild and a promotion.

// Key gives the submission a key, unless it is "": a single job has it as the Key of its
// [job.Meta], and job n, from 1 on, of several ones has KEY#n. Jobs may have keys of their
// own instead.
//
// Each owner has keys of his own. A job of the same key, owner and payload that is in the
// queue is returned by Commit in the place of a new one. If the payload differs, or the number
// of jobs of the submission, the error is [ErrKeyUsed] and names the job. Two submissions with a key
// come one after the other; a long wait for the first one ends in [queuefs.ErrBusy].
func (s *Submission) Key(key string) { s.key = key }

// Again reports, after Commit, whether all of its jobs were in the queue before.
func (s *Submission) Again() bool { return s.again }

// storeOnce is store, but for jobs whose keys are in the queue already: these are returned.
func (s *Submission) storeOnce(ctx context.Context) ([]job.Job, error) {
	sums, err := s.giveKeys()
	if err != nil {
		return nil, err
	}
	if len(sums) == 0 {
		return s.store(ctx, s.uploads)
	}
	release, err := s.to.keyed.claim(ctx, sums, s.to.svc.shared.Gate.Sleep)
	if err != nil {
		return nil, err
	}
	defer release()
	jobs, err := s.known()
	if err != nil {
		return nil, err
	}
	var fresh []*Upload
	for i, d := range s.uploads {
		if d.known = jobs[i].ID != 0; !d.known {
			fresh = append(fresh, d)
		}
	}
	if s.again = len(fresh) == 0; s.again {
		return jobs, nil
	}
	stored, err := s.store(ctx, fresh)
	if err != nil {
		return nil, err
	}
	for i, d := range s.uploads {
		if !d.known {
			jobs[i], stored = stored[0], stored[1:]
		}
	}
	return jobs, nil
}

// giveKeys gives the jobs their keys, and returns the sums of all keys to claim.
func (s *Submission) giveKeys() (sums []job.KeySum, err error) {
	if s.key != "" {
		if err := job.CheckKey(s.key); err != nil {
			return nil, err
		}
		// Claimed beside those of the jobs, so that submissions of other numbers of
		// jobs wait, too.
		sums = append(sums, job.SumOfKey(s.owner(), s.key))
	}
	for i, d := range s.uploads {
		m := &d.meta
		if s.key != "" {
			if m.Key != "" {
				return nil, fmt.Errorf("%w: key %q beside the key of the submission", job.ErrBadName, m.Key)
			}
			m.Key = s.key
			if len(s.uploads) > 1 {
				m.Key = job.PartKey(s.key, i+1)
			}
			if err := job.CheckKey(m.Key); err != nil {
				return nil, err
			}
		}
		if m.Key != "" && m.Key != s.key {
			sums = append(sums, job.SumOfKey(m.Owner, m.Key))
		}
	}
	slices.Sort(sums)
	if len(slices.Compact(slices.Clone(sums))) < len(sums) {
		return nil, fmt.Errorf("%w: two jobs of a submission have one key", job.ErrBadName)
	}
	return sums, nil
}

// known returns the jobs of the submission that are in the queue, by their keys; the
// others are zero.
func (s *Submission) known() ([]job.Job, error) {
	jobs := make([]job.Job, len(s.uploads))
	n := 0
	for i, d := range s.uploads {
		if d.meta.Key == "" {
			continue
		}
		j, err := s.to.submitted(d.meta.Owner, d.meta.Key)
		if err != nil {
			return nil, err
		}
		if j.ID == 0 {
			continue
		}
		if err := d.matches(&j); err != nil {
			return nil, err
		}
		jobs[i], n = j, n+1
	}
	if s.key == "" {
		return jobs, nil
	}
	return jobs, s.whole(jobs, n)
}

// whole refuses a submission if its key was used for another number of jobs; n of jobs
// are known.
func (s *Submission) whole(jobs []job.Job, n int) error {
	const why = "is of another number of jobs"
	others := []string{job.PartKey(s.key, 1)}
	if len(jobs) > 1 {
		others = []string{s.key, job.PartKey(s.key, len(jobs)+1)}
		if i := slices.IndexFunc(jobs, func(j job.Job) bool { return j.ID != 0 }); i >= 0 && n < len(jobs) {
			return usedKey(&jobs[i], s.key, why)
		}
	}
	for _, key := range others {
		if j, err := s.to.submitted(s.owner(), key); err != nil || j.ID != 0 {
			return cmp.Or(err, usedKey(&j, s.key, why))
		}
	}
	return nil
}

// owner is the user of the submission: all its jobs have one.
func (s *Submission) owner() string {
	if len(s.uploads) == 0 {
		return ""
	}
	return s.uploads[0].meta.Owner
}

// submitted returns the job a user submitted with a key, zero if there is none.
func (q *Queue) submitted(owner, key string) (job.Job, error) {
	var id job.ID
	q.ledger.Look(func(x *index.Index) { id, _ = x.JobOf(job.SumOfKey(owner, key)) })
	if id == 0 {
		return job.Job{}, nil
	}
	j, err := q.content.Job(id)
	switch {
	case errors.Is(err, ledger.ErrNoJob): // culled meanwhile
		return job.Job{}, nil
	case err != nil:
		return job.Job{}, err
	case j.Key != key || j.Owner != owner: // the job may be somebody else's
		return job.Job{}, fmt.Errorf("%w: key %q cannot be told from another one by its sum, take another key", ErrKeyUsed, key)
	}
	return j, nil
}

// matches refuses a job that is not the one of the upload.
func (d *Upload) matches(j *job.Job) error {
	if _, err := d.digests(); err != nil {
		return err
	}
	sum := d.up.SHA256()
	if j.Size != d.Size() || j.Digest(digest.SHA256) != digest.NewValue(digest.SHA256, sum[:]) {
		return usedKey(j, d.meta.Key, "has another payload")
	}
	return nil
}

func usedKey(j *job.Job, key, why string) error {
	return fmt.Errorf("%w: %v of key %q %s", ErrKeyUsed, j.ID, key, why)
}
