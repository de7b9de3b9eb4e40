package queuefs

// SlotSize is how many octets of memory a job takes.
const SlotSize = slotSize

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
