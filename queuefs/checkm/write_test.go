package checkm

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A Writer writes a manifest: entries, and Close in the end. It does not
// buffer. It refuses an entry that would not read back the same.
type Writer struct {
	// Bars is whether the columns stand between bars, else between blanks.
	// Profile is the URL of #%profile; "" if there is none. Extra are the names
	// of further columns, for which there must be bars. None of them may change
	// after the first Write.
	Bars    bool
	Profile string
	Extra   []string

	w     io.Writer
	buf   []byte
	begun bool
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes an entry in one call of the underlying writer, the first one
// with the header before it. After an error of the underlying writer nothing
// more can be written; a refused entry leaves no trace.
func (w *Writer) Write(e Entry) error {
	line, err := w.entry(&e)
	if err != nil {
		return fmt.Errorf("checkm: entry %.80q: %w", e.Source, err)
	}
	w.buf = w.buf[:0]
	if err := w.header(); err != nil {
		return err
	}
	w.buf = append(append(w.buf, line...), '\n')
	return w.flush()
}

// Close writes the mark at the end, and the header if there was no entry. It
// does not close the underlying writer.
func (w *Writer) Close() error {
	w.buf = w.buf[:0]
	if err := w.header(); err != nil {
		return err
	}
	w.buf = append(w.buf, "#%eof\n"...)
	return w.flush()
}

func (w *Writer) flush() error {
	_, err := w.w.Write(w.buf)
	w.begun = true
	return err
}

func (w *Writer) header() error {
	if w.begun {
		return nil
	}
	w.buf = append(w.buf, "#%checkm_0.7\n"...)
	if w.Profile != "" {
		if err := checkText(w.Profile); err != nil {
			return fmt.Errorf("checkm: profile: %w", err)
		}
		w.buf = append(append(append(w.buf, "#%profile | "...), w.Profile...), '\n')
	}
	if !w.Bars {
		if len(w.Extra) > 0 {
			return errors.New("checkm: further columns need bars")
		}
		return nil
	}
	w.buf = append(w.buf, "#%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#\n#%fields"...)
	seen := map[string]bool{}
	for i := range names {
		w.buf = append(append(w.buf, " | "...), names[i][0]...)
	}
	for _, name := range w.Extra {
		key := plainName(name)
		if key == "" || seen[key] || columnOf(name) >= 0 || strings.Contains(name, "|") || strings.Trim(name, blanks) != name || checkText(name) != nil {
			return fmt.Errorf("checkm: %.40q cannot be the name of a column", name)
		}
		seen[key] = true
		w.buf = append(append(w.buf, " | "...), name...)
	}
	w.buf = append(w.buf, '\n')
	return nil
}

// entry returns the line of an entry.
func (w *Writer) entry(e *Entry) (string, error) {
	columns := make([]string, known+len(w.Extra))
	columns[source] = e.Source
	switch {
	case e.Source == "", e.Source == "-" && !e.Include:
		return "", errors.New("no source")
	case strings.ContainsAny(e.Source, "|") || strings.Trim(e.Source, blanks) != e.Source || !w.Bars && strings.ContainsAny(e.Source, blanks):
		return "", errors.New("source has a bar or a blank")
	case e.Include:
		columns[source] = "@" + e.Source
	case e.Source[0] == '#' || e.Source[0] == '@':
		return "", errors.New("source begins with # or @; write ./ before it")
	}
	columns[alg], columns[digest], columns[modified], columns[target] = e.Alg, e.Digest, e.Modified, e.Target
	if e.Length >= 0 {
		columns[length] = strconv.FormatInt(e.Length, 10)
	}
	for _, x := range e.Extra {
		i := slices.Index(w.Extra, x.Name)
		if i < 0 || columns[known+i] != "" {
			return "", fmt.Errorf("column %.40q is not among those of the manifest, or repeated", x.Name)
		}
		columns[known+i] = x.Value
	}
	for i := range columns {
		if err := checkText(columns[i]); err != nil {
			return "", err
		}
		if i == source {
			continue
		}
		var err error
		switch {
		case columns[i] == "" && w.Bars:
		case columns[i] == "":
			columns[i] = "-"
		case w.Bars:
			columns[i], err = toBars(columns[i])
		case i == target:
			columns[i] = escape(columns[i])
		case columns[i] == "-" || strings.ContainsAny(columns[i], blanks+"|"):
			err = fmt.Errorf("%.40q needs bars", columns[i])
		}
		if err != nil {
			return "", err
		}
	}
	if w.Bars {
		return strings.Join(columns, " | "), nil
	}
	for columns[len(columns)-1] == "-" && len(columns) > 1 {
		columns = columns[:len(columns)-1]
	}
	return strings.Join(columns, " "), nil
}

// toBars escapes a text as Merritt does. It knows no escape for "%", so a text
// with something like an escape cannot be written.
func toBars(s string) (string, error) {
	if s == "-" || strings.Contains(s, "%20") || strings.Contains(s, "%7c") {
		return "", fmt.Errorf("%.40q cannot be written between bars", s)
	}
	first := s[0] == ' '
	last := len(s) > 1 && s[len(s)-1] == ' '
	s = strings.ReplaceAll(s, "|", "%7c")
	if first {
		s = "%20" + s[1:]
	}
	if last {
		s = s[:len(s)-1] + "%20"
	}
	return s, nil
}

// escape encodes a name as one of a URL. A lone hyphen would stand for nothing,
// so it is encoded too.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	if s == "-" {
		return "%2D"
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '|', '%':
			b.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
