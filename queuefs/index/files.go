package index

import "cutie/queuefs/job"

// SetFiled notes the directory of the job file, also for a job not known yet.
func (x *Index) SetFiled(id job.ID, st job.Status) { x.grow(id).slot(int(id % PageJobs)).setFiled(st) }

// SetPayloadFiled notes a payload file under its name.
func (x *Index) SetPayloadFiled(id job.ID) { x.grow(id).slot(int(id % PageJobs)).set(markPayload) }
