// Package bucket keeps a journal in an object store: a sequence of batches, each an
// object journal/NUMBER, made by a conditional write. Of two writers exactly one gets a
// number.
//
// A process becomes the owner by a claim, a batch at the next number. The former owner
// loses its next write, reads the claim, and stops with a [*FencedError]: nothing of it
// was or will be acknowledged after that number. This needs no clock, no lease and no
// lock service. A write without an answer is read back before anything else happens.
//
// Every batch has a digest of its own, the digest of the batch before, and number and
// digest of the beginning of the journal. So whoever reads finds a missing, swapped or
// damaged batch; a [*DamageError] names it.
//
// Release first writes a batch with the new beginning, which proves ownership, and
// deletes after that, in order. Claims stay for good: an owner that sleeps for long must
// find its next number taken.
//
// A journal may move to a directory and back ([Log.MoveTo], [Expect]). Meanwhile its last
// batch says so, and nobody owns it: Open ends with a [*MovedError].
//
// Others follow: they read batch after batch, and can take over at any time, by the same
// claim. Signs of life of the owner only say when to try: its batches, and without any an
// object beat/CLAIM, replaced every few seconds. Those of the last owners stay.
//
//	number   batch                    after a crash
//	n        none                     the next owner begins at n
//	n        written, no answer yet   it is part of the journal
//	n        claim                    the owner is the one in it
//	n        gone                     the journal is in the directory named in it
//	n        coming                   the same, and the store has not all of it
//	< begins any                      of no use; the next Release deletes all but claims
package bucket
