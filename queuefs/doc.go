// Package queuefs is a Cutie home on a file system: queues of opaque jobs, in
// directories, first in, first out (UC3 Cutie 0.3).
//
// It promises, in this order: what was acknowledged is never lost; an event
// that anybody has seen stays true; cost grows with the change, not with the
// queue.
//
// # How a job is kept
//
// Every change is one record in the journal (log/journal), and is done when
// that record is on stable storage. The record holds the whole new job file
// and, up to 128 KiB, the payload. A larger payload goes to a file in
// cutie-tmp first and is synced before its record is. The files of the queue
// directory follow the journal, in no hurry; a reader through this package
// never sees the lag. A checkpoint makes files and index durable and lets the
// journal before it go.
//
//	files                    record in the journal      the job is       after a crash
//	-----------------------  -------------------------  ---------------  ---------------------------------
//	cutie-tmp/T              none                       not there        T is removed
//	none                     submit                     pending          payload/ID, pending/ID are written
//	cutie-tmp/T              submit naming T            pending          T becomes payload/ID
//	payload/ID, pending/ID   let go, in a checkpoint    pending          as it stands
//	payload/ID, pending/ID   consume                    consumed         pending/ID goes, consumed/ID is written
//	pending/ID says consumed consume                    consumed         the same: the journal knows better
//	payload/ID, consumed/ID  let go                     consumed         as it stands
//	payload/ID, consumed/ID  requeue                    pending          consumed/ID goes, pending/ID is written
//	payload/ID, pending/ID   hold, release, update      pending          pending/ID is written again
//	payload/ID, consumed/ID  lease, outcome             consumed         consumed/ID is written again
//	cutie-tmp/T              none                       consumed         T is removed: there is no result
//	cutie-tmp/T              outcome naming T           consumed         T becomes result/ID/NAME
//	result/ID/NAME           outcome that named T       consumed         as it stands
//	result/ID                requeue                    pending          result/ID is removed
//	result/ID                update to a file without   any              result/ID is removed
//	                         results, as after damage
//	payload/ID, cutie-tmp/T  submit of ID2 naming T     two jobs         T, a link to payload/ID, becomes payload/ID2
//	any                      cull                       not there        its files are removed
//	none, or payload only    let go; index says pending pending          reported; see below
//
// deleted/ is to delete what consumed/ is to consume. A pending job on hold is
// passed over. A consumed job is done, or its consumer has a lease and reports
// an outcome; a lease that ends first is followed by requeue or outcome (see
// [Service.Expire]). A job that went back to pending has neither.
//
// The index (log/index) is a copy of what the directories say; without it, or
// for a damaged page of it, the directories are read.
//
// After a clean stop the directories rule: a job file that somebody moved,
// brought or took away while nobody had the home open becomes an event when
// it is opened. After a crash the journal rules. What cannot be understood is
// moved to corrupt/ beside the directories, and reported, never deleted.
//
// queue-info.txt is written first, and its change is an event, an update of no
// job, that has its digest. A file with another one, whoever changed it,
// becomes an event when it is seen. The index has a copy of it: when the file
// makes no sense, the properties that it had hold, and the queue is served. If
// there is no copy either, the queue is closed and paused.
//
// [Check] is this table as code.
//
// # How a queue is kept
//
// The line in queues.txt makes a queue, and it is the first to go:
//
//	queues/QID    line  log/index/queues/QID  the queue is  after a crash
//	------------  ----  --------------------  ------------  ---------------------------------
//	without jobs  no    any                   not there     as it stands; CreateQueue goes on
//	there         yes   queue, "empty"        there         the journal has all jobs
//	there         yes   queue, "bare"         there         the directories are read
//	there         yes   queue, pages          there         as it stands
//	without jobs  no    any, RemoveQueue      not there     as it stands; CreateQueue clears it
//	none          no    any                   not there     cutie-tmp/removed-QID is removed
//	none          yes   any                   lost          the home is not opened: somebody must look
//
// The file queue says from which place on the journal speaks of this queue. A
// queue made again under the name has nothing of the former queue except its
// last numbers of jobs and events: a reference to a job, and the name of a
// published document, never comes to mean another. So the file queue stays in
// the index, with these numbers alone, when a queue is removed, also by other
// hands. Beside the file queue, the file culled has the tombstones of jobs; only
// it and the journal know them.
//
// # Locks
//
// A lock is taken by holders of earlier ones only:
//
//	Service.upkeep           checkpoints, settings, and which queues there are
//	Queue.filing, its turns  files of jobs
//	tombstoneFile.mu         the file of tombstones
//	packs.mu                 copies of waiting jobs
//	Queue.mu                 what is known: index, settings, who waits
//	Service.mu               the list of queues, and the state of the service
//	those of the journal
//
// # A full disk
//
// Submissions are refused with [ErrNoSpace] before the disk is full: where it has
// no room for the files of all that is in the journal, or too little for what
// follows, index, published documents and the next segment. So a checkpoint can
// always be made, which lets go of old segments; where no others can be made it is
// made early, and what is to change waits for it. The end of the last segment is
// for changes of jobs, and the very end for culling. Upkeep removes the files of
// culled jobs first, so that culling makes room.
package queuefs
