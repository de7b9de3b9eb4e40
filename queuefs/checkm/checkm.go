// Package checkm reads Checkm manifests: lists of files, each with
// its digest, length and name (Checkm 2009-10-30, and 0.7 as Merritt uses it).
// A batch of jobs is submitted as one (Cutie 0.3, 5.5).
//
//	#%checkm_0.7
//	http://example.org/a.bin md5 b1946ac92492d2347c6235b4d2611184 6 - a.bin
//	http://example.org/b.bin | SHA-256 | 5891b5…be03 |  |  | b.bin
//	#%eof
//
// A line has up to six columns: source, digest type, digest, length, time of
// modification, target. Those at the end may be left out. A line with a bar has
// columns between bars, another has them between blanks and TABs. "-" or
// nothing stands for what is not specified.
//
// Between bars "%20" is a blank and "%7c" a bar, and no other "%" has a
// meaning; between blanks the target is percent-encoded as a URL is. The source
// is never decoded. A source behind "@" is itself a manifest, which continues
// this one. "url - - name" is read as Cutie 5.5 prints it, without the columns
// of length and time.
//
// Lines end with LF or CRLF; blank lines and those that begin with "#" are
// skipped, but for these, whose case does not count:
//
//	#%checkm…           the manifest has a mark at its end, else it was cut
//	#%fields, #%columns names and order of the columns, behind bars or blanks;
//	                    prefixes and case of the names do not count
//	#%eof               the mark; only white space may follow
//
// A byte order mark is skipped. Text is UTF-8 without control characters.
package checkm

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An Entry is a line of a manifest.
type Entry struct {
	Line     int    // of the manifest, from 1; ignored when written
	Include  bool   // the source is a manifest and continues this one
	Source   string // URL or file name, as it stands
	Alg      string // type of the digest, or "dir" for a directory; "" if not specified
	Digest   string // "" if not specified
	Length   int64  // octets; below 0 if not specified
	Modified string // as it stands; "" if not specified
	Target   string // name for the file; "" if not specified
	Extra    []Column
}

// A Column is a column besides the six known ones.
type Column struct {
	Name  string // as it stands in #%fields, such as "mrt:title"
	Value string // never ""
}

// Value returns the column of the given name, prefix and case aside, or "".
func (e *Entry) Value(name string) string {
	for _, c := range e.Extra {
		if plainName(c.Name) == plainName(name) {
			return c.Value
		}
	}
	return ""
}

// Name returns the name of the file: the last element of the target or else,
// decoded, of the path of the source. It is a label and never a path; "" if
// there is none.
func (e *Entry) Name() string {
	if name := last(e.Target); name != "" {
		return name
	}
	s, _, _ := strings.Cut(e.Source, "#")
	s, _, _ = strings.Cut(s, "?")
	if _, path, ok := strings.Cut(s, "://"); ok {
		if _, s, ok = strings.Cut(path, "/"); !ok {
			return ""
		}
	}
	name := last(s)
	if d := strings.ReplaceAll(unescape(name), "/", "_"); checkText(d) == nil {
		return last(d)
	}
	return name
}

// last returns the last element of a path, "" for "." and the like.
func last(path string) string {
	path = strings.TrimRight(path, "/")
	name := path[strings.LastIndexByte(path, '/')+1:]
	if name == "." || name == ".." {
		return ""
	}
	return name
}

// A ParseError names a line with an error.
type ParseError struct {
	Line int // of the input, from 1
	Err  error
}

