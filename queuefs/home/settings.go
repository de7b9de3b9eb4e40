package home

import (
	"crypto/sha256"
	"time"

	"cutie/queuefs/job"
)

// Settings are the properties of a queue by a reading of queue-info.txt, and the
// published facts of the file. They are not changed once in use.
type Settings struct {
	Reading[QueueInfo]           // without its value
	Info               QueueInfo // with the time of creation, also if the file has none
	Facts              job.Facts
	Made               bool // nothing was known, the properties are made up
	dated              bool // the file has the time of creation
}

// MaxJournaled is up to where a queue-info.txt travels in the journal, in bytes.
const MaxJournaled = 16 << 10

// NewSettings returns the settings of a reading. A file without the time of creation
// has the known one, or else the time it was written.
func NewSettings(r Reading[QueueInfo], created time.Time) *Settings {
	s := &Settings{Reading: r}
	if r.Value != nil {
		s.Info = *r.Value
	}
	s.Value, s.dated = nil, !s.Info.Created.IsZero()
	if !s.Dated() {
		s.Info.Created = r.Written
		s.Date(created)
	}
	s.Facts = job.Facts{Length: int64(len(r.Text)), SHA256: sha256.Sum256(r.Text), Type: job.FileType, Modified: r.Written}
	return s
}

// Dated reports whether the file has the time of creation.
func (s *Settings) Dated() bool { return s.dated }

// Date sets the known time of creation if the file has none: the time of the file is
// later once it was edited.
func (s *Settings) Date(known time.Time) {
	if !s.Dated() && !known.IsZero() {
		s.Info.Created = known
	}
}
