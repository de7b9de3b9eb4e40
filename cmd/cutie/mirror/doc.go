// Package mirror keeps queues of other Sources as live mirrors (Z39.99-2017, 5.2): it
// copies the set of all files of a queue once, and from then on replays each event of
// its Change Lists into the journal of the home.
//
//	Keeper ── a Source ──▶ follower ── a queue ──▶ baseline ──▶ queuefs.Adopt
//	                           │
//	                           └── Change List ──▶ backlog ── files ──▶ queuefs.Replay
//
// The position of a mirror is the last event in its journal: there is no other cursor,
// and a crash costs nothing. An original replaces files while they are fetched, so the
// backlog replays up to where each job has the file of its last event; the events in
// between have length and digest by the list.
package mirror
