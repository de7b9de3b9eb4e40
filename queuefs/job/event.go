package job

import (
	"slices"
	"time"
)

// An Event is one entry of a queue's history, on stable storage. It is of a
// job or of queue-info.txt.
type Event struct {
	Seq      Seq
	Time     time.Time // UTC, microseconds, strictly increasing within a queue
	Kind     Kind
	Job      ID            // 0: the event is of queue-info.txt
	From, To Status        // 0: not in the queue
	Payload  Facts         // zero of queue-info.txt
	File     Facts         // the job file, or queue-info.txt, as this event left it
	Results  *ResultChange // nil: the job has the results it had
}

// A ResultChange is the change of the results of a job by an event.
type ResultChange struct {
	Came []Result
	Went []string // names
}

// Results returns the change of the results from before to after, nil without one. A
// result of a name with other contents came.
func Results(before, after []Result) *ResultChange {
	if len(before)+len(after) == 0 {
		return nil
	}
	var c ResultChange
	for _, r := range before {
		if !slices.ContainsFunc(after, func(a Result) bool { return a.Name == r.Name }) {
			c.Went = append(c.Went, r.Name)
		}
	}
	for _, r := range after {
		if !slices.Contains(before, r) {
			c.Came = append(c.Came, r)
		}
	}
	if len(c.Came)+len(c.Went) == 0 {
		return nil
	}
	return &c
}

// Facts describe one file for an auditor.
type Facts struct {
	Length   int64 // octets
	SHA256   [32]byte
	MD5      [16]byte  // zero: unknown, as of all but payloads
	Type     string    // media type
	Modified time.Time // UTC, microseconds
}

// FileType is the media type of job files and queue-info.txt (Cutie 0.3, 4).
const FileType = "text/x-anvl"

// Instant returns the time of an event, in microseconds since 1970, as a time in UTC.
func Instant(us int64) time.Time { return time.UnixMicro(us).UTC() }
