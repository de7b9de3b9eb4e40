package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"cutie/queuefs/job"
	"cutie/queuefs/state"
)

// A sink is where a command writes its result: a file, which appears whole or not at all,
// or standard output. Text from outside may hold control characters, or may reverse text
// on a screen. A terminal gets these characters escaped; files and pipes get exact text.
// Payloads and results of jobs are exact everywhere.
type sink struct {
	Name   string // of a file; "" for standard output
	Stdout *os.File
}

// Text writes text.
func (s *sink) Text(write func(io.Writer) error) error { return s.write(onScreen(s.Stdout), write) }

// Exact writes octets, which are exact on a terminal too.
func (s *sink) Exact(write func(io.Writer) error) error { return s.write(s.Stdout, write) }

func (s *sink) write(stdout io.Writer, write func(io.Writer) error) error {
	if s.Name == "" {
		return write(stdout)
	}
	return writeFile(s.Name, write)
}

// Emit writes a whole text.
func (s *sink) Emit(text []byte) error {
	return s.Text(func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// Lines writes each word on a line.
func (s *sink) Lines(words []string) error {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(w + "\n")
	}
	return s.Emit([]byte(b.String()))
}

// Terminal reports whether f is one.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Screen returns a writer of text to f. On a terminal an incomplete character at the
// end waits for the rest.
func onScreen(f *os.File) io.Writer {
	if isTerminal(f) {
		return &screen{w: f}
	}
	return f
}

// A screen escapes text.
type screen struct {
	w   io.Writer
	buf []byte // beginning of a character
}

func (s *screen) Write(p []byte) (int, error) {
	var out []byte
	text := append(s.buf, p...)
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case r != '\n' && r != '\t':
			out = appendPrintable(out, r)
		default:
			out = append(out, text[0])
		}
		text = text[size:]
	}
	s.buf = text
	if _, err := s.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// printable escapes s for one line of a terminal.
func printable(s string) string {
	var out []byte
	for _, r := range s {
		out = appendPrintable(out, r)
	}
	return string(out)
}

// appendPrintable appends r, or its escape in JSON.
func appendPrintable(dst []byte, r rune) []byte {
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
		return fmt.Appendf(dst, `\u%04x`, r)
	}
	return utf8.AppendRune(dst, r)
}

// A File is an output file being written. It appears whole at Commit, or not at all. An
// existing device, pipe or symbolic link is written to instead.
type outFile struct {
	*os.File
	name string
	temp string // "" when written in place
}

// Create begins a file. It fails now, and not at Commit, if the directory cannot be
// written to.
func createFile(name string) (*outFile, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, usagef("%s is a directory, an output file is wanted", name)
	}
	switch info, err := os.Lstat(name); {
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return nil, err
		}
		return &outFile{f, name, ""}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	dir := filepath.Dir(name)
	temp := filepath.Join(dir, ".cutie-"+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		var why *fs.PathError // with the temporary name
		if errors.As(err, &why) {
			err = fmt.Errorf("%s: directory %s: %w", name, dir, why.Err)
		}
		return nil, err
	}
	return &outFile{f, name, temp}, nil
}

// Commit gives the file its name. It is on stable storage then.
func (r *outFile) Commit() error {
	if r.temp == "" {
		return r.Close()
	}
	err := errors.Join(r.Sync(), r.Close())
	if err == nil {
		err = os.Rename(r.temp, r.name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(r.temp))
	}
	return nil
}

// Discard removes a file before Commit, and does nothing after it.
func (r *outFile) Discard() {
	r.Close()
	if r.temp != "" {
		os.Remove(r.temp)
	}
}

// writeFile writes a file as a whole.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := createFile(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Discard()
		return err
	}
	return f.Commit()
}

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
	return job.FormatTime(t)
}

// Size has three digits and a unit for people, else every octet.
func (f rowFormat) Size(n int64) string {
	if !f.People || n < 1000 {
		return fmt.Sprint(n)
	}
	return state.FormatSize(n)
}

// A progress shows a bar on a terminal.
type progress struct {
	w     *os.File // nil unless a terminal
	what  string
	total int64 // octets; -1 if unknown
	from  time.Time
	done  int64
	bar   *progressbar.ProgressBar
}

// newProgress shows what is done with total octets, -1 if their number is unknown,
// once it has taken that long.
func newProgress(w *os.File, what string, total int64, after time.Duration) *progress {
	p := &progress{what: what, total: total, from: time.Now().Add(after)}
	if isTerminal(w) {
		p.w = w
	}
	if after == 0 {
		p.show()
	}
	return p
}

func (p *progress) show() {
	if p.w != nil && p.bar == nil {
		p.bar = progressbar.NewOptions64(p.total, progressbar.OptionSetWriter(p.w), progressbar.OptionShowBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionUseANSICodes(true), progressbar.OptionSetDescription(p.what))
	}
}

// Total changes the number of octets, when it becomes known.
func (p *progress) Total(total int64) {
	if total == p.total {
		return
	}
	unknown := p.total < 0
	p.total = total
	switch {
	case p.bar == nil:
	case unknown:
		p.Clear()
		p.bar = nil
		p.show()
	default:
		p.bar.ChangeMax64(total)
	}
}

// Write counts octets.
func (p *progress) Write(b []byte) (int, error) { return len(b), p.Add(int64(len(b))) }

// Add counts n octets.
func (p *progress) Add(n int64) error {
	p.done += n
	if !time.Now().Before(p.from) {
		p.show()
	}
	if p.bar == nil {
		return nil
	}
	return p.bar.Set64(p.done)
}

// Clear removes the bar, before a line is printed or for good.
func (p *progress) Clear() {
	if p.bar != nil {
		p.bar.Clear()
	}
}

// Count shows the octets read from r.
func (p *progress) Count(r io.ReadCloser) io.ReadCloser {
	if p.w == nil {
		return r
	}
	return counted{io.TeeReader(r, p), r}
}

// A counted stream is read through its Reader.
type counted struct {
	io.Reader
	io.Closer
}
