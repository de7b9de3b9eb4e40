package job

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
)

// Meta is a submitter's description of a job.
type Meta struct {
	Filename  string // a label; only the part after the last slash is kept
	MediaType string
	Submitter string         // user agent
	Owner     string         // the submitting user; "" without a name
	Sidecar   string         // octets, at most MaxSidecar; see EmptySidecar
	Expect    []digest.Value // the payload must have these digests
	Batch     string

	EmptySidecar bool // there is a sidecar without octets

	Key   string      // names the submission, see [Job]; "" for none
	Extra anvl.Record // further elements of the job file, at most 16 KiB; no known ones

	Destruction time.Time             // see [Job]
	OnHold      bool                  // the job is on hold for [NotStarted]
	NotBefore   time.Time             // until then the job is on hold; zero: it is not
	Name        func(ID) anvl.Element // one more of Extra, made of the job's number; nil: none
}

// NotStarted is the reason for the hold of a job submitted on hold: it waits
// for its submitter. Releasing a selection of many jobs passes over it.
const NotStarted = "not started by its submitter"

// Limits of the metadata of a job, in bytes.
const (
	MaxSidecar = 1 << 20
	MaxLabel   = 1024
	maxExtra   = 16 << 10
)

// MaxMessage is the most octets of a message.
const MaxMessage = 16 << 10

// Check refuses metadata that could not be stored and read again, and makes the
// file name a label.
func (m *Meta) Check() error {
	if len(m.Sidecar) > MaxSidecar {
		return fmt.Errorf("sidecar: %w: more than %d octets", ErrTooBig, MaxSidecar)
	}
	if i := strings.LastIndexAny(m.Filename, `/\`); i >= 0 {
		m.Filename = m.Filename[i+1:]
	}
	for _, s := range []*string{&m.Filename, &m.MediaType, &m.Submitter, &m.Owner, &m.Batch} {
		// Cleaning may make it longer.
		if *s = CleanLabel(*s); len(*s) > MaxLabel {
			return fmt.Errorf("%w: %.40q… is longer than %d octets", ErrTooBig, *s, MaxLabel)
		}
	}
	if m.Key != "" {
		if err := CheckKey(m.Key); err != nil {
			return err
		}
	}
	m.NotBefore = m.NotBefore.Truncate(time.Microsecond).UTC()
	if m.NotBefore.Year() > 9999 {
		return fmt.Errorf("%w: not before the year %d", ErrBadName, m.NotBefore.Year())
	}
	size := 0
	for _, x := range m.Extra {
		if x.Name == "" || slices.Contains(elements[:], elementName(x.Name)) {
			return fmt.Errorf("%w: element %.40q is not one to add to a job file", ErrBadName, x.Name)
		}
		size += len(x.Name) + len(x.Value)
	}
	if size > maxExtra {
		return fmt.Errorf("further elements: %w: more than %d octets", ErrTooBig, maxExtra)
	}
	return nil
}

// CheckText refuses a sidecar that is not text: each form of a state can say text as it
// is. The error wraps [ErrSidecar].
func CheckText(sidecar string) error {
	if !utf8.ValidString(sidecar) {
		return fmt.Errorf("%w: it is not UTF-8", ErrSidecar)
	}
	for i, c := range sidecar {
		switch {
		case c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c == 0x7f:
			return fmt.Errorf("%w: control character %#02x at octet %d", ErrSidecar, c, i)
		case c == 0xfffe || c == 0xffff: // XML 1.0 has no place for them
			return fmt.Errorf("%w: %U at octet %d", ErrSidecar, c, i)
		}
	}
	return nil
}

// Job returns a pending job as described, yet without number and date. Start gives it
// the rest.
func (m *Meta) Job() Job {
	return Job{Status: Pending, Filename: m.Filename, MediaType: m.MediaType, Submitter: m.Submitter, Owner: m.Owner,
		Sidecar: m.Sidecar, EmptySidecar: m.EmptySidecar && m.Sidecar == "", Batch: m.Batch, Key: m.Key, Destruction: m.Destruction}
}

// Start gives a job of the description its number and date, and all that depends on them.
func (m *Meta) Start(j *Job, id ID, seq Seq, t time.Time) {
	j.ID, j.Seq, j.Submitted = id, seq, t
	if j.Extra = m.Extra; m.Name != nil {
		j.Extra = append(slices.Clip(j.Extra), m.Name(id))
	}
	switch {
	case m.OnHold:
		j.Hold(t, NotStarted, time.Time{})
	case !m.NotBefore.IsZero():
		j.Hold(t, "", m.NotBefore)
	}
}

// CleanLabel replaces characters without a place in documents.
func CleanLabel(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f {
			return strings.Map(func(r rune) rune {
				if r < 0x20 || r == 0x7f || r == 0xfffe || r == 0xffff {
					return utf8.RuneError
				}
				return r
			}, strings.ToValidUTF8(s, "\uFFFD"))
		}
	}
	return s
}

// CleanText makes a message fit for every document. Lines stay lines.
func CleanText(s string) (string, error) {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > MaxMessage {
		return "", fmt.Errorf("%w: more than %d octets", ErrTooBig, MaxMessage)
	}
	return s, nil
}
