package queuefs

import (
	"cutie/queuefs/index"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

// SlotSize is how many octets of memory a job takes.
const SlotSize = index.PageMemory / PageJobs

// LoadPacks loads the packs from a page on.
func (q *Queue) LoadPacks(page int) { q.content.Packs.Load(page, q.svc.usable) }

// TellPhase makes an event of the kind that only former versions made.
func (q *Queue) TellPhase(text string) error {
	return q.commit(func(b *ledger.Batch) error {
		r := &record.Record{Kind: Phase, File: record.File{Text: []byte(text)}}
		r.Seq, r.Time = b.Next()
		b.Add(r)
		return nil
	})
}
