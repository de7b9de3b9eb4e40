package sitemap

import (
	"encoding/xml"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// eachAttr calls set with every attribute of start that is not empty and in no
// namespace or the element's own. fault returns whether the error of one ends this.
func eachAttr(start *xml.StartElement, set func(name, value string) error, fault func(error) error) error {
	for _, a := range start.Attr {
		if a.Value == "" || a.Name.Space != "" && a.Name.Space != start.Name.Space {
			continue
		}
		if err := set(a.Name.Local, a.Value); err != nil {
			if err := fault(fmt.Errorf("rs:%s %s: %w", start.Name.Local, a.Name.Local, err)); err != nil {
				return err
			}
		}
	}
	return nil
}

// parse takes the root rs:md.
func (h *oldHead) parse(start *xml.StartElement, fault func(error) error) error {
	var bounds error // of a Change List: without them changes may be missing in silence
	err := eachAttr(start, func(name, value string) (err error) {
		switch name {
		case "capability":
			h.Capability = Capability(value)
		case "at":
			h.At, err = parseTimeAttr(value)
		case "completed":
			h.Completed, err = parseTimeAttr(value)
		case "from":
			h.From, err = parseTimeAttr(value)
			bounds = errors.Join(bounds, err)
		case "until":
			h.Until, err = parseTimeAttr(value)
			bounds = errors.Join(bounds, err)
		case "modified":
			h.modified, err = parseTimeAttr(value)
		}
		return err
	}, func(err error) error {
		if bounds != nil {
			return err
		}
		return fault(err)
	})
	if err == nil && h.Capability == "" {
		err = errors.New("root rs:md without capability")
	}
	return err
}

// parse takes the rs:md of an entry.
func (e *Entry) parse(start *xml.StartElement, fault func(error) error) error {
	for _, a := range start.Attr {
		if a.Name.Space != EventNamespace || a.Value == "" || a.Name.Local != "event" && a.Name.Local != "seq" {
			continue
		}
		if err := e.set("cut:"+a.Name.Local, a.Value); err != nil {
			return err
		}
	}
	return eachAttr(start, e.set, fault)
}

// set takes an attribute of rs:md.
func (e *Entry) set(name, value string) (err error) {
	switch name {
	case "cut:event":
		e.Event = value
	case "cut:seq":
		err = e.seq(value)
	case "capability":
		e.Capability = Capability(value).normal()
	case "change":
		if err = checkChange(Change(value)); err == nil {
			e.Change = Change(value)
		}
	case "datetime":
		e.DateTime, err = parseTimeAttr(value)
	case "at":
		e.At, err = parseTimeAttr(value)
	case "completed":
		e.Completed, err = parseTimeAttr(value)
	case "from":
		e.From, err = parseTimeAttr(value)
	case "until":
		e.Until, err = parseTimeAttr(value)
	case "hash":
		e.Hashes = parseHashes(value)
	case "length":
		e.Length, err = parseLength(value)
	case "type":
		e.Type = value
	case "encoding":
		e.Encoding = value
	case "path":
		e.Path = value
	}
	return err
}

// parse takes an rs:ln.
func (l *Link) parse(start *xml.StartElement, fault func(error) error) error {
	err := eachAttr(start, l.set, fault)
	if err == nil && (l.Rel == "" || l.Href == "") {
		err = errors.New("rs:ln without rel or href")
	}
	return err
}

// set takes an attribute of rs:ln.
func (l *Link) set(name, value string) (err error) {
	switch name {
	case "rel":
		l.Rel = value
	case "href":
		l.Href = value
	case "pri":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxPri {
			return fmt.Errorf("%q is not 1 to %d", value, maxPri)
		}
		l.Pri = n
	case "modified":
		l.Modified, err = parseTimeAttr(value)
	case "hash":
		l.Hashes = parseHashes(value)
	case "length":
		if l.Length, err = parseLength(value); err != nil {
			l.Length = 0
		}
	case "type":
		l.Type = value
	case "encoding":
		l.Encoding = value
	case "path":
		l.Path = value
	}
	return err
}

// parseTimeAttr is ParseTime, but nothing is the zero time.
func parseTimeAttr(s string) (time.Time, error) {
	if s = strings.TrimSpace(s); s == "" {
		return time.Time{}, nil
	}
	return ParseTime(s)
}

func parseLength(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < 0 {
		return -1, fmt.Errorf("%q is not a number of octets", s)
	}
	return n, nil
}

func parseHashes(s string) []Hash {
	var hashes []Hash
	for f := range strings.FieldsSeq(s) {
		hashes = append(hashes, parseHash(f))
	}
	return hashes
}

// parseHash takes the last colon for the separator, as some Sources write
// urn:sha1:hex, and lower-cases the algorithm and hexadecimal digits, since
// digests are compared as strings.
func parseHash(s string) Hash {
	i := strings.LastIndexByte(s, ':')
	h := Hash{Value: s[i+1:]}
	if i > 0 {
		h.Alg = strings.ToLower(s[:i])
	}
	if isHex(h.Value) {
		h.Value = strings.ToLower(h.Value)
	}
	return h
}

// maxPri is the highest priority of a link.
const maxPri = 999_999

func checkChange(c Change) error {
	switch c {
	case "", Created, Updated, Deleted:
		return nil
	}
	return fmt.Errorf("unknown change %q", c)
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return false
		}
	}
	return true
}

