package board

import (
	"net/http"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
)

// failures answers with the reasons of the failed jobs of a queue, from the newest job back.
func (b *Board) failures(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	s := q.State()
	f := &dashboard.Failures{Queue: q.ID(), Failed: s.Failed, Mirror: s.Mirror.Live()}
	end := time.Now().Add(maxTime)
	for before := queuefs.JobID(0); f.Looked < maxRead && (f.Looked == 0 || time.Now().Before(end)); {
		ids, reached := q.Latest(queuefs.ListOptions{Outcome: queuefs.Failed, Limit: found}, before, maxLooked)
		for _, j := range jobsOf(q, ids) {
			if j.Outcome == queuefs.Failed { // it may run again by now
				f.Add(&j)
			}
		}
		if before = reached; len(ids) == 0 || reached == 0 {
			break
		}
	}
	return answer(w, f.Page(b.site(r, ""), time.Now()))
}
