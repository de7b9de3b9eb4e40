package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"
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

func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0 // of the part not yet appended
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// decodeJSON reads the properties of c. The members may come in any order, and
// there may be others, but none of ours twice.
func decodeJSON(c *Class, data []byte) (values, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v := make(values, len(c.Terms))
	typed := false
	err := object(d, func(key string) error {
		if key == nameType {
			if got, err := scalar(d, String); err != nil || got != c.Root || typed {
				return cmp.Or(err, fmt.Errorf("unexpected %s %.60q, want one %s", nameType, got, c.Root))
			}
			typed = true
			return nil
		}
		for i := range c.Terms {
			if key == c.Terms[i].Name {
				if err := v[i].decodeJSON(d, &c.Terms[i]); err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
				return nil
			}
		}
		var skipped json.RawMessage
		return d.Decode(&skipped)
	})
	if err == nil && !typed {
		err = fmt.Errorf("no %s %s", nameType, c.Root)
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text behind the state")
	}
	return v, nil
}

// object reads an object and calls each for every key, to read its value.
func object(d *json.Decoder, each func(key string) error) error {
	if t, err := d.Token(); err != nil {
		return unexpected(err)
	} else if t != json.Delim('{') {
		return fmt.Errorf("%v is no object", t)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return unexpected(err)
		}
		if err := each(key.(string)); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return unexpected(err)
}

func (v *value) decodeJSON(d *json.Decoder, t *Term) (err error) {
	if v.set {
		return errors.New("repeated")
	}
	v.set = true
	if t.Item == "" {
		v.text, err = scalar(d, t.Type)
		return err
	}
	if open, err := d.Token(); err != nil {
		return unexpected(err)
	} else if open != json.Delim('[') {
		return fmt.Errorf("%v is no array", open)
	}
	for d.More() {
		item, err := scalar(d, t.Type)
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
	}
	_, err = d.Token()
	return unexpected(err)
}

// scalar reads one value of the JSON type for t.
func scalar(d *json.Decoder, t Type) (string, error) {
	token, err := d.Token()
	if err != nil {
		return "", unexpected(err)
	}
	switch x := token.(type) {
	case string:
		if t != Integer && t != Boolean {
			return x, nil
		}
	case json.Number:
		if t == Integer {
			return x.String(), nil
		}
	case bool:
		if t == Boolean {
			return fmt.Sprint(x), nil
		}
	}
	return "", fmt.Errorf("value %v is of the wrong type", token)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

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