// AppendTime appends t in UTC as a W3C Datetime: whole seconds, or microseconds
// in six digits if there is a fraction (2006-01-02T15:04:05Z,
// 2006-01-02T15:04:05.000120Z). Parts of a microsecond are cut off. The year
// must be 0 to 9999. It allocates only to grow dst.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = append(dst, "0000-00-00T00:00:00"...)
	p := dst[len(dst)-len("0000-00-00T00:00:00"):]
	twoDigits(p[0:], year/100)
	twoDigits(p[2:], year%100)
	twoDigits(p[5:], int(month))
	twoDigits(p[8:], day)
	twoDigits(p[11:], hour)
	twoDigits(p[14:], minute)
	twoDigits(p[17:], second)
	if us := t.Nanosecond() / 1000; us != 0 {
		dst = append(dst, ".000000"...)
		p = dst[len(dst)-len("000000"):]
		twoDigits(p[0:], us/10_000)
		twoDigits(p[2:], us/100%100)
		twoDigits(p[4:], us%100)
	}
	return append(dst, 'Z')
}

func twoDigits(p []byte, n int) {
	p[0] = byte('0' + n/10)
	p[1] = byte('0' + n%10)
}

// ParseTime reads any form of W3C Datetime, from a year alone to fractions of
// a second, and returns it in UTC, cut to microseconds. A missing zone, found
// in real documents, is taken as UTC.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(layout(s), s)
	if err != nil {
		return time.Time{}, fmt.Errorf("not a W3C Datetime: %q", s)
	}
	t = t.UTC().Truncate(time.Microsecond)
	if !printable(t) {
		return time.Time{}, fmt.Errorf("year out of range: %q", s)
	}
	return t, nil
}

// layout returns the only possible layout of s.
func layout(s string) string {
	switch len(s) {
	case len("2006"):
		return "2006"
	case len("2006-01"):
		return "2006-01"
	case len("2006-01-02"):
		return "2006-01-02"
	}
	const toMinute = len("2006-01-02T15:04")
	if len(s) < toMinute {
		return time.RFC3339
	}
	seconds := len(s) > toMinute && s[toMinute] == ':'
	zone := s[len(s)-1] == 'Z'
	if n := len(s) - len("+00:00"); n >= toMinute {
		zone = zone || s[n] == '+' || s[n] == '-'
	}
	switch {
	case seconds && zone:
		return time.RFC3339
	case seconds:
		return "2006-01-02T15:04:05"
	case zone:
		return "2006-01-02T15:04Z07:00"
	}
	return "2006-01-02T15:04"
}

// printable reports whether AppendTime can print t.
func printable(t time.Time) bool {
	year := t.UTC().Year()
	return 0 <= year && year <= 9999
}
