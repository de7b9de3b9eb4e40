package queuefs

// A job that was taken may be culled as soon as it is consumed, and its payload
// with it, while the consumer has not got that yet. What is on its way is not
// culled.

// Given tells that jobs that were taken with Keep have been read, or never will
// be. To be called once for what a call took.
func (q *Queue) Given(taken []Taken) {
	var ids []JobID
	for i := range taken {
		if taken[i].kept {
			ids = append(ids, taken[i].ID)
		}
	}
	q.letGo(ids)
}

// unread returns which of the jobs their consumer is to read yet and are to be
// kept for that.
func (t *Take) unread(ids []JobID, payloads [][]byte) (unread []JobID) {
	for i := range ids {
		if t.Keep && payloads[i] == nil {
			unread = append(unread, ids[i])
		}
	}
	return unread
}

// consumers are those of a queue. The lock of the queue guards them.
type consumers struct {
	line   []*waiter     // who waits for jobs, in the order they came
	giving map[JobID]int // jobs on their way to somebody, by how many
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

// letGo takes back what keep did.
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
