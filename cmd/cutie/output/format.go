package output

import (
	"fmt"
	"strings"
	"time"

	"cutie/queuefs"
)

// A Format is how fields are written: short for people, exact for programs.
type Format struct{ People bool }

// Format is that of a sink: for people if it is a terminal.
func (s *Sink) Format() Format { return Format{s.Name == "" && Terminal(s.Stdout)} }

// Fields returns values as [fmt.Sprint] prints them. Control characters are escaped for
// people and replaced for programs.
func (f Format) Fields(values ...any) (fields []string) {
	clean := OneLine
	if f.People {
		clean = printable
	}
	for _, v := range values {
		fields = append(fields, clean(fmt.Sprint(v)))
	}
	return fields
}

// OneLine replaces control characters, line ends too.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// Date is local and to the second for people, else exact and UTC.
func (f Format) Date(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case f.People:
		return t.Local().Format("2006-01-02 15:04:05")
	}
	return queuefs.FormatTime(t)
}

// Size has three digits and a unit for people, else every octet.
func (f Format) Size(n int64) string {
	if !f.People || n < 1000 {
		return fmt.Sprint(n)
	}
	v, unit := float64(n), 0
	for v >= 999.5 {
		v /= 1000
		unit++
	}
	return fmt.Sprintf("%.3g %cB", v, " kMGTPE"[unit])
}
