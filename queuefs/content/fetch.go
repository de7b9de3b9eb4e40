package content

import (
	"bytes"
	"crypto/sha256"

	"cutie/queuefs/job"
)

// fetchLimit is how many bytes of payloads come along with their jobs.
const fetchLimit = 256 << 10

// Fetch is Job for each of ids, and with payloads their payloads, as far as they are
// at hand: one that is empty is not nil.
func (r *Reader) Fetch(ids []job.ID, payloads bool) ([]job.Job, [][]byte, error) {
	jobs, data := make([]job.Job, len(ids)), make([][]byte, len(ids))
	left := int64(0)
	if payloads {
		left = fetchLimit
	}
	for i, id := range ids {
		var ok bool
		if jobs[i], data[i], ok = r.journaled(id, left); ok {
			left -= int64(len(data[i]))
			continue
		}
		if jobs[i], data[i], ok = r.packed(id); ok {
			continue
		}
		var err error
		if jobs[i], err = r.Job(id); err != nil {
			return nil, nil, err
		}
	}
	return jobs, data, nil
}

// journaled reads a job with one read from the journal, and a payload of up to limit
// bytes beside it. It returns false if that is not possible or does not verify.
func (r *Reader) journaled(id job.ID, limit int64) (j job.Job, payload []byte, ok bool) {
	v, ok := r.Ledger.View(id)
	if !ok || v.Journaled.File == 0 {
		return j, nil, false
	}
	beside := v.Journaled.Payload == v.Journaled.File && v.Size <= limit
	text, payload, err := r.Ledger.Parts(&v, beside)
	if err != nil || sha256.Sum256(text) != v.FileSHA256 {
		return j, nil, false
	}
	if j, err = parse(text, id); err != nil {
		return j, nil, false
	}
	r.complete(&j, &v)
	if len(payload) < len(text) {
		payload = bytes.Clone(payload) // the job file is not kept for its sake
	}
	return j, payload, true
}

// packed returns a pending job from its pack, with its payload.
func (r *Reader) packed(id job.ID) (j job.Job, payload []byte, ok bool) {
	c := r.Packs.Find(id)
	if c == nil {
		return j, nil, false
	}
	v, ok := r.Ledger.View(id)
	if !ok || !c.Matches(&v.Job) {
		return j, nil, false
	}
	j, err := parse(c.Text, id)
	if err != nil {
		return j, nil, false
	}
	r.complete(&j, &v)
	return j, c.Payload, true
}
