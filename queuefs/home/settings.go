package home

import (
	"crypto/sha256"
	"strings"
	"time"
	"unique"

	"cutie/queuefs/job"
)

// Settings are the properties of a queue by a reading of queue-info.txt. They are not
// changed once in use.
type Settings struct {
	Reading[QueueInfo]          // without its value
	SHA256             [32]byte // of the text
	Made               bool     // nothing was known, the properties are made up
	dated              bool     // the file has the time of creation

	rules                unique.Handle[QueueInfo] // without the names: many queues have the same
	id, identifier, name string
	created              time.Time // also if the file has none
}

// MaxJournaled is up to where a queue-info.txt travels in the journal, in bytes.
const MaxJournaled = 16 << 10

// NewSettings returns the settings of a reading. A file without the time of creation
// has the known one, or else the time it was written.
func NewSettings(r Reading[QueueInfo], created time.Time) *Settings {
	s := &Settings{Reading: r, SHA256: sha256.Sum256(r.Text)}
	var info QueueInfo
	if r.Value != nil {
		info = *r.Value
	}
	s.id, s.identifier, s.name = info.ID, info.ID, info.ID // of most queues
	if info.Identifier != s.id {
		s.identifier = strings.Clone(info.Identifier)
	}
	if info.Name != s.id {
		s.name = strings.Clone(info.Name)
	}
	s.Value, s.created, s.dated = nil, info.Created, !info.Created.IsZero()
	if !s.Dated() {
		s.created = r.Written
		s.Date(created)
	}
	info.ID, info.Identifier, info.Name, info.Created = "", "", "", time.Time{}
	s.rules = unique.Make(info)
	return s
}

// Info returns the properties, with the time of creation.
func (s *Settings) Info() QueueInfo {
	info := s.Rules()
	info.ID, info.Identifier, info.Name, info.Created = s.id, s.identifier, s.name, s.created
	return info
}

// Rules is Info without the three names and the time of creation.
func (s *Settings) Rules() QueueInfo { return s.rules.Value() }

// Names are the identifier as it was given, and the name.
func (s *Settings) Names() [2]string { return [2]string{s.identifier, s.name} }

// Created returns when the queue was made.
func (s *Settings) Created() time.Time { return s.created }

// Facts are the published facts of the file.
func (s *Settings) Facts() job.Facts {
	return job.Facts{Length: int64(len(s.Text)), SHA256: s.SHA256, Type: job.FileType, Modified: s.Written}
}

// Dated reports whether the file has the time of creation.
func (s *Settings) Dated() bool { return s.dated }

// Date sets the known time of creation if the file has none: the time of the file is
// later once it was edited.
func (s *Settings) Date(known time.Time) {
	if !s.Dated() && !known.IsZero() {
		s.created = known
	}
}
