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
	"cutie/queuefs/state"
)

// A table prints rows. On a terminal they are aligned below a heading, no wider than
// the terminal. Elsewhere a row is a line of fields separated by tabs. Rows are
// written in blocks, so that a long list needs no more memory than a short one; only
// a block is aligned.
type table struct {
	rowFormat
	w    io.Writer // nil: to the sink
	sink *sink
	rows [][]string
	out  *outFile // the file of the sink once a block was written to it
}

// blockRows is the number of rows of a block.
const blockRows = 1000

// Table begins a table. A file is made with the first block. Without a heading rows
// are lines of exact fields everywhere.
func (s *sink) Table(heading ...string) *table { return s.TableTo(nil, heading...) }

// TableTo begins a table in w, a writer of [sink.Text].
func (s *sink) TableTo(w io.Writer, heading ...string) *table {
	t := &table{w: w, sink: s}
	if len(heading) > 0 {
		t.rowFormat = s.Format()
	}
	if t.People {
		t.rows = [][]string{heading}
	}
	return t
}

// Row adds a row; see [rowFormat.Fields].
func (t *table) Row(values ...any) error {
	t.rows = append(t.rows, t.Fields(values...))
	if len(t.rows) < blockRows {
		return nil
	}
	return t.flush()
}

// flush writes the rows so far.
func (t *table) flush() (err error) {
	w := t.w
	if w == nil && t.sink.Name == "" {
		w = t.sink.Stdout
	} else if w == nil {
		if t.out == nil {
			if t.out, err = createFile(t.sink.Name); err != nil {
				return err
			}
		}
		w = t.out
	}
	var b bytes.Buffer
	if t.People {
		align(&b, t.rows, width(t.sink.Stdout))
	} else {
		for _, r := range t.rows {
			b.WriteString(strings.Join(r, "\t") + "\n")
		}
	}
	t.rows = nil
	_, err = w.Write(b.Bytes())
	return err
}

// End writes the last rows.
func (t *table) End() error {
	if err := t.flush(); err != nil || t.out == nil {
		return err
	}
	out := t.out
	t.out = nil
	return out.Commit()
}

// Discard removes a file before End, and does nothing after it.
func (t *table) Discard() {
	if t.out != nil {
		t.out.Discard()
	}
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

// A Format is how fields are written: short for people, exact for programs.
type rowFormat struct{ People bool }

// Format is that of a sink: for people if it is a terminal.
func (s *sink) Format() rowFormat { return rowFormat{s.Name == "" && isTerminal(s.Stdout)} }

// Fields returns values as [fmt.Sprint] prints them. Control characters are escaped for
// people and replaced for programs.
func (f rowFormat) Fields(values ...any) (fields []string) {
	clean := oneLine
	if f.People {
		clean = printable
	}
	for _, v := range values {
		fields = append(fields, clean(fmt.Sprint(v)))
	}
	return fields
}

// oneLine replaces control characters, line ends too.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// Date is local and to the second for people, else exact and UTC.
func (f rowFormat) Date(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case f.People:
		return t.Local().Format("2006-01-02 15:04:05")
	}
	return queuefs.FormatTime(t)
}

// Size has three digits and a unit for people, else every octet.
func (f rowFormat) Size(n int64) string {
	if !f.People || n < 1000 {
		return fmt.Sprint(n)
	}
	return state.FormatSize(n)
}
