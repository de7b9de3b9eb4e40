package index

import (
	"slices"

	"cutie/queuefs/job"
	"cutie/queuefs/journal"
)

// A Place has the records with the parts of a job; 0 is a part in its file.
type Place struct{ File, Payload journal.LSN }

// places has the place of each job behind the journal. These jobs are neighbours,
// so that pages take a third of the memory of a map of jobs.
type places map[int]*placePage

type placePage struct {
	used int
	at   [placeJobs]Place // without File there is none
}

// placeJobs is how many job numbers a placePage covers. Many queues have one job behind
// the journal.
const placeJobs = 16

func (p places) of(id job.ID) Place {
	if page := p[int(id/placeJobs)]; page != nil {
		return page.at[id%placeJobs]
	}
	return Place{}
}

// put sets the place of a job; to.File is not 0.
func (p places) put(id job.ID, to Place) {
	n := int(id / placeJobs)
	page := p[n]
	if page == nil {
		page = new(placePage)
		p[n] = page
	}
	if page.at[id%placeJobs].File == 0 {
		page.used++
	}
	page.at[id%placeJobs] = to
}

func (p places) drop(id job.ID) {
	n := int(id / placeJobs)
	page := p[n]
	if page == nil || page.at[id%placeJobs].File == 0 {
		return
	}
	page.at[id%placeJobs] = Place{}
	if page.used--; page.used == 0 {
		delete(p, n)
	}
}

// SetFilesWritten notes that the files of a job have the parts of a place. It
// returns false if the journal is ahead of them again.
func (x *Index) SetFilesWritten(id job.ID, was Place) bool {
	if now := x.places.of(id); now != was {
		now.Payload = 0
		x.places.put(id, now)
		return false
	}
	x.SetPassed(id)
	return true
}

// SetPassed notes that no file of a job is behind the journal any more.
func (x *Index) SetPassed(id job.ID) {
	if x.places.drop(id); len(x.places) == 0 {
		x.places = nil
	}
	x.grow(id).slot(int(id % PageJobs)).clear(markBehind)
}

// Behind reports whether the files of a job are behind the journal.
func (x *Index) Behind(id job.ID) bool {
	s := x.slot(id)
	return s != nil && s.has(markBehind)
}

// BehindOf reports whether the files of some job lack a record before at.
func (x *Index) BehindOf(at journal.LSN) bool {
	for _, page := range x.places {
		for _, p := range page.at {
			if p.File != 0 && p.File < at || p.Payload != 0 && p.Payload < at {
				return true
			}
		}
	}
	return false
}

// A History has the records of the last events.
type History struct {
	first   job.Seq // of records
	records []journal.LSN
}

// Note notes the record of an event. After a gap it begins anew.
func (h *History) Note(seq job.Seq, at journal.LSN) {
	if len(h.records) == 0 || seq != h.first+job.Seq(len(h.records)) {
		h.records, h.first = h.records[:0], seq
	}
	h.records = append(h.records, at)
}

// After returns the records of up to most events after one; false if the event
// next to it is not known.
func (h *History) After(seq job.Seq, most int) ([]journal.LSN, bool) {
	if len(h.records) == 0 || seq+1 < h.first || seq+1 >= h.first+job.Seq(len(h.records)) {
		return nil, false
	}
	from := h.records[seq+1-h.first:]
	return slices.Clone(from[:min(len(from), most)]), true
}

// Forget drops the records before first.
func (h *History) Forget(first journal.LSN) {
	n := 0
	for n < len(h.records) && h.records[n] < first {
		n++
	}
	if n > 0 {
		h.records = slices.Clone(h.records[n:])
		h.first += job.Seq(n)
	}
}
