package state

import (
	"fmt"
	"strconv"
	"time"
)

// Decode reads a document of class c in ANVL or JSON; for any other form the
// error wraps [ErrForm]. Properties unknown to the class are left out, the
// others must have their type. Order and spelling of dates are free; the
// Document has dates as Append writes them. Subject and Base are not set.
func (f Form) Decode(c *Class, data []byte) (Document, error) {
	var (
		v   values
		err error
	)
	switch f {
	case ANVL:
		v, err = decodeANVL(c, data)
	case JSON:
		v, err = decodeJSON(c, data)
	default:
		err = fmt.Errorf("%w: %s", ErrForm, f)
	}
	return v.document(c, err)
}

// values are the values for each term of a class, in the order of terms.
type values []value

type value struct {
	set   bool
	text  string
	items []string
}

// document returns the document with these values; err is the error of the
// reader.
func (v values) document(c *Class, err error) (Document, error) {
	if err != nil {
		return Document{}, fmt.Errorf("%s:%s: %w", c.Prefix, c.Root, err)
	}
	d := Document{Class: c}
	for i := range v {
		t := &c.Terms[i]
		p := Property{Term: t}
		var err error
		switch {
		case t.Item != "":
			if len(v[i].items) == 0 && !t.Always {
				continue
			}
			for j, item := range v[i].items {
				if v[i].items[j], err = canonical(t.Type, item); err != nil {
					break
				}
			}
			p.Items = v[i].items
		case !v[i].set:
			continue
		default:
			p.Text, err = canonical(t.Type, v[i].text)
		}
		if err != nil {
			return Document{}, fmt.Errorf("%s:%s: %s: %w", c.Prefix, c.Root, t.Name, err)
		}
		d.Properties = append(d.Properties, p)
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
