package sitemap

import (
	"fmt"
	"time"
)

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
