// Package set is one set of resources as it is published: the Change Lists, packages and
// Resource Dumps of one of the two sets of a queue, and how far it has read the events.
//
//	events ──▶ Append ─┬▶ open list ───────close──▶ closed lists
//	                   └▶ growing package ─close──▶ Task ──▶ packages
//	pages of the engine ────────────Task────────────┴──────────────▶ Resource Dumps
//
//	Scrub, and each reader ──▶ damaged files ──▶ Heal
//	a failed sync ──▶ Renew          age, size ──▶ Retain
//
// A [Set] knows nothing of other sets, requests and Ticks: package publisher calls it,
// and composes documents from [Set.Standing], [Set.Holding] and the files. The sets of a
// home share a [Source]: settings, directory, cache, and whether anything has failed.
//
// # Life of an event
//
// Append renders the entries of an event and writes them to the end of the open list, and
// the files they stand for to the package that grows with it. The list is closed when it
// is full or old: its line is synced, and from this instant on its entries never change.
// A [Task] then compresses the entries and completes the package; another task makes a
// Resource Dump. It works in slices: each Step goes on
// for a moment, and nothing of the set is locked between. After a failure a [Wait] says
// when it is tried again. INTERNALS.md of publisher has the files, and the state a crash
// leaves.
//
// # Damage
//
// A file is verified before anything reads it. Damage is noted, and the reader gets an
// error with status 503. Heal makes the file again with the octets it had, or says in its
// line that it is lost. An unusable open list is made again from the journal at once. If
// nothing else helps, the files of the set are set aside, and the lists begin anew; tasks
// of the life before then end without effect.
//
// # Locks
//
// One lock guards everything that changes, mu. It is held while entries are written and
// lists are closed, and not while a task reads, compresses or writes packages. Methods
// with capital letters take it; the comment of another one says so if it is held.
// The function that catches up with the events is called without it, since that appends
// to both sets.
package set
