package queuefs

import (
	"crypto/sha256"

	"cutie/queuefs/journal"
	"cutie/queuefs/record"
)

// A change of queue-info.txt is an event of its own: an Update of no job. Its
// record has the facts of the file in the place of those of a payload. The file
// is on stable storage before the record is. The index knows the file in the
// last such event, so a change by other hands, or one before a crash, becomes
// an event when it is seen.

// adopt puts the settings in force at the instant of their event. If there
// cannot be an event now, nothing changes in memory; the file is read again at
// the next Reload. The caller holds Service.set, or opens the home.
func (q *Queue) adopt(n settings) error {
	told := false
	err := q.commit(func() ([]*record.Record, error) {
		if q.set.announced == n.facts.SHA256 {
			return nil, nil
		}
		told, q.set.next = true, &n
		r := &record.Record{Kind: Update, Payload: record.Payload{Size: n.facts.Length, SHA256: n.facts.SHA256, MediaType: n.facts.Type, Submitted: n.facts.Modified.UnixMicro()}}
		r.Seq, r.Time = q.next()
		return []*record.Record{r}, nil
	})
	if err != nil {
		q.mu.Lock()
		q.set.next = nil
		q.mu.Unlock()
		return err
	}
	if !told {
		q.use(n)
	}
	return nil
}

// applyInfo is apply for the event of a changed queue-info.txt; q.mu is held.
func (q *Queue) applyInfo(r *record.Record, at journal.LSN) {
	q.set.announced, q.idx.Changed = r.Payload.SHA256, true
	q.note(r, at)
	if n := q.set.next; n != nil {
		q.set.settings, q.set.next = *n, nil
	}
}

// announce makes an event of a queue-info.txt changed since the last event of
// it. If neither index nor journal know of one, the file is taken as it stands.
func (q *Queue) announce() error {
	q.mu.Lock()
	if q.set.announced == ([sha256.Size]byte{}) {
		q.set.announced, q.idx.Changed = q.set.facts.SHA256, true
	}
	q.mu.Unlock()
	return q.adopt(q.inForce())
}

// announced reports whether the file in force has had its event.
func (q *Queue) announced() bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.set.announced == q.set.facts.SHA256
}
