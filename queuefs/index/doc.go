// Package index is the memory of a queue: what is known of each job, in under
// 100 octets, with the counts, the head of the queue and the last numbers.
//
// [Index.Apply] is the only way to change what is known. Normal running calls it
// for a record on stable storage, a start calls it for the same record again. A
// [Change] has the whole new state of its job, so that applying it twice, or over
// a later state, ends right.
//
// Beside that an Index has notes that no page on disk has: which jobs an operation
// has claimed, and how far the files of a job are behind its last change.
//
// Jobs stand in pages of [PageJobs] numbers. A page of 96 kilobytes is memory
// outside the garbage collector; with no jobs left it takes none. [Index.AppendPage]
// writes a page for the disk, and [Index.LoadPage] reads it:
//
//	magic "CUTIEPG2" | crc u32 | 0 u32 | version u64 | time µs i64 | slots | MD5s
//
// The checksum covers the name of the page, so that swapped pages do not verify.
// Slots are left out if no job is left, MD5s if none is known. A slot:
//
//	0 status, outcome and marks   8 size of payload   32 SHA-256 of payload
//	1 marks                      16 submitted, µs     64 SHA-256 of job file
//	2 media type, by number      24 last change, µs
//	4 length of job file
//
// An Index has no clock, no files and no lock: its owner has.
package index
