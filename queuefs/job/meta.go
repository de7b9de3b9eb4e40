package job

import (
	"fmt"
	"slices"
	"strconv"
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

// Unlimited is a limit set to none.
const Unlimited = -1

// Limits are those of a user in a queue. 0 is not set, [Unlimited] no limit. As
// text they are a list such as
//
//	pending=100,active=1000,upload=1000000000,run=3600,life=720
//
// with 0 for no limit.
type Limits struct {
	Pending int64 // jobs made and not started (UWS 1.1, 2.1.3)
	Active  int64 // jobs waiting for a consumer or in work
	Upload  int64 // bytes of the payloads of all these jobs together
	Run     int64 // seconds that a job may run
	Life    int64 // hours from the creation of a job to its destruction
}

// maxLimit is the largest number in the text of Limits, so that products of
// units fit.
const maxLimit = 1 << 50

// mostOf are the largest values; run fits the document of a job, and life a time
// before the year 9999.
var mostOf = map[string]int64{"pending": maxLimit, "active": maxLimit, "upload": maxLimit, "run": 1<<31 - 1, "life": 1_000_000}

// names returns the limits by their names, in the order of the text.
func (l *Limits) names() []struct {
	name string
	n    *int64
} {
	return []struct {
		name string
		n    *int64
	}{{"pending", &l.Pending}, {"active", &l.Active}, {"upload", &l.Upload}, {"run", &l.Run}, {"life", &l.Life}}
}

// ParseLimits reads the text of [Limits.String], in any order; "" sets none.
func ParseLimits(text string) (l Limits, err error) {
	if text == "" {
		return l, nil
	}
parts:
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		for _, one := range l.names() {
			if one.name != name {
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			switch {
			case err != nil || n < 0 || n > mostOf[name]:
				return Limits{}, fmt.Errorf("%w: limit %.40q is not a number from 0 to %d", ErrBadName, part, mostOf[name])
			case *one.n != 0:
				return Limits{}, fmt.Errorf("%w: limit %s is repeated", ErrBadName, name)
			case n == 0:
				n = Unlimited
			}
			*one.n = n
			continue parts
		}
		return Limits{}, fmt.Errorf("%w: limit %.40q is none of pending, active, upload, run, life, each with = and a number", ErrBadName, part)
	}
	return l, nil
}

// String returns the limits that are set.
func (l Limits) String() string {
	var b strings.Builder
	for _, one := range l.names() {
		if *one.n == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(one.name + "=" + strconv.FormatInt(max(*one.n, 0), 10))
	}
	return b.String()
}

// Over returns l, completed by under where l sets nothing.
func (l Limits) Over(under Limits) Limits {
	to, from := l.names(), under.names()
	for i := range to {
		if *to[i].n == 0 {
			*to[i].n = *from[i].n
		}
	}
	return l
}

// MaxQueueID is the longest cleaned queue identifier, in octets; it leaves
// space in a file name for the additions of mirrors.
const MaxQueueID = 200

// reserved prefixes of file and property names, compared without case (Cutie
// 0.3, 6 and 6.2; the text prints "merrit").
var reserved = []string{"cutie", "cut", "merrit", "mrt"}

// CleanQueueID makes a directory name and URL segment of a queue identifier by
// Pairtree cleaning: "/" becomes "=", ":" becomes "+", "." becomes ",", and
// octets that are not visible ASCII or stand in file names for something else
// become ^xx. A name that is clean already maps to itself. Names that are
// empty, longer than 200 octets when cleaned, not UTF-8, or that begin with a
// reserved prefix are refused with an error that wraps [ErrBadName].
func CleanQueueID(name string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("%w: queue identifier %.60q %s", ErrBadName, name, why)
	}
	switch {
	case name == "":
		return bad("is empty")
	case len(name) > 3*MaxQueueID:
		return bad("is too long")
	case !utf8.ValidString(name):
		return bad("is not UTF-8")
	case strings.Trim(name, "./") == "":
		return bad("names no queue")
	}
	low := strings.ToLower(name)
	for _, p := range reserved {
		if strings.HasPrefix(low, p) {
			return bad("begins with the reserved prefix " + p)
		}
	}
	clean := isClean(name)
	if clean && len(name) <= MaxQueueID {
		return name, nil
	}
	out := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == 0 || c == '\n' || c == '\r':
			return bad("has a control character")
		case c == '/':
			out = append(out, '=')
		case c == ':':
			out = append(out, '+')
		case c == '.':
			out = append(out, ',')
		case !clean && strings.IndexByte(`"*+,<=>?\^|`, c) >= 0, c <= 0x20, c >= 0x7f, c == '%', c == '#', c == ';', c == '&', c == '\'':
			out = fmt.Appendf(out, "^%02x", c)
		default:
			out = append(out, c)
		}
	}
	if len(out) > MaxQueueID {
		return bad("is too long")
	}
	return string(out), nil
}

// isClean reports whether s has only characters left or made by cleaning.
func isClean(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '^':
			if i+2 >= len(s) || !hexDigit(s[i+1]) || !hexDigit(s[i+2]) {
				return false
			}
		case strings.IndexByte("\"*<>?\\|/:.%#;&'", c) >= 0, c <= 0x20, c >= 0x7f:
			return false
		}
	}
	return true
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
}
