// Package index is the memory of a queue: in 96 bytes a job, 112 with MD5, with counts,
// the head of the queue and the last numbers.
//
// A job is changed by [Index.Apply] alone. Normal running calls it for a record on
// stable storage, a start calls it for the same record again. A [Change] has the
// whole new state of its job, so that it can be applied twice, or over a later
// state.
//
// Beside its jobs an Index has notes for its owner, never on disk: claims of
// operations, and the progress of the files of a job.
//
// Jobs stand in pages of [PageJobs] numbers. A page is 96 kilobytes of memory outside
// the garbage collector, less on the heap as long as only its first 2, 8, 32 or 128
// numbers are used, and none without jobs. [Index.AppendPage] writes a page for
// the disk, and [Index.LoadPage] reads it:
//
//	magic "CUTIEPG2" | crc u32 | parts u32 | version u64 | time µs i64 | slots | MD5s | keys | ends of holds, µs i64
//
// The checksum covers the name of the page, so that swapped pages do not verify.
// Slots are left out without jobs, MD5s and keys unless one is known, ends of holds
// unless there is one. The bits of parts say whether there are keys (1) and ends of
// holds (2), and the upper half how many slots there are, 0 for all; the checksum covers
// them unless they are 0. A slot:
//
//	0 status, outcome and marks   8 size of payload   32 SHA-256 of payload
//	1 marks                      16 submitted, µs     64 SHA-256 of job file
//	2 media type, by number      24 last change, µs
//	4 length of job file
//
// An Index has no clock, no files and no lock: its owner has.
package index
