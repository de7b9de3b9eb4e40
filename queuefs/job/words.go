package job

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of descriptions and names.
var (
	ErrBadName = errors.New("bad name")
	ErrSidecar = errors.New("sidecar is not text")
	ErrTooBig  = errors.New("too big")
)

// An ID numbers the jobs of a queue from 1; it never repeats, over restarts
// and culling. Its text is the job's file name, and text order is FIFO order.
type ID uint64

// MaxID is the largest number of twelve digits.
const MaxID = 999_999_999_999

// String returns "j" and twelve digits.
func (id ID) String() string { return string(id.Append(make([]byte, 0, 13))) }

// Append adds the text of the identifier to dst.
func (id ID) Append(dst []byte) []byte {
	var b [13]byte
	n := uint64(id)
	for i := 12; i > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	b[0] = 'j'
	return append(dst, b[:]...)
}

// ParseID accepts the output of String only. The error wraps [ErrBadName].
func ParseID(s string) (ID, error) {
	if len(s) != 13 || s[0] != 'j' {
		return 0, fmt.Errorf("%w: job identifier %.40q is not j and twelve digits", ErrBadName, s)
	}
	var n uint64
	for i := 1; i < 13; i++ {
		c := s[i] - '0'
		if c > 9 {
			return 0, fmt.Errorf("%w: job identifier %.40q is not j and twelve digits", ErrBadName, s)
		}
		n = n*10 + uint64(c)
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: job identifiers begin with j000000000001", ErrBadName)
	}
	return ID(n), nil
}

// A Seq numbers the events of a queue 1, 2, 3 … without gaps. 0 is before the
// first event.
type Seq uint64

// MaxSeq is the highest event number taken from a file: later events count from it.
const MaxSeq = 1 << 62

// A Status is where a job stands; it is the name of the directory its job
// file is in (Cutie 0.3, 3.3). The zero value is no job.
type Status uint8

const (
	Pending Status = 1 + iota
	Consumed
	Deleted
)

var statusNames = [...]string{"", "pending", "consumed", "deleted"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", s)
}

// ParseStatus accepts "pending", "consumed" and "deleted".
func ParseStatus(s string) (Status, error) {
	for i, n := range statusNames {
		if i > 0 && n == s {
			return Status(i), nil
		}
	}
	return 0, fmt.Errorf("%w: status %.40q is none of pending, consumed, deleted", ErrBadName, s)
}

// A Kind is the kind of an event.
type Kind uint8

const (
	Submit  Kind = 1 + iota // the job came
	Consume                 // pending to consumed
	Delete                  // pending to deleted
	Requeue                 // consumed or deleted to pending
	Cull                    // job file and payload removed
	Update                  // the job file changed, the status did not; of no job: queue-info.txt did
	// The following, too, change only the job file.
	Hold     // a pending job is passed over from now on
	Release  // it is no longer
	Extend   // the lease of a consumed job began or was extended
	Conclude // the outcome of a consumed job is known, or its consumer gave a result
	// The last one is in the journals of former versions. It is of no job and no
	// file, and nothing follows from it.
	Phase
)

var kindNames = [...]string{"", "submit", "consume", "delete", "requeue", "cull", "update", "hold", "release", "lease", "outcome", "phase"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", k)
}

// ParseKind accepts the output of String only.
func ParseKind(s string) (Kind, error) {
	for i, n := range kindNames {
		if i > 0 && n == s {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("%w: kind %.40q is none of %s", ErrBadName, s, strings.Join(kindNames[1:], ", "))
}

// An Outcome is the report of a consumer on its job. The zero value is no report.
type Outcome uint8

const (
	Completed Outcome = 1 + iota
	Failed
	Aborted // by its submitter or an operator, or because its time was over
)

var outcomeNames = [...]string{"", "completed", "error", "aborted"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", o)
}

// ParseOutcome accepts "completed", "error" and "aborted".
func ParseOutcome(s string) (Outcome, error) {
	for i, n := range outcomeNames {
		if i > 0 && n == s {
			return Outcome(i), nil
		}
	}
	return 0, fmt.Errorf("%w: outcome %.40q is none of completed, error, aborted", ErrBadName, s)
}
