package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"cutie/queuefs"
)

// date is local and to the second for people, else exact and UTC.
func (l *listing) date(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case l.people:
		return t.Local().Format("2006-01-02 15:04:05")
	}
	return queuefs.FormatTime(t)
}

// size has three digits and a unit for people, else every octet.
func (l *listing) size(n int64) string {
	if !l.people || n < 1000 {
		return fmt.Sprint(n)
	}
	f, unit := float64(n), 0
	for f >= 999.5 {
		f /= 1000
		unit++
	}
	return fmt.Sprintf("%.3g %cB", f, " kMGTPE"[unit])
}

// width is how many columns a terminal has, 80 if it does not say.
func width(f *os.File) int {
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}

// leastName is how much of the last column stays however narrow the terminal.
const leastName = 8

// align writes rows of the same number of fields as a table. The last field is
// cut where the line would be wider than width.
func align(b *bytes.Buffer, rows [][]string, width int) {
	var widths []int
	for _, r := range rows {
		if widths == nil {
			widths = make([]int, len(r))
		}
		for i, f := range r {
			widths[i] = max(widths[i], runewidth.StringWidth(f))
		}
	}
	for _, r := range rows {
		line, used := "", 0
		for i, f := range r {
			if i == len(r)-1 {
				line += runewidth.Truncate(f, max(width-used, leastName), "…")
				break
			}
			line += runewidth.FillRight(f, widths[i]+2)
			used += widths[i] + 2
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
