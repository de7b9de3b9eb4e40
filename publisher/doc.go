// Package publisher is a ResourceSync Source (ANSI/NISO Z39.99-2017, version
// 1.1) over the queues of a Cutie home.
//
// Each queue is published as two sets of resources, see [Set]. A set has a
// Capability List, a Resource List with pages and index, an open and closed
// Change Lists with their index, Change Dumps, a Resource Dump once one was
// made, and archives of what is no longer current; one Source Description names
// the Capability Lists of all sets.
//
// # What it promises
//
// Every document is a function of the journal of its queue and of the base
// URI: made again from the same events it has the same octets. Exceptions are
// written down when they happen and kept from then on: at which event a period
// ended, after which event a Resource Dump was begun, and what a package left
// out (see Change Dumps below).
//
// A Change List is true to the last event committed before the request came.
// The open list only grows: its head never changes, new entries stand where
// the foot was, so that a client may fetch with Range what it lacks. A closed
// list never changes. The entries of one event never stand in two lists.
//
// A page of a Resource List is the state at one instant, named by its at.
// Under changes so fast that no two readings agree the page is sent without
// an entity tag: each job is then shown as it was at some instant after at,
// and replaying the changes since at leads to the true state, which is all
// that Z39.99-2017, 10.1 asks for. Entity tags are strong, come from sequence
// numbers, and are compared before anything is read or composed.
//
// An event is in the published documents before the engine lets go of its
// record: [Publisher.Flush] and [Publisher.Synced] stand around each
// checkpoint.
//
// # Files
//
// Resource Lists, indexes, Capability Lists and the Source Description are
// composed from memory when asked for. Below resourcesync/ stand:
//
//	cutie-source.txt       the settings that this was published with, see [Published]
//	cutie-cursor           where each set stood at the last checkpoint
//	cutie-tmp-*            unfinished; removed on opening
//	Q/SET/changelist-F.entries   entries of the Change List that begins with event F
//	Q/SET/changelist-F.gz        the same compressed, once the list is closed
//	Q/SET/lists                  one line for each closed list
//	Q/SET/changedump-F.zip       package that begins with event F
//	Q/SET/packages               one line for each package
//	Q/SET/resourcedump-N-V.zip   package of the jobs from page N of the engine on
//	Q/SET/resourcedump-V.dump    a Resource Dump: one line for each package
//
// V is the event after which a Resource Dump was begun, in twelve digits.
// F has twelve digits. Heads and feet are no part of files; they are put
// around the entries when a list is served. What a crash leaves behind:
//
//	entries   lists      it is                    done on opening
//	absent    no line    no list                  the next event makes it
//	there     no line    the open list            cut to the length in cursor; what
//	                                              follows is made again from the journal
//	there     line       a closed list            served; if cursor still speaks of it,
//	                                              the next list begins behind it
//	short     any        damaged                  reported; a new list begins with the
//	                                              next event, indexes begin with it too
//
//	.zip      packages   it is                    done on opening
//	absent    no line    to be made               made by a Tick
//	there     no line    complete, not yet named  made again, same octets, same name
//	there     line       a package                served
//
//	resourcedump-N-V.zip  .dump       it is       done on opening
//	there                 absent      unfinished  removed by the first Tick
//	there                 names it    a package   served
//	absent, short         names it    damaged     the .dump is set aside and reported
//
// Closing a list is: sync its entries; write and sync its line, which is the
// instant it is closed; later, in any order, its compressed form and its
// packages. A package is synced under its name before its line is written.
// What is found missing or damaged while running is treated as on opening: the
// files of the set are set aside, as SET.1, and a new list begins.
//
// A Resource Dump counts from the instant that its .dump is in place, which is
// after all its packages are. What is kept no longer goes the other way round:
// the line or the .dump first, then what it named.
//
// If the journal no longer has the events that a set needs, the open list is
// closed where it ends, and the next one begins after the gap. An index names
// no list before the last gap; the lists stay where they were.
//
// # Change Dumps
//
// A package holds the changes of a closed list, or of a part of one if its
// bitstreams exceed [Options].MaxPackage. Each payload is checked against its
// digest on the way. If a payload is damaged or lost, there is no package,
// and changedump.xml begins behind the gap. A job file that was replaced
// before the package was made is left out of the manifest: no one could fetch
// it either, and the event that replaced it follows in this package or a later
// one, so that applying what there is leads to the true state. So are the
// files of a job that was culled: a package says which payloads are gone by
// their absence. Culling waits for the packages of closed lists, see
// [Publisher.Needs], so this happens to jobs that are culled before the list
// with their changes is closed; Period is how long that can take.
//
// # Resource Dumps
//
// A Resource Dump is made when DumpPeriod is over and something has changed, or
// by [Publisher.Publish]. A page that no event has touched keeps its package;
// the others get new ones under new names, once a period however busy they
// are. A package is of one instant, or, under changes, has completed beside at:
// job files that were gone before they were read are left out then, and the
// changes after at lead to the true state. A payload that is damaged or lost
// is reported and there is no new dump; the last one stays. Culling waits while
// a dump is made.
//
// # Links
//
// An entry of Pending has describedby to the job file and collection to the
// state of the queue. In Replica payload and job file refer to each other by
// describedby and describes, and the job file has one alternate: the state of
// the job, from which all its forms can be had. With the settings Mirrors and
// Via come duplicate and via. Entries are short on purpose: a submission takes
// 527 octets of a list of Pending and 1000 of Replica, of which collection is 65
// and alternate 78; compressed, 52 and 110, of which they are 1 and 7. That each
// form has an alternate of its own, with its media type, is said by Link headers
// of job files and states; six of them here would make an entry twice as long.
// A deletion has no such links: what was deleted has no other form.
//
// The Source Description and Capability Lists have describedby to documents
// about the Source and the set, a page and JSON. These change with each event
// and no notification tells of them.
//
// # Retention
//
// Keep and KeepOctets let go of the oldest closed lists, with their packages,
// and of former Resource Dumps. Whatever they say there stay: the last closed
// list, lists without packages yet, all lists with changes since the last
// Resource Dump, and that dump, unless it is made by Publish alone and older
// than Keep. So whoever takes what is named finds the changes since.
//
// On a disk that has no room for what is to be made, see Room, it waits: the jobs
// in it may be culled, and lists without packages go as others do, and so does an
// outdated Resource Dump, that kept them. The same holds for what has failed three
// times in a row for another reason.
//
// What Current, gaps and limits keep out of the index and the Change Dump, and
// Resource Dumps with their lists of resources that have a successor, are named
// by archives, which exist as long as there is something in them.
//
// # Limits
//
// Indexes do not nest. A Change List Index names at most 50,000 lists, the
// newest ones, and its from says so; likewise the Change Dump; archives have
// the rest. A Resource List Index of 50,000 pages has room for 2.4 thousand
// million jobs. A change of queue-info.txt is an event of no job, and an entry
// of the set replica. Results of workers are in no set: the index knows whether
// a job has some, not which, so that a Resource List of them would have to read
// the job files of its pages, and a job may have a hundred. The job file, which
// is in the set replica, names each with length and SHA-256, and the state of
// the job links to them.
package publisher
