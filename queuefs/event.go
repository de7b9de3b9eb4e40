package queuefs

import (
	"fmt"
	"strings"
	"time"
)

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

// A Kind says what happened to a job.
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
	// The last one is of no job of the queue.
	Phase // the phase of what a facade keeps beside the queue changed; see [Queue.TellPhase]
)

var kindNames = [...]string{"", "submit", "consume", "delete", "requeue", "cull", "update", "hold", "release", "lease", "outcome", "phase"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", k)
}

// ParseKind accepts what String prints of the kinds of events.
func ParseKind(s string) (Kind, error) {
	for i, n := range kindNames {
		if i > 0 && n == s {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("%w: kind %.40q is none of %s", ErrBadName, s, strings.Join(kindNames[1:], ", "))
}

// An Event is one entry of a queue's history, on stable storage. It is of a
// job, of queue-info.txt, or, if its kind is [Phase], of a subject that is
// neither; then it has no statuses and no facts.
type Event struct {
	Seq      Seq
	Time     time.Time // UTC, microseconds, strictly increasing within a queue
	Kind     Kind
	Job      JobID  // 0: the event is of queue-info.txt, or of Subject
	From, To Status // 0: not in the queue
	Payload  Facts  // zero of queue-info.txt
	File     Facts  // the job file, or queue-info.txt, as this event left it
	Subject  string // of Phase alone: the identifier of what changed
	Phase    string // of Phase alone: a word in capital letters; "": it is gone
}

// Facts are what an auditor compares of one file.
type Facts struct {
	Length   int64 // octets
	SHA256   [32]byte
	MD5      [16]byte  // zero: unknown, as of all but payloads
	Type     string    // media type
	Modified time.Time // UTC, microseconds
}
