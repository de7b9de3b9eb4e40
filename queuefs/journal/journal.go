// Package journal is the seam between a queue and the place its changes are
// kept: a sequence of records, each with a number. A change is done when its
// record is on stable storage.
//
// Package segment keeps a journal in local files. Package journaltest holds the
// tests every journal passes.
package journal

import (
	"errors"
	"iter"
	"time"
)

// An LSN is the number of a record. Numbers grow; the records of one Append have
// numbers without gaps, and so have Appends that follow each other, unless records
// were lost in between. The zero LSN is before all records.
type LSN uint64

// A Record is a record that was read. Data is lent: it changes with the next one.
type Record struct {
	LSN  LSN
	Data []byte
}

// Contents are the bytes of a record to append: Head, then Body. In two parts,
// so that a payload is not copied to stand beside its description.
type Contents struct{ Head, Body []byte }

// Size returns the bytes of the record.
func (c Contents) Size() int { return len(c.Head) + len(c.Body) }

// A Journal is a sequence of records, appended in batches that are there whole or
// not at all. One process owns it; a former owner gets [ErrFenced]. Its methods
// are safe for concurrent use.
type Journal interface {
	// Append adds records with successive numbers. It copies them and does not
	// wait: they are on stable storage when Wait of the ticket returns nil. If
	// storage has to be made ready first the error is [ErrUnready]: the caller lets
	// its locks go, calls Reserve, and tries again. Other errors are [ErrTooLarge],
	// [ErrFailed] and [ErrFenced].
	Append(use Use, records []Contents) (Ticket, error)

	// Reserve waits until an Append of size bytes finds storage. It fails with the
	// error of the system if there is no space for such a use.
	Reserve(use Use, size int) error

	// ReadAt reads a durable record from the offset off, as [io.ReaderAt] does: at
	// the end of the record the error is [io.EOF]. If the record was released it is
	// [ErrReleased], and [ErrNoRecord] if there is none of that number.
	ReadAt(p []byte, at LSN, off int) (int, error)

	// Read yields the durable records from a number on, in order, up to the last
	// one at the time of the call; from 0 means from the oldest one there is. If some of them were released, or are released
	// meanwhile, the error is [ErrReleased].
	Read(from LSN) iter.Seq2[Record, error]

	// Release lets go of records before a number. Some of them may stay. A crash or
	// an error leaves the end of the journal without a hole.
	Release(before LSN) error

	// Trim gives back storage that is kept to be quick.
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

// Wait returns when the records are on stable storage, and the number of the next
// record that is not: all before it are. After an error nobody knows whether the
// records are there until the journal is opened again.
func (t Ticket) Wait() (durable LSN, err error) { return t.Batch.Wait() }

// A Batch is what reaches stable storage together. Wait is [Ticket.Wait].
type Batch interface {
	Wait() (durable LSN, err error)
}

// A Use says what records are for. A journal short of space keeps the last of it
// for records that make space.
type Use int

const (
	Adds    Use = iota // adds to what is kept
	Changes            // changes what is kept
	Frees              // makes space
)

// Stats describe a journal at one instant.
type Stats struct {
	First, Next LSN   // of the oldest record there is; after the last durable one
	Held        int64 // bytes of storage that releasing records gives back
	Written     int64 // bytes committed since the journal was opened
	MaxAppend   int   // bytes of one Append, at most

	Syncs   int64         // since the journal was opened
	Syncing time.Duration // that they took, in all

	// Of a journal on a disk of its owner; else 0.
	Left  int64 // bytes that fit before more storage is needed
	Wants int64 // bytes of the disk that are needed then, at least
	Short bool  // the disk had no space for them at the last attempt
}

var (
	// ErrFailed is the answer to every call after a write or sync has failed:
	// nobody knows what is on storage until the journal is opened again.
	ErrFailed = errors.New("journal failed")

	// ErrFenced says that another process owns the journal now. Nothing was added.
	ErrFenced = errors.New("journal has another owner")

	// ErrReleased says that a record was let go.
	ErrReleased = errors.New("journal record released")

	// ErrNoRecord says that there is no durable record of a number.
	ErrNoRecord = errors.New("no such journal record")

	// ErrTooLarge says that records have more than Stats.MaxAppend bytes.
	ErrTooLarge = errors.New("larger than a journal batch")

	// ErrUnready asks the caller of Append to call Reserve.
	ErrUnready = errors.New("journal storage is not ready")

	// ErrClosed says that the journal is closed.
	ErrClosed = errors.New("journal closed")
)
