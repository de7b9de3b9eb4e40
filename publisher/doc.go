// Package publisher is a ResourceSync Source (ANSI/NISO Z39.99-2017, version
// 1.1) over the queues of a Cutie home.
//
// Each queue is published as two sets of resources, see [names.Set]. A set has a
// Capability List, a Resource List, an open and closed Change Lists, Change
// Dumps, Resource Dumps, and archives; the Source Description names all sets.
//
// # Promises
//
// A document is a function of the journal of its queue and of the base URI: the
// same events give the same bytes. Exceptions are written down when they happen:
// the end of a list by its age, the event before a Resource Dump was begun, and files left
// out of a package.
//
// A Change List has every event committed before the request came. The open list
// only grows at its end. A closed list never changes. The entries of one event
// never stand in two lists.
//
// A page of a Resource List is the state at one instant, its at. Under changes so
// fast that no two readings agree, it has no entity tag, and replaying the
// changes since at leads to the true state (Z39.99-2017, 10.1).
//
// An event is in the published documents before the engine releases its record:
// [Publisher.Flush] and [Publisher.Synced] stand around each checkpoint. Nothing waits for
// packages; [Publisher.Holds] keeps the records they are made of.
//
// A damaged file is never served. It is set aside, and the index and the state say that it is
// gone; see INTERNALS.md.
//
// # Structure
//
//	engine ── events ──▶ follower ──▶ set.Set pending ──▶ documents ──▶ answer
//	                              └─▶ set.Set replica        ▲
//	Tick ──▶ work ── one set.Task ──▶ packages, dumps ───────┘
//	checkpoint ──▶ Flush, Synced ──▶ cursor
//
// A [Publisher] has a follower for each queue with changes, requests or work; the other
// queues are at rest, as lines of the cursor. The follower reads events once and
// hands them to both sets: at each Tick, around a checkpoint, for a request, and from
// [Publisher.KeepUp] while open lists are read. Package set is one set with its files: its open list, closed
// lists, packages and Resource Dumps. One task at a time makes packages, a slice of it in
// each Tick. Documents are composed from a set when asked for.
//
// The packages below know nothing of a Publisher; INTERNALS.md lists them. A [Notifier] makes
// notifications for a hub.
//
// # Locks
//
// From the outside in; `Service.upkeep` of the engine comes first, the locks of its queues
// last:
//
//	rereader.mu      held by one Scrub
//	work             held by one Tick, and by what must not meet one
//	set.Cursor.mu
//	followers.mu     which queues are open; held for no file
//	follower.mu      held while events are read
//	set.Set.mu       everything of one set
//	heir.mu          events that a queue inherits
//	set.Store.mu   held to open resourcesync anew
//
// No lock of this list is taken with one of polls, forms or a Notifier held.
//
// # Limits
//
// Indexes do not nest: a Change List Index names at most MaxEntries lists, the newest
// ones; archives have the rest.
package publisher
