package index

import "cutie/queuefs/job"

// StandingOf returns the standing of a job by its job file.
func StandingOf(j *job.Job) Standing {
	return Standing{Status: j.Status, Outcome: j.Outcome, Held: j.Status == job.Pending && !j.Held.IsZero(),
		Leased: j.Status == job.Consumed && !j.Lease.Ends.IsZero(), Results: len(j.Results) > 0,
		Retained: !j.Destruction.IsZero() || j.Extra.Value(job.RequeuedAs) != "", Keyed: j.ConsumerKey != ""}
}
