// Package job has the jobs of a queue, and all words for them: identifiers, event
// numbers, statuses, kinds of events, outcomes, leases, results, names of queues and
// batches. A [Job] is read from its file as it is written: the job file in ANVL
// (Cutie 0.3, 6.5), from which with the payload all else can be made again. The
// package is pure: no disk, no lock, no clock.
package job
