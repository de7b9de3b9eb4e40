package uws

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"cutie/queuefs"
)

// timeForm is the form of times (UWS 1.1, 1.4): UTC, milliseconds. Comparisons
// use the same precision.
const timeForm = "2006-01-02T15:04:05.000Z"

func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func formatTime(t time.Time) string { return t.UTC().Format(timeForm) }

// timeForms are accepted: ISO 8601 as clients write it, UTC without a zone.
var timeForms = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02", "20060102T150405Z07:00", "20060102T150405", "20060102", "2006-01", "2006",
}

func parseTime(s string) (time.Time, error) {
	for _, form := range timeForms {
		if t, err := time.Parse(form, s); err == nil && t.Year() > 0 {
			if t = t.UTC(); t.Year() > 0 && t.Year() <= 9999 {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time such as 2026-01-31T12:00:00Z", s)
}

// A phase of UWS 1.1, 2.1.3.
type phase string

const (
	pending   phase = "PENDING"
	queued    phase = "QUEUED"
	executing phase = "EXECUTING"
	completed phase = "COMPLETED"
	failed    phase = "ERROR"
	aborted   phase = "ABORTED"
	held      phase = "HELD"
	suspended phase = "SUSPENDED" // never used
	archived  phase = "ARCHIVED"
	unknown   phase = "UNKNOWN"
)

var phases = []phase{pending, queued, executing, completed, failed, aborted, held, archived, suspended, unknown}

func parsePhase(s string) (phase, error) {
	for _, p := range phases {
		if strings.EqualFold(s, string(p)) {
			return p, nil
		}
	}
	return "", fmt.Errorf("%.40q is no phase", s)
}

// active reports whether a wait for the phase to change makes sense: by itself
// or by its client.
func (p phase) active() bool { return p == pending || p == queued || p == executing }

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// An identifier of a job made here contains its first number, so that no index
// is needed, and 88 secret random bits. It begins with no letter of "https",
// because a client strips them.
const (
	idNumber = 5  // bytes
	idSecret = 11 // bytes
	idLength = 27 // characters
)

// newID returns the identifier of a job made here.
func newID(n queuefs.JobID) string {
	var b [idNumber + idSecret]byte
	for i := range idNumber {
		b[i] = byte(n >> (8 * (idNumber - 1 - i)))
	}
	rand.Read(b[idNumber:])
	return "u" + base32Lower.EncodeToString(b[:])
}

// numberOf returns the number in an identifier made here.
func numberOf(id string) (n queuefs.JobID) {
	b, _ := base32Lower.DecodeString(id[1:])
	for _, octet := range b[:idNumber] {
		n = n<<8 | queuefs.JobID(octet)
	}
	return n
}

// isMade reports whether s has the form of an identifier made here.
func isMade(s string) bool {
	if len(s) != idLength || s[0] != 'u' {
		return false
	}
	b, err := base32Lower.DecodeString(s[1:])
	return err == nil && base32Lower.EncodeToString(b) == s[1:]
}

// Limits, in octets.
const (
	maxParams = 256 << 10 // names and values of the parameters of a job
	maxLabel  = 1024      // a run identifier, a file name, a media type
)

// A pair is a parameter of a job.
type pair struct{ name, value string }

// checkName refuses bad names of parameters.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a parameter has no name")
	case len(name) > 256:
		return fmt.Errorf("parameter %.40q… has a name of more than 256 octets", name)
	case strings.ContainsAny(name, "\t\r\n"):
		return fmt.Errorf("the name of parameter %.40q is not one line", name)
	}
	return nil
}

// checkText refuses names and values with characters outside of XML.
func checkText(p pair) error {
	if why := notText(p.name); why != "" {
		return fmt.Errorf("the name of parameter %.40q %s", p.name, why)
	}
	if why := notText(p.value); why != "" {
		return fmt.Errorf("the value of parameter %.40q %s; what is no text comes as a file", p.name, why)
	}
	return nil
}

// notText returns why XML cannot carry s (XML 1.0, 2.2), "" if it can.
func notText(s string) string {
	if !utf8.ValidString(s) {
		return "is not UTF-8"
	}
	for _, r := range s {
		if !isChar(r) {
			return fmt.Sprintf("has %U, which XML cannot carry", r)
		}
	}
	return ""
}

// isChar reports whether XML has the character. DEL is refused, too.
func isChar(r rune) bool {
	return (r >= 0x20 || r == '\t' || r == '\n' || r == '\r') && r != 0x7f && r != 0xfffe && r != 0xffff
}

var escapePair = strings.NewReplacer(`\`, `\\`, `;`, `\;`, `=`, `\=`)

// formatPairs writes parameters as a sidecar.
func formatPairs(pairs []pair) string {
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(escapePair.Replace(p.name) + "=" + escapePair.Replace(p.value))
	}
	return b.String()
}

// parsePairs reads a sidecar by formatPairs; false for other text.
func parsePairs(s string) (pairs []pair, ok bool) {
	for s != "" {
		var p pair
		var end byte
		if p.name, s, end = cutPair(s, "=;"); end != '=' || p.name == "" {
			return nil, false
		}
		p.value, s, end = cutPair(s, ";")
		if end == ';' {
			s = strings.TrimPrefix(s, " ")
		}
		pairs = append(pairs, p)
	}
	return pairs, true
}

// cutPair returns s up to the first of the ends, and the end, 0 at the end of
// s.
func cutPair(s, ends string) (text, rest string, end byte) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case strings.IndexByte(ends, c) >= 0:
			return b.String(), s[i+1:], c
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", 0
}
