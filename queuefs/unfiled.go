package queuefs

import (
	"iter"

	"cutie/queuefs/journal"
)

// unfiled is where the parts of a job are in the journal whose files are
// still to be written.
type unfiled struct {
	text, payload journal.LSN // records that have them; 0: in its file
}

// places has an unfiled for each job whose files are behind the journal. Such
// jobs are neighbours, so by page they take a third of the room of a map.
type places map[int]*placePage

type placePage struct {
	used int
	at   [PageJobs]unfiled // without text there is none
}

// of returns the place of a job, the zero value if its files are not behind.
func (p places) of(id JobID) unfiled {
	if page := p[int(id/PageJobs)]; page != nil {
		return page.at[id%PageJobs]
	}
	return unfiled{}
}

// put gives a job its place; u.text is not 0.
func (p places) put(id JobID, u unfiled) {
	n := int(id / PageJobs)
	page := p[n]
	if page == nil {
		page = new(placePage)
		p[n] = page
	}
	if page.at[id%PageJobs].text == 0 {
		page.used++
	}
	page.at[id%PageJobs] = u
}

// drop forgets the place of a job.
func (p places) drop(id JobID) {
	n := int(id / PageJobs)
	page := p[n]
	if page == nil || page.at[id%PageJobs].text == 0 {
		return
	}
	page.at[id%PageJobs] = unfiled{}
	if page.used--; page.used == 0 {
		delete(p, n)
	}
}

// all yields every place, in no order.
func (p places) all() iter.Seq[unfiled] {
	return func(yield func(unfiled) bool) {
		for _, page := range p {
			for _, u := range page.at {
				if u.text != 0 && !yield(u) {
					return
				}
			}
		}
	}
}
