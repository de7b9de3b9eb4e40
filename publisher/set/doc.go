// Package set is one set of resources as it is published: the Change Lists, packages and
// Resource Dumps of one of the two sets of a queue, and how far it has read the events.
//
//	events ──▶ Append ──▶ open list ──close──▶ closed lists ──Task──▶ packages
//	pages of the engine ─────────────────────────────────────Task──▶ Resource Dumps
//
//	Scrub, and each reader ──▶ damaged files ──▶ lose, mend          age, size ──▶ Retain
//
// A [Set] knows nothing of other sets, requests and Ticks: package publisher calls it,
// and composes documents from [Set.Standing], [Set.Holding] and the files. The sets of a
// home share a [Source]: settings, directory, and whether it was shut.
//
// # Life of an event
//
// Append renders the entries of an event and writes them to the end of the open list. The list
// is closed when it is full or old: the inventory with it is synced, and from this instant on
// its entries never change. A [Task] then compresses the entries and makes the package from the
// journal; another task makes a Resource Dump. It works in slices: each Step goes on for a
// moment, and nothing of the set is locked between. After a failure a [Wait] says when it is
// tried again. INTERNALS.md of publisher has the files, and the state a crash leaves.
//
// # Files
//
// Below resourcesync/ stand:
//
//	cutie-source.txt       settings of the last run; sealed
//	cutie-cursor           the open list of each set at the last checkpoint; sealed
//	cutie-former/          what was published with another base URI or version
//	cutie-removed          removed queues, a line for each
//	cutie-tmp-*            unfinished; removed on opening
//	Q/inherited.gz               changes of the original of a queue made of a copy
//	Q/SET/inventory              the closed lists, packages and Resource Dumps of a set; sealed
//	Q/SET/changelist-F.entries   entries of the Change List from event F on, while it is open
//	Q/SET/changelist-F.gz        the document of the list in gzip, in its place, soon after it is closed
//	Q/SET/changedump-F.zip       package from event F on
//	Q/SET/resourcedump-N-V.zip   package of the jobs from engine page N on
//
// Numbers have twelve digits, those of pages six. Heads and feet of open lists are
// added when they are served. Length and digest of each file stand in the inventory, or in
// the cursor. The first line of a
// file has a stamp, the base URI and the version of the documents; a file with another stamp
// is damaged.
//
// # Damage
//
// A file is verified before anything reads it. A damaged one is set aside, and what is of no
// use without it goes: see lose. Its reader gets an error with status 503, the next one 410 with
// where to begin anew. If the inventory or the open list is unusable, all files of the set are
// set aside, and the lists begin anew after the last event, see mend; tasks of the life before
// then end without effect. Nothing is repaired.
//
// # Locks
//
// One lock guards everything that changes, mu. It is held while entries are written and
// lists are closed, and not while a task reads, compresses or writes packages. Methods
// with capital letters take it; the comment of another one says so if it is held.
// The function that catches up with the events is called without it, since that appends
// to both sets.
package set
