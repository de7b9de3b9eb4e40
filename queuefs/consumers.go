package queuefs

// A consumed job may be culled at once, while its consumer still reads the
// payload. Jobs on their way to a consumer are not culled.

// Given ends the protection of jobs taken with Keep, after they were read or given
// up. Call it once for each call of Take.
func (q *Queue) Given(taken []Taken) {
	var ids []JobID
	for i := range taken {
		if taken[i].kept {
			ids = append(ids, taken[i].ID)
		}
	}
	q.letGo(ids)
}

// unread returns the jobs whose payloads their consumer has still to read.
func (t *Take) unread(ids []JobID, payloads [][]byte) (unread []JobID) {
	for i := range ids {
		if t.Keep && payloads[i] == nil {
			unread = append(unread, ids[i])
		}
	}
	return unread
}

// consumers are the consumers of a queue, guarded by its lock.
type consumers struct {
	line   []*waiter     // consumers waiting for jobs, in the order of their calls
	giving map[JobID]int // jobs on their way to a consumer, with a count
}

// keep keeps jobs from being culled.
func (q *Queue) keep(ids []JobID) {
	if len(ids) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.consumers.giving == nil {
		q.consumers.giving = map[JobID]int{}
	}
	for _, id := range ids {
		q.consumers.giving[id]++
	}
}

// letGo takes keep back.
func (q *Queue) letGo(ids []JobID) {
	if len(ids) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		if q.consumers.giving[id]--; q.consumers.giving[id] <= 0 {
			delete(q.consumers.giving, id)
		}
	}
}

// given reports whether the job is on its way to a consumer; q.mu is held.
func (q *Queue) given(id JobID) bool {
	return len(q.consumers.giving) > 0 && q.consumers.giving[id] > 0
}
