package index

import "cutie/queuefs/job"

// SetFiled notes where the job file stands, making room for a job that is not
// known yet.
func (x *Index) SetFiled(id job.ID, st job.Status) { x.grow(id).slot(int(id % PageJobs)).setFiled(st) }

// SetPayloadFiled notes that the payload file stands.
func (x *Index) SetPayloadFiled(id job.ID) { x.grow(id).slot(int(id % PageJobs)).set(markPayload) }

// SetBehind notes whether the files of a job are behind the journal.
func (x *Index) SetBehind(id job.ID, behind bool) {
	s := x.grow(id).slot(int(id % PageJobs))
	if s.clear(markBehind); behind {
		s.set(markBehind)
	}
}
