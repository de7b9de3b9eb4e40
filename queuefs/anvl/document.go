package anvl

import (
	"slices"
	"strings"
)

// A Document is a property file open for change. Everything unchanged prints
// back octet by octet: comments, order, spelling, folding, line ends, and all
// after the first record. Only the first record is read and changed.
//
// The zero Document is an empty file.
type Document struct {
	mark  string // the byte order mark, or ""
	lines []entry
	end   int // lines[:end] are the first record and all before it
}

// An entry is an element with its continuation lines and the comments among
// them, or any other single line.
type entry struct {
	raw     string // the octets, line ends included
	element bool
	Element
}

// ParseDocument reads a property file. It fails where [ParseRecord] does.
func ParseDocument(b []byte) (*Document, error) {
	rest := string(b)
	d := new(Document)
	if strings.HasPrefix(rest, byteOrderMark) {
		d.mark, rest = byteOrderMark, rest[len(byteOrderMark):]
	}
	var (
		p     parser
		last  = -1 // index of the last element
		start = "" // the input from the last element on
		done  bool
		err   error
	)
	for rest != "" && !done {
		from := rest
		var line string
		line, rest = cutLine(rest)
		elements := len(p.record)
		if done, err = p.feed(line); err != nil {
			return nil, err
		}
		if !done {
			d.end = len(d.lines) + 1
		}
		switch {
		case len(p.record) > elements:
			last, start = len(d.lines), from
		case last >= 0 && line != "" && isBlank(line[0]):
			// The element takes in the comments before its continuation.
			d.lines = d.lines[:last+1]
			d.lines[last].raw = start[:len(start)-len(rest)]
			d.end = last + 1
			continue
		}
		d.lines = append(d.lines, entry{
			raw:     from[:len(from)-len(rest)],
			element: last == len(d.lines),
		})
	}
	if rest != "" {
		d.lines = append(d.lines, entry{raw: rest})
	}
	record := p.take()
	for i := range d.lines {
		if d.lines[i].element {
			d.lines[i].Element, record = record[0], record[1:]
		}
	}
	return d, nil
}

// Record returns a copy of the first record, nil if there is none.
func (d *Document) Record() Record {
	var r Record
	for _, e := range d.lines {
		if e.element {
			r = append(r, e.Element)
		}
	}
	return r
}

// Lookup returns the value of the first element of the given name, and whether
// there is one.
func (d *Document) Lookup(name string) (value string, ok bool) {
	return d.Record().Lookup(name)
}

// Set gives the first element of the given name a new value and drops its
// repeats. The name keeps its spelling in the file, and comments within a
// folded value stay, after the element. If the value is the same already,
// nothing is touched. Without such an element it is the same as [Document.Add].
func (d *Document) Set(name, value string) {
	found := false
	for i := 0; i < len(d.lines); i++ {
		e := &d.lines[i]
		switch {
		case !e.element || !strings.EqualFold(e.Name, name):
		case found:
			if e.element, e.raw = false, comments(e.raw); e.raw == "" {
				d.lines = slices.Delete(d.lines, i, i+1)
				d.end--
				i--
			}
		case e.Value != value:
			e.Value = value
			e.raw = string(AppendElement(nil, e.Name, value)) + comments(e.raw)
			found = true
		default:
			found = true
		}
	}
	if !found {
		d.Add(name, value)
	}
}

// Add appends an element to the first record.
func (d *Document) Add(name, value string) {
	if !slices.ContainsFunc(d.lines, func(e entry) bool { return e.element }) {
		d.end = len(d.lines) // there are only comments and empty lines
	}
	d.lines = slices.Insert(d.lines, d.end, entry{
		raw:     string(AppendElement(nil, name, value)),
		element: true,
		Element: Element{Name: name, Value: value},
	})
	d.end++
}

// Bytes returns the file as it now is.
func (d *Document) Bytes() []byte {
	b := []byte(d.mark)
	for i, e := range d.lines {
		if i > 0 && !separate(d.lines[i-1].raw, e.raw) {
			b = append(b, '\n')
		}
		b = append(b, e.raw...)
	}
	return b
}

// separate reports whether the end of raw and the beginning of next stay two
// lines when written one behind the other. Lines that were not neighbours when
// read may lack an end, or make one end out of a CR and the LF of an empty line.
func separate(raw, next string) bool {
	switch raw[len(raw)-1] {
	case '\n':
		return true
	case '\r':
		return next[0] != '\n'
	}
	return false
}

// comments returns the comment lines within an element.
func comments(raw string) string {
	var kept strings.Builder
	for raw != "" {
		from := raw
		var line string
		line, raw = cutLine(raw)
		if strings.HasPrefix(line, "#") {
			kept.WriteString(from[:len(from)-len(raw)])
		}
	}
	return kept.String()
}
