// Package queuefs is a Cutie home on a file system: queues of opaque jobs, in
// directories, first in, first out (UC3 Cutie 0.3).
//
// It promises, in this order: an acknowledged job is never lost; an event once
// seen stays true; cost grows with the change, not with the queue.
//
// Every event is one record in the journal (log/journal), and is done when the
// record is on stable storage. The record holds the whole new job file and, up to
// 128 KiB, the payload; a larger payload is synced in cutie-tmp before its record.
// Applying the record to the index makes the change visible. The files of the
// queue directory follow the journal; a reader through this package never sees the
// lag. A checkpoint makes files and index durable and releases the journal before
// it. The index (log/index) is derived: without it, or for a damaged page of it,
// the directories are read.
//
// After a clean stop the directories rule: a job file moved by hand becomes an
// event when the home is opened. After a crash the journal rules. Files that cannot
// be understood are moved to corrupt/ and reported, never deleted.
//
// Submissions are refused with [ErrNoSpace] before the disk is full, so that
// checkpoints, consuming and culling go on.
//
// INTERNALS.md beside this file has the life of a job, the table of what a crash
// leaves, the order of locks, and where to change things.
package queuefs
