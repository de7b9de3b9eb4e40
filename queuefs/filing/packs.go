package filing

import (
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/packs"
)

// Pack writes the packs of the pages that have become full, as long as there is time.
// A pack that fails is not tried again.
func (f *Filer) Pack(inTime func() bool) {
	for {
		var n int
		var ids []job.ID
		var bytes int
		f.Ledger.Look(func(x *index.Index) { n, ids, bytes = f.Packs.Next(x) })
		if n < 0 || !inTime() {
			return
		}
		_ = f.Packs.Write(n, ids, bytes, f.copyOf)
	}
}

// copyOf reads a job from the journal; nil if its files are as good.
func (f *Filer) copyOf(id job.ID) (*packs.Copy, error) {
	v, ok := f.Ledger.View(id)
	if !ok || v.Journaled.File == 0 || v.Journaled.Payload == 0 {
		return nil, nil
	}
	text, payload, err := f.Ledger.Parts(&v, true)
	return &packs.Copy{Text: text, Payload: payload}, err
}

// DropPacks removes the packs of pages without pending jobs, or all packs.
func (f *Filer) DropPacks(all bool) {
	old := f.Packs.Made()
	if !all {
		pages := old
		old = nil
		f.Ledger.Look(func(x *index.Index) {
			for _, n := range pages {
				if x.Page(n).Pending == 0 {
					old = append(old, n)
				}
			}
		})
	}
	f.Packs.Drop(old)
}
