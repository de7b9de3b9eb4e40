package state

import (
	"cmp"
	"cutie/queuefs/anvl"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Names of JSON-LD (JSON-LD 1.1, 1.7) that stand before the properties.
const (
	nameContext = "@context"
	nameID      = "@id"
	nameType    = "@type"
)

// appendJSON appends d and a line end.
func appendJSON(dst []byte, d *Document) []byte {
	c := d.Class
	dst = append(dst, '{')
	dst = c.AppendType(dst)
	if d.Subject != "" {
		dst = appendString(append(dst, `,"`+nameID+`":`...), d.Subject)
	}
	for i := range d.Properties {
		p := &d.Properties[i]
		dst = appendName(append(dst, ','), p.Name)
		if p.Item == "" {
			dst = appendValue(dst, p.Type, p.Text)
			continue
		}
		dst = append(dst, '[')
		for i, item := range p.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, p.Type, item)
		}
		dst = append(dst, ']')
	}
	return append(dst, "}\n"...)
}

// AppendType appends the first members of an object of the class: its context, by
// which a local name is the same as in Turtle, and its type.
func (c *Class) AppendType(dst []byte) []byte {
	dst = append(append(dst, `"`+nameContext+`":{"@vocab":"`...), c.Namespace...)
	dst = append(append(dst, `/"},"`+nameType+`":"`...), c.Root...)
	return append(dst, '"')
}

// appendName appends a name and its colon. Names need no escapes.
func appendName(dst []byte, name string) []byte {
	return append(append(append(dst, '"'), name...), `":`...)
}

func appendValue(dst []byte, t Type, text string) []byte {
	if t == Integer || t == Boolean {
		return append(dst, text...)
	}
	return appendString(dst, text)
}

// appendString appends text in quotes, for JSON and Turtle alike. It has no other
// characters that need an escape; see [validText].
func appendString(dst []byte, s string) []byte {
	return append(quoteEscapes.append(append(dst, '"'), s), '"')
}

var quoteEscapes = escapes{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// Decode reads a document of class c in ANVL, the form for programs. Properties unknown to the
// class are left out, the others must have their type. Order and spelling of dates are free; the
// Document has dates as Append writes them. Subject and Base are not set.
func Decode(c *Class, data []byte) (Document, error) {
	d := Document{Class: c}
	record, err := anvl.ParseRecord(data)
	for i := range c.Terms {
		t := &c.Terms[i]
		p, set := Property{Term: t}, t.Always
		for _, e := range record {
			if !strings.EqualFold(e.Name, cmp.Or(t.Item, t.Name)) {
				continue
			}
			text, bad := canonical(t.Type, e.Value)
			switch {
			case bad == nil && t.Item != "":
				p.Items = append(p.Items, text)
			case bad == nil && set:
				bad = errors.New("repeated")
			default:
				p.Text = text
			}
			if set = true; bad != nil && err == nil {
				err = fmt.Errorf("%s: %w", t.Name, bad)
			}
		}
		if set {
			d.Properties = append(d.Properties, p)
		}
	}
	if err != nil {
		return Document{}, fmt.Errorf("%s:%s: %w", c.Prefix, c.Root, err)
	}
	return d, nil
}

// canonical returns text as a builder would have written it.
func canonical(t Type, text string) (string, error) {
	switch t {
	case Integer:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "", fmt.Errorf("%.40q is no integer of 64 bits", text)
		}
		return strconv.FormatInt(n, 10), nil
	case Boolean:
		if text != "true" && text != "false" {
			return "", fmt.Errorf("%.40q is neither true nor false", text)
		}
	case Date:
		date, err := time.Parse(time.RFC3339Nano, text)
		if date = date.UTC(); err != nil || date.Year() < 0 || date.Year() > 9999 {
			return "", fmt.Errorf("%.40q is no date", text)
		}
		return date.Format(dateLayout), nil
	}
	return validText(text), nil
}

// The methods below read properties of a decoded document; their text has the
// right type already. An absent property is zero.

// Text returns the text of a property, "" without it.
func (d *Document) Text(name string) string {
	if p := d.Property(name); p != nil {
		return p.Text
	}
	return ""
}

// Items returns the items of a list, none without it.
func (d *Document) Items(name string) []string {
	if p := d.Property(name); p != nil {
		return p.Items
	}
	return nil
}

// integer returns absent if there is no such property.
func (d *Document) integer(name string, absent int64) int64 {
	if p := d.Property(name); p != nil {
		absent, _ = strconv.ParseInt(p.Text, 10, 64)
	}
	return absent
}

func (d *Document) date(name string) time.Time {
	t, _ := time.Parse(dateLayout, d.Text(name))
	return t
}
