// Package destination keeps copies of ResourceSync Sources, and proves them
// (ANSI/NISO Z39.99-2017, 5.2): the baseline, the changes after it, and the audit. It takes
// any Source, of version 1.1 or before, and plain Sitemaps.
//
// A [Copy] is a directory with a file for each resource; package local says where.
// [Copy.Sync] brings it up to the Source and [Copy.Follow] keeps it there; [Copy.Audit]
// compares both.
//
// # Promises
//
// A file has its name only when length and digests are the ones given by the Source.
// Nothing is fetched twice, and an interruption costs no more than the answers on their
// way: one to a connection, and less than one in a hundred of those before. The state in
// .cutie-sync is written after the files are on stable storage, so that it never promises
// more than there is.
//
// Changes of all lists are known before the first of them is applied: nothing is fetched
// that a later one replaces. Many of them come by packages of the Change Dump, where these
// have fewer octets than the answers to single requests.
//
// Each change is applied once, also where many have the same second or day. Where a list gets
// a change with an older time than others that were applied before, whole lists are compared.
//
// What cannot be read of a Source is named and passed over, be it an entry, a list or a set, and
// all else is copied. Then no file goes for being in no list, and the next run reads it again.
//
// A file of 1 MiB or more, and a package with a digest, go on where they were cut off. A run
// that is cut off within changes keeps the cursor up to where all files are there.
//
// With [Options].History the copy of a queue of a daemon has the changes that led to it, too.
// They and the cursor are one state, so that [OpenHistory] has all changes up to the cursor.
//
// A resource that is gone, or another, when it is asked for is in transit: a change to
// come explains it. Only if none does, it counts as failed.
package destination
