package queuefs

import (
	"bytes"
	"crypto/sha256"
	"io"

	"cutie/queuefs/journal"
	"cutie/queuefs/record"
)

// fetchLimit is how many bytes of payloads come along with their jobs.
const fetchLimit = 256 << 10

// fetch is Job for each of ids, and with payloads their payloads, as far as they
// are at hand: one that is empty is not nil. It releases none of the jobs.
func (q *Queue) fetch(ids []JobID, payloads bool) ([]Job, [][]byte, error) {
	jobs, data := make([]Job, len(ids)), make([][]byte, len(ids))
	left := int64(0)
	if payloads {
		left = fetchLimit
	}
	for i, id := range ids {
		var ok bool
		if jobs[i], data[i], ok = q.journaled(id, left); ok {
			left -= int64(len(data[i]))
			continue
		}
		if jobs[i], data[i], ok = q.packed(id); ok {
			continue
		}
		var err error
		if jobs[i], err = q.Job(id); err != nil {
			return nil, nil, err
		}
	}
	return jobs, data, nil
}

// journaled reads a job with one read from the journal, and a payload of up to limit
// bytes beside it. It returns false if that is not possible or does not verify.
func (q *Queue) journaled(id JobID, limit int64) (j Job, payload []byte, ok bool) {
	v, ok := q.view(id)
	if !ok || v.Journaled.File == 0 {
		return j, nil, false
	}
	beside := v.Journaled.Payload == v.Journaled.File && v.Size <= limit
	text, payload, err := q.journaledParts(&v, beside)
	if err != nil || sha256.Sum256(text) != v.FileSHA256 {
		return j, nil, false
	}
	if j, err = ParseJob(text); err != nil || j.ID != id {
		return j, nil, false
	}
	j.Queue, j.Status, j.Size = q.id, v.Status, v.Size
	if len(payload) < len(text) {
		payload = bytes.Clone(payload) // the job file is not kept for its sake
	}
	return j, payload, true
}

// journaledParts reads the job file of a job from the journal, and its payload if
// wanted.
func (q *Queue) journaledParts(v *view, wanted bool) (text, payload []byte, err error) {
	n, beside := v.FileLength, v.Journaled.Payload == v.Journaled.File
	if wanted && beside {
		n += int(v.Size)
	}
	r, err := q.recordAt(v.Journaled.File, v.MediaType, n)
	switch {
	case err != nil:
	case wanted && beside:
		payload = r.Payload.Data
	case wanted:
		payload, err = q.journaledPayload(v)
	}
	if err == nil && (r.File.Text == nil || wanted && int64(len(payload)) != v.Size) {
		err = record.ErrForm
	}
	return r.File.Text, payload, err
}

// journaledPayload reads the payload of a job from its record. The job file there is
// hardly ever longer than the one of now, so one read will do.
func (q *Queue) journaledPayload(v *view) ([]byte, error) {
	at := v.Journaled.Payload
	r, err := q.recordAt(at, v.MediaType, v.FileLength+int(v.Size))
	if err != nil || int64(len(r.Payload.Data)) == v.Size && r.Payload.Data != nil {
		return r.Payload.Data, err
	}
	data := make([]byte, v.Size)
	n, err := q.svc.log.ReadAt(data, at, r.PayloadAt())
	if err == io.EOF {
		err = nil // the caller sees the length
	}
	return data[:n], err
}

// recordAt reads a record of the queue from the journal as far as its names and n
// bytes of text and payload.
func (q *Queue) recordAt(at journal.LSN, mediaType string, n int) (r record.Record, err error) {
	// Most records name no file.
	if r, err = q.svc.recordAt(at, record.MaxFixed+len(q.id)+len(mediaType)+n); err == record.ErrForm || err == nil && n > 0 && r.File.Text == nil {
		r, err = q.svc.recordAt(at, record.MaxHead+n)
	}
	return r, err
}

// recordAt reads up to n bytes of a record of the journal.
func (s *Service) recordAt(at journal.LSN, n int) (r record.Record, err error) {
	buf := make([]byte, n)
	k, err := s.log.ReadAt(buf, at, 0)
	if err == nil || err == io.EOF {
		err = r.Parse(buf[:k])
	}
	return r, err
}
