package queuefs

import (
	"cutie/queuefs/index"
	"cutie/queuefs/record"
)

// SlotSize is how many octets of memory a job takes.
const SlotSize = index.PageMemory / PageJobs

// LoadPacks loads the packs of pages.
func (q *Queue) LoadPacks(pages ...int) {
	for _, n := range pages {
		if jobs, err := q.readPack(n); err == nil {
			q.packs.mu.Lock()
			q.packs.loaded[n] = jobs
			q.packs.mu.Unlock()
		}
	}
}

// TellPhase makes an event of the kind that only former versions made.
func (q *Queue) TellPhase(text string) error {
	return q.commit(func() ([]*record.Record, error) {
		r := &record.Record{Kind: Phase, File: record.File{Text: []byte(text)}}
		r.Seq, r.Time = q.next()
		return []*record.Record{r}, nil
	})
}
