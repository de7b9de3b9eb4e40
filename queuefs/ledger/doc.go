// Package ledger is one queue as a state machine over the journal: a change
// appends records, a durable record is applied to the index, and callers waiting
// for it wake. It writes no file.
//
//	Commit ── build ──▶ records ── append ──▶ journal
//	                                             │ durable
//	Look ◀── index ◀── apply ◀───────────────────┘
//	                     ├─▶ backlog   jobs whose files are behind
//	                     └─▶ watch, line   waiting callers and consumers
//
// A [Ledger] is safe for concurrent use. Its lock guards the index and all beside
// it, and is never held while storage works. Replay runs the same apply as normal
// use does.
//
// [Shared] is what the ledgers of a home have in common; its [Gate] counts the calls
// on their way, and ends them when the home closes or its storage fails.
package ledger