func (e *ParseError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns e.Err.
func (e *ParseError) Unwrap() error { return e.Err }

// Errors within a [*ParseError].
var (
	ErrTooLarge  = errors.New("manifest too large")
	ErrTruncated = errors.New("truncated manifest: #%eof is missing")
)

// The six columns in their order.
const (
	source = iota
	alg
	digest
	length
	modified
	target
	known
)

// names are the names of the columns: by Merritt, and by Checkm 2009.
var names = [known][]string{
	source:   {"nfo:fileUrl", "SourceFileOrURL", "Source"},
	alg:      {"nfo:hashAlgorithm", "Alg", "Algorithm"},
	digest:   {"nfo:hashValue", "Digest"},
	length:   {"nfo:fileSize", "Length"},
	modified: {"nfo:fileLastModified", "ModTime"},
	target:   {"nfo:fileName", "TargetFileOrURL", "Target"},
}

// columnOf returns the number of a column by its name, -1 for another name.
func columnOf(name string) int {
	return slices.IndexFunc(names[:], func(all []string) bool {
		return slices.ContainsFunc(all, func(n string) bool { return plainName(n) == plainName(name) })
	})
}

func plainName(name string) string {
	return strings.ToLower(name[strings.LastIndexByte(name, ':')+1:])
}

const blanks = " \t"

// checkText refuses characters that no column may have.
func checkText(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("text is not UTF-8")
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == 0x7f {
			return fmt.Errorf("text has the control character %#02x", s[i])
		}
	}
	return nil
}

// DefaultMaxLine is the default limit of lines of a [Reader]: 64 KiB.
const DefaultMaxLine = 64 << 10

// A Reader reads the entries of a manifest.
type Reader struct {
	// MaxLine is the most octets of a line, without its end; 0 means
	// [DefaultMaxLine]. MaxEntries is the most entries, unreadable ones
	// included; 0 means any number. Neither may change after the first Read.
	MaxLine, MaxEntries int

	r       io.Reader
	scanner *bufio.Scanner
	line    int
	entries int
	fields  []field // nil: the six in their order
	header  bool
	marked  bool // #%eof was read
	err     error
}

// A field is a column as #%fields has it.
type field struct {
	name string
	as   int // one of the six, or -1
}

// NewReader returns a Reader on r.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Read returns the next entry. At the end of the manifest the error is
// [io.EOF]. An unreadable line is a [*ParseError]; Read goes on after it,
// unless the rest is unreadable too or a limit is reached: then io.EOF follows.
// Any other error is from the underlying reader, and final.
func (r *Reader) Read() (Entry, error) {
	if r.err != nil {
		return Entry{}, r.err
	}
	if r.scanner == nil {
		r.MaxLine = cmp.Or(r.MaxLine, DefaultMaxLine)
		r.scanner = bufio.NewScanner(r.r)
		// Room for the line end and the octet a scanner wants to be free.
		r.scanner.Buffer(nil, r.MaxLine+3)
	}
	for r.scanner.Scan() {
		r.line++
		line := r.scanner.Text()
		if r.line == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if len(line) > r.MaxLine {
			return Entry{}, r.fatal(ErrTooLarge)
		}
		line = strings.Trim(line, blanks)
		switch {
		case line == "":
			continue
		case r.marked:
			return Entry{}, r.fatal(errors.New("text behind #%eof"))
		case line[0] == '#':
			if err := r.directive(line); err != nil {
				return Entry{}, r.fatal(err)
			}
			continue
		}
		if r.entries++; r.MaxEntries > 0 && r.entries > r.MaxEntries {
			return Entry{}, r.fatal(fmt.Errorf("%w: more than %d entries", ErrTooLarge, r.MaxEntries))
		}
		e, err := r.entry(line)
		if err != nil {
			// A line cut short by the underlying reader proves nothing.
			if r.err = r.scanner.Err(); r.err != nil {
				return Entry{}, r.err
			}
			return Entry{}, &ParseError{r.line, err}
		}
		return e, nil
	}
	switch err := r.scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		r.line++
		return Entry{}, r.fatal(ErrTooLarge)
	case err != nil:
		r.err = err
	case r.header && !r.marked:
		return Entry{}, r.fatal(ErrTruncated)
	default:
		r.err = io.EOF
	}
	return Entry{}, r.err
}

// fatal ends the manifest with an error of the present line.
func (r *Reader) fatal(err error) error {
	if r.err = r.scanner.Err(); r.err != nil && !errors.Is(r.err, bufio.ErrTooLong) {
		return r.err
	}
	r.err = io.EOF
	return &ParseError{max(r.line, 1), err}
}

