// Package journal is the seam between a queue and the place its changes are
// kept: a sequence of records, each with a number. A change is done when its
// record is on stable storage.
//
// Package segment keeps a journal in local files, package bucket in an object store.
// Package journaltest holds the tests every journal passes.
package journal

import (
	"errors"
	"iter"
	"time"
)

// An LSN is the number of a record. Numbers grow by one a record, also from one
// Append to the next. There are gaps only where records were lost, and once after a
// change of the format. The zero LSN is before all records.
type LSN uint64

// A Record is one record as read. Data is lent: it changes with the next one.
type Record struct {
	LSN  LSN
	Data []byte
}

// Contents are the bytes of a record to append: Head, then Body. Two parts spare
// the caller a copy of a payload. With Verify the batch of the record is read back and
// compared before it counts as durable; if other bytes came back the error is
// [ErrFailed].
type Contents struct {
	Head, Body []byte
	Verify     bool
}

// Size returns the bytes of the record.
func (c Contents) Size() int { return len(c.Head) + len(c.Body) }

// A Journal is a sequence of records, appended in batches. After a crash a batch is
// there whole or not at all. One process owns it; a former owner gets [ErrFenced]. Its
// methods are safe for concurrent use.
type Journal interface {
	// Append adds records with successive numbers. It copies them and does not
	// wait: they are on stable storage when Wait of the ticket returns nil. If
	// storage has to be made ready first the error is [ErrUnready]: the caller lets
	// its locks go, calls Reserve, and tries again. Other errors are [ErrTooLarge],
	// [ErrFailed], [ErrFenced] and [ErrClosed].
	Append(use Use, records []Contents) (Ticket, error)

	// Reserve waits until an Append of so many records, of size bytes together, finds
	// storage. Without space for this use it fails with the error of the system.
	Reserve(use Use, records, size int) error

	// ReadAt reads a durable record from the offset off, as [io.ReaderAt] does: at
	// the end of the record the error is [io.EOF]. For a released record it is
	// [ErrReleased], for a number without a record [ErrNoRecord].
	ReadAt(p []byte, at LSN, off int) (int, error)

	// Read yields the durable records from a number on, in order, up to the last
	// one at the time of the call; from 0 means from the oldest one there is. If some
	// of them were released, or are released meanwhile, the error is [ErrReleased].
	Read(from LSN) iter.Seq2[Record, error]

	// Release lets go of records before a number. Some of them may stay. A crash or
	// an error leaves the end of the journal without a hole.
	Release(before LSN) error

	// Trim gives back storage kept for speed alone.
	Trim() error

	Stats() Stats

	// Close waits for batches on their way and lets go of the journal.
	Close() error
}

// A Ticket stands for the records of one Append.
type Ticket struct {
	First LSN // number of the first record
	Batch Batch
}

// Wait returns when the records are on stable storage. All records before the
// number durable are, then. After an error the outcome is unknown until the journal
// is opened again.
func (t Ticket) Wait() (durable LSN, err error) { return t.Batch.Wait() }

// A Batch reaches stable storage as a whole. Wait is [Ticket.Wait].
type Batch interface {
	Wait() (durable LSN, err error)
}

// A Use is the purpose of records. A journal short of space keeps the last of it
// for records that make space.
type Use int

const (
	Adds    Use = iota // more is kept
	Changes            // as much is kept
	Frees              // less is kept
)

// Stats describe a journal at one instant.
type Stats struct {
	First, Next LSN   // of the oldest record there is; after the last durable one
	Held        int64 // bytes of storage; Release gives them back
	Written     int64 // bytes committed, or followed, since the journal was opened
	MaxAppend   int   // bytes of one Append, at most

	Syncs Syncs // since the journal was opened

	// Of a journal on a disk of its owner; else 0.
	Left  int64 // bytes before more storage is needed
	Wants int64 // bytes of the disk needed then, at least
	Short bool  // the disk had no space for them at the last attempt
}

// Syncs counts the syncs of a journal: each puts a batch on stable storage.
type Syncs struct {
	Count  int64
	Took   time.Duration         // in all
	Within [len(SyncTimes)]int64 // syncs of at most the time at this index of SyncTimes
}

// Add counts a sync.
func (s *Syncs) Add(took time.Duration) {
	s.Count++
	s.Took += took
	for i, most := range SyncTimes {
		if took <= most {
			s.Within[i]++
		}
	}
}

// SyncTimes are the bounds for counting syncs, ascending.
var SyncTimes = [...]time.Duration{100 * time.Microsecond, 300 * time.Microsecond, time.Millisecond, 3 * time.Millisecond,
	10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second}

var (
	// ErrFailed is the answer to every call after a write or sync has failed: the
	// contents of the storage are unknown until the journal is opened again.
	ErrFailed = errors.New("journal failed")

	// ErrFenced: another process owns the journal now, for good. The records of the
	// call were not added.
	ErrFenced = errors.New("journal has another owner")

	// ErrFollowing: this process reads what the owner of the journal writes, and adds
	// nothing itself.
	ErrFollowing = errors.New("another process owns the home, and this one is a standby")

	// ErrReleased: the record was let go.
	ErrReleased = errors.New("journal record released")

	// ErrNoRecord: there is no durable record of this number.
	ErrNoRecord = errors.New("no such journal record")

	// ErrTooLarge: the records have more than Stats.MaxAppend bytes.
	ErrTooLarge = errors.New("larger than a journal batch")

	// ErrUnready asks the caller of Append to call Reserve.
	ErrUnready = errors.New("journal storage is not ready")

	// ErrClosed: the journal is closed.
	ErrClosed = errors.New("journal closed")
)
