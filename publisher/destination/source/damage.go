package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"cutie/publisher/destination/fetch"
	"cutie/sitemap"
)

// A Skip is something of a Source that could not be read, and was passed over.
type Skip struct {
	URI      string // of its document; "" for a whole one
	Err      error  // what, where, and why
	Optional bool   // a part that is not needed: it counts as absent, and all else of its entry is there
}

// skips reports whether a document that could not be had is passed over. What may pass is an
// error of the whole: the next reading has it.
func (s *Source) skips(ctx context.Context, err error) bool {
	if s.Skip == nil || ctx.Err() != nil || fetch.Passes(err) {
		return false
	}
	s.Skip(Skip{Err: err})
	return true
}

// Starts of entries, and what may have some in it that count for nothing.
var (
	startOfURL   = regexp.MustCompile(`(?s)<!--.*?-->|<!\[CDATA\[.*?\]\]>|<(?:[\w.-]+:)?url[\s/>]`)
	startOfIndex = regexp.MustCompile(`(?s)<!--.*?-->|<!\[CDATA\[.*?\]\]>|<(?:[\w.-]+:)?sitemap[\s/>]`)
)

// maxHead is how many octets a head may have for entries to be passed over.
const maxHead = 64 << 10

// start returns where the next entry of a text starts, -1 without one.
func (d *Document) start(text []byte) int {
	re := startOfURL
	if d.Root == sitemap.SitemapIndex {
		re = startOfIndex
	}
	for at := 0; ; {
		found := re.FindIndex(text[at:])
		if found == nil {
			return -1
		}
		if text[at+found[0]+1] != '!' {
			return at + found[0]
		}
		at += found[1]
	}
}

// pass passes over the entry that the reader failed at, and reads on behind it. It returns the
// line of the entry, 0 if it cannot.
func (d *Document) pass(err error) (line int) {
	var p *sitemap.ParseError
	head := d.start(d.text)
	if !errors.As(err, &p) || head < 0 || head > maxHead || d.read > sitemap.MaxEntries {
		return 0
	}
	at := head
	for range d.read - d.passed { // entries of this text that were read
		next := d.start(d.text[at+1:])
		if next < 0 {
			break
		}
		at += 1 + next
	}
	line = 1 + d.lines + bytes.Count(d.text[:at], []byte("\n"))
	next := d.start(d.text[at+1:])
	if next < 0 {
		d.reader = nil
		return line
	}
	rest := d.text[at+1+next:]
	d.lines += bytes.Count(d.text[head:at+1+next], []byte("\n"))
	d.text, d.passed = append(bytes.Clone(d.text[:head]), rest...), d.read
	d.reader = sitemap.NewReader(bytes.NewReader(d.text))
	d.reader.Plain, d.reader.Fault = true, d.fault
	if _, _, err := d.reader.ReadHead(); err != nil {
		return 0
	}
	return line
}

// Read returns the next entry, with absolute references; at the end the error is [io.EOF].
// Where the Source takes it, an entry that cannot be read is passed over.
func (d *Document) Read() (sitemap.Entry, error) {
	for d.reader != nil {
		e, err := d.reader.Read()
		if err == io.EOF {
			d.Dialect = d.reader.Dialect()
			d.reader, d.text = nil, nil // the next document may be read while this one is known
			return e, err
		}
		if err == nil {
			d.read++
			if e.Loc, err = resolve(d.base, e.Loc); err == nil {
				return e, nil
			}
			err = fmt.Errorf("%s: %w", d.URI, err)
			if d.skip == nil {
				return e, err
			}
		} else {
			line := 0
			if d.skip != nil {
				line = d.pass(err)
			}
			if line == 0 {
				return e, fmt.Errorf("%s: %w", d.URI, err)
			}
			var p *sitemap.ParseError
			errors.As(err, &p)
			err = fmt.Errorf("%s: entry at line %d: %w", d.URI, line, p.Err)
		}
		d.skipped++
		d.skip(Skip{URI: d.URI, Err: err})
	}
	return sitemap.Entry{}, io.EOF
}

// fault tells of the first optional part that cannot be read.
func (d *Document) fault(err error) {
	var p *sitemap.ParseError
	if d.faults++; d.faults == 1 && errors.As(err, &p) {
		d.skip(Skip{URI: d.URI, Err: fmt.Errorf("%s: line %d: %w", d.URI, p.Line+d.lines, p.Err), Optional: true})
	}
}