// directive takes a line beginning with "#".
func (r *Reader) directive(line string) error {
	end := strings.IndexAny(line, blanks+"|")
	if end < 0 {
		end = len(line)
	}
	switch name := strings.ToLower(line[:end]); {
	case strings.HasPrefix(name, "#%checkm"):
		r.header = true
	case name == "#%eof":
		r.marked = true
	case name == "#%fields", name == "#%columns":
		return r.setFields(strings.TrimPrefix(strings.Trim(line[end:], blanks), "|"), name)
	}
	return nil
}

func (r *Reader) setFields(list, directive string) error {
	switch {
	case r.fields != nil:
		return fmt.Errorf("%s is repeated", directive)
	case r.entries > 0:
		return fmt.Errorf("%s behind the first entry", directive)
	}
	columns, _ := split(strings.TrimSuffix(list, "|"))
	seen := map[string]bool{}
	urls := 0
	for _, name := range columns {
		f := field{name, columnOf(name)}
		key := plainName(name)
		if f.as >= 0 {
			key = plainName(names[f.as][0])
		}
		if f.as == source {
			urls++
		}
		if err := checkText(name); err != nil {
			return err
		}
		if key == "" || seen[key] {
			return fmt.Errorf("%s has the column %.40q twice or without a name", directive, name)
		}
		seen[key] = true
		r.fields = append(r.fields, f)
	}
	if urls == 0 {
		return fmt.Errorf("%s has no column nfo:fileUrl", directive)
	}
	return nil
}

// split returns the columns of a line and whether there are bars between them.
func split(line string) (columns []string, bars bool) {
	if !strings.Contains(line, "|") {
		return strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(blanks, c) }), false
	}
	for column := range strings.SplitSeq(line, "|") {
		columns = append(columns, strings.Trim(column, blanks))
	}
	return columns, true
}

var sixFields = func() (f []field) {
	for i := range names {
		f = append(f, field{names[i][0], i})
	}
	return f
}()

func (r *Reader) entry(line string) (Entry, error) {
	e := Entry{Line: r.line, Length: -1}
	columns, bars := split(line)
	for bars && len(columns) > 1 && columns[len(columns)-1] == "" {
		columns = columns[:len(columns)-1]
	}
	fields := r.fields
	if fields == nil {
		fields = sixFields
		if !bars && len(columns) == 4 && columns[1] == "-" && columns[2] == "-" && columns[3] != "-" && !isNumber(columns[3]) {
			columns = []string{columns[0], "-", "-", "-", "-", columns[3]} // as Cutie 5.5 prints it
		}
	}
	if len(columns) > len(fields) {
		if bars {
			return e, fmt.Errorf("%d columns instead of %d; #%%fields names more", len(columns), len(fields))
		}
		return e, fmt.Errorf("%d columns instead of %d; a blank in a name is written %%20", len(columns), len(fields))
	}
	for i, text := range columns {
		if text == "" || text == "-" {
			continue
		}
		if err := e.set(fields[i], text, bars); err != nil {
			return e, err
		}
	}
	if e.Source == "" {
		return e, errors.New("no URL")
	}
	return e, nil
}

// set takes the text of a column.
func (e *Entry) set(f field, text string, bars bool) error {
	switch {
	case f.as == source:
		e.Source, e.Include = strings.CutPrefix(text, "@")
		e.Source = strings.TrimLeft(e.Source, blanks)
		text = e.Source
	case bars:
		text = fromBars.Replace(text)
	case f.as == target:
		text = unescape(text)
	}
	if err := checkText(text); err != nil {
		return err
	}
	switch f.as {
	case alg:
		e.Alg = text
	case digest:
		e.Digest = text
	case length:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !isNumber(text) {
			return fmt.Errorf("length %.40q is not a number of octets", text)
		}
		e.Length = n
	case modified:
		e.Modified = text
	case target:
		e.Target = text
	case -1:
		e.Extra = append(e.Extra, Column{f.name, text})
	}
	return nil
}

var fromBars = strings.NewReplacer("%20", " ", "%7c", "|")

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// unescape decodes a name as one of a URL. A "%" without a valid escape, or
// with one for octets outside of text, stands for itself.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	if d := b.String(); utf8.ValidString(d) {
		return d
	}
	return s
}
