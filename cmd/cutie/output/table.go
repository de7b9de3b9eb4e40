package output

import (
	"bytes"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// A Table prints rows. On a terminal they are aligned below a heading, no wider than
// the terminal. Elsewhere a row is a line of fields separated by tabs. Rows are
// written in blocks, so that a long list needs no more memory than a short one; only
// a block is aligned.
type Table struct {
	Format
	w    io.Writer // nil: to the sink
	sink *Sink
	rows [][]string
	out  *File // the file of the sink once a block was written to it
}

// blockRows is the number of rows of a block.
const blockRows = 1000

// Table begins a table. A file is made with the first block. Without a heading rows
// are lines of exact fields everywhere.
func (s *Sink) Table(heading ...string) *Table { return s.TableTo(nil, heading...) }

// TableTo begins a table in w, a writer of [Sink.Text].
func (s *Sink) TableTo(w io.Writer, heading ...string) *Table {
	t := &Table{w: w, sink: s}
	if len(heading) > 0 {
		t.Format = s.Format()
	}
	if t.People {
		t.rows = [][]string{heading}
	}
	return t
}

// Row adds a row; see [Format.Fields].
func (t *Table) Row(values ...any) error {
	t.rows = append(t.rows, t.Fields(values...))
	if len(t.rows) < blockRows {
		return nil
	}
	return t.flush()
}

// flush writes the rows so far.
func (t *Table) flush() (err error) {
	w := t.w
	if w == nil && t.sink.Name == "" {
		w = t.sink.Stdout
	} else if w == nil {
		if t.out == nil {
			if t.out, err = Create(t.sink.Name); err != nil {
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
func (t *Table) End() error {
	if err := t.flush(); err != nil || t.out == nil {
		return err
	}
	out := t.out
	t.out = nil
	return out.Commit()
}

// Discard removes a file before End, and does nothing after it.
func (t *Table) Discard() {
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
