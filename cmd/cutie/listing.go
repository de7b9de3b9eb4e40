package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"cutie/queuefs"
)

// A listing prints rows. On a terminal they are aligned below a heading, with
// short dates and sizes, no wider than the terminal. Elsewhere a row is a line
// of exact fields separated by tabs. Rows are written in blocks, so that a long
// list needs no more memory than a short one; only a block is aligned.
type listing struct {
	*call
	people bool // on a terminal
	w      io.Writer
	rows   [][]string
	out    *result // the output file once a block was written to it
}

// blockRows is the number of rows of a block.
const blockRows = 1000

// listing begins a list that goes to the output file or to standard output.
func (c *call) listing(heading ...string) *listing {
	l := &listing{call: c, people: c.output == "" && terminal(c.stdout)}
	if l.people {
		l.rows = [][]string{heading}
	}
	return l
}

// row adds a row. Control characters in its fields are escaped for people, and
// replaced elsewhere.
func (l *listing) row(fields ...string) error {
	for i, f := range fields {
		if l.people {
			fields[i] = printable(f)
		} else {
			fields[i] = oneLine(f)
		}
	}
	l.rows = append(l.rows, fields)
	if len(l.rows) < blockRows {
		return nil
	}
	return l.flush()
}

// oneLine replaces control characters.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// flush writes the rows so far.
func (l *listing) flush() error {
	w := l.w
	switch {
	case w != nil:
	case l.output == "":
		w = l.stdout
	case l.out == nil:
		var err error
		if l.out, err = createResult(l.output); err != nil {
			return err
		}
		fallthrough
	default:
		w = l.out
	}
	var b bytes.Buffer
	if l.people {
		align(&b, l.rows, width(l.stdout))
	} else {
		for _, r := range l.rows {
			b.WriteString(strings.Join(r, "\t") + "\n")
		}
	}
	l.rows = nil
	_, err := w.Write(b.Bytes())
	return err
}

// end writes the last rows.
func (l *listing) end() error {
	if err := l.flush(); err != nil || l.out == nil {
		return err
	}
	out := l.out
	l.out = nil
	return out.Commit()
}

// discard takes away an output file without an end.
func (l *listing) discard() {
	if l.out != nil {
		l.out.Discard()
	}
}

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

// width is the number of columns of a terminal, 80 if it does not say.
func width(f *os.File) int {
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}

// leastName is the least width of the last column.
const leastName = 8

// align writes rows of the same number of fields as a table. It cuts the last
// field where a line would be wider than width.
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
