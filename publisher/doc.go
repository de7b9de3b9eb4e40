// Package publisher is a ResourceSync Source (ANSI/NISO Z39.99-2017, version
// 1.1) over the queues of a Cutie home.
//
// Each queue is published as two sets of resources, see [Set]. A set has a
// Capability List, a Resource List, an open and closed Change Lists, Change
// Dumps, Resource Dumps, and archives; the Source Description names all sets.
//
// # Promises
//
// A document is a function of the journal of its queue and of the base URI: the
// same events give the same bytes. Exceptions are written down when they happen
// and kept: where a period ended, after which event a Resource Dump began, what
// a package left out.
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
// [Publisher.Flush] and [Publisher.Synced] stand around each checkpoint. Culling
// waits for packages, see [Publisher.Needs].
//
// # Structure
//
//	engine ── events ──▶ follower ──▶ set pending ──▶ documents ──▶ ServeHTTP
//	                              └─▶ set replica        ▲
//	Tick ──▶ work ── one task ──▶ packages, dumps ───────┘
//	checkpoint ──▶ Flush, Synced ──▶ cursor
//
// A [Publisher] has a follower for each queue. The follower reads events once and
// hands them to both sets. A set owns its open Change List, the lists of closed
// ones, of packages and of Resource Dumps. One task at a time makes packages, a
// slice of it in each Tick. Documents other than Change Lists and packages are
// composed from memory when asked for.
//
// # Locks
//
// From the outside in; the locks of the engine's queues come last:
//
//	work             held by one Tick
//	cursor.mu
//	Publisher.mu     the followers
//	follower.mu      held while events are read
//	set.mu           everything of one set
//	store.mu         held to open resourcesync anew
//
// The lock of polls and of a Notifier is held for no other lock of this package.
//
// # Files
//
// Below resourcesync/ stand:
//
//	cutie-source.txt       settings of the last run, see [Published]; sealed
//	cutie-cursor           where each set stood at the last checkpoint; sealed
//	cutie-tmp-*            unfinished; removed on opening
//	Q/SET/changelist-F.entries   entries of the Change List from event F on
//	Q/SET/changelist-F.gz        the same in gzip, once the list is closed
//	Q/SET/lists                  a line for each closed list
//	Q/SET/changedump-F.zip       package from event F on
//	Q/SET/packages               a line for each package
//	Q/SET/resourcedump-N-V.zip   package of the jobs from engine page N on
//	Q/SET/resourcedump-V.dump    a Resource Dump, begun after event V; sealed
//
// Numbers have twelve digits. Heads and feet of lists are added when a list is
// served. INTERNALS.md beside this file says what a crash leaves and what is
// kept for how long.
//
// # Limits
//
// Indexes do not nest: a Change List Index names at most 50,000 lists, the newest
// ones; archives have the rest. Results of workers are in no set; the job file
// names them, with length and SHA-256.
package publisher
