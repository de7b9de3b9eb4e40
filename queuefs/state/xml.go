package state

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// appendXML appends d as an XML document, laid out as Merritt did.
func appendXML(dst []byte, d *Document) []byte {
	c := d.Class
	dst = append(dst, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<"...)
	dst = append(appendPrefixed(dst, c.Prefix, c.Root), " xmlns:"...)
	dst = append(append(dst, c.Prefix...), `="`...)
	dst = append(append(dst, c.Namespace...), "\">\n"...)
	for i := range d.Properties {
		p := &d.Properties[i]
		if p.Item == "" {
			dst = appendElement(append(dst, "    "...), c.Prefix, p.Name, p.Text)
			continue
		}
		dst = append(appendPrefixed(append(dst, "    <"...), c.Prefix, p.Name), ">\n"...)
		for _, item := range p.Items {
			dst = appendElement(append(dst, "        "...), c.Prefix, p.Item, item)
		}
		dst = append(appendPrefixed(append(dst, "    </"...), c.Prefix, p.Name), ">\n"...)
	}
	dst = appendPrefixed(append(dst, "</"...), c.Prefix, c.Root)
	return append(dst, ">\n"...)
}

func appendPrefixed(dst []byte, prefix, name string) []byte {
	dst = append(append(dst, prefix...), ':')
	return append(dst, name...)
}

func appendElement(dst []byte, prefix, name, text string) []byte {
	dst = append(appendPrefixed(append(dst, '<'), prefix, name), '>')
	dst = appendEscaped(dst, text, true)
	return append(appendPrefixed(append(dst, "</"...), prefix, name), ">\n"...)
}

// appendEscaped appends text for content or for an attribute in double quotes.
// Line feeds and tabs become references if blanks is set, which attributes need
// and which keeps them when a document is laid out anew.
func appendEscaped(dst []byte, s string, blanks bool) []byte {
	start := 0 // of what is not yet appended
	for i := 0; i < len(s); {
		c := s[i]
		ref, size := "", 1
		switch {
		case c >= utf8.RuneSelf:
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); !isChar(r) || r == utf8.RuneError && size == 1 {
				ref = "\ufffd"
			}
		case c == '<':
			ref = "&lt;"
		case c == '>':
			ref = "&gt;"
		case c == '&':
			ref = "&amp;"
		case c == '"':
			ref = "&quot;"
		case c == '\r':
			ref = "&#13;"
		case c == '\n' && blanks:
			ref = "&#10;"
		case c == '\t' && blanks:
			ref = "&#9;"
		case !isChar(rune(c)):
			ref = "\ufffd"
		}
		if ref != "" {
			dst = append(append(dst, s[start:i]...), ref...)
			start = i + size
		}
		i += size
	}
	return append(dst, s[start:]...)
}

// decodeXML reads the properties of c. Elements of other names or namespaces
// may stand among them, but none of ours twice.
func decodeXML(c *Class, data []byte) (values, error) {
	d := newXMLDecoder(data)
	root, err := nextElement(d, "")
	if err == nil && (root == nil || root.Name != c.xmlName(c.Root)) {
		err = fmt.Errorf("no %s:%s in the namespace %s", c.Prefix, c.Root, c.Namespace)
	}
	if err != nil {
		return nil, err
	}
	v := make(values, len(c.Terms))
	for {
		e, err := nextElement(d, c.Root)
		if err != nil {
			return nil, err
		}
		if e == nil {
			break
		}
		i := c.term(e.Name.Local)
		if e.Name.Space != c.Namespace || i < 0 {
			err = d.Skip()
		} else if err = v[i].decodeXML(d, c, &c.Terms[i]); err != nil {
			err = fmt.Errorf("%s:%s: %w", c.Prefix, e.Name.Local, err)
		}
		if err != nil {
			return nil, err
		}
	}
	if e, err := nextElement(d, ""); err != nil || e != nil {
		return nil, errors.Join(errors.New("text behind the state"), err)
	}
	return v, nil
}

// newXMLDecoder returns a Decoder behind the byte order mark that there may be.
func newXMLDecoder(data []byte) *xml.Decoder {
	return xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
}

func (c *Class) xmlName(local string) xml.Name { return xml.Name{Space: c.Namespace, Local: local} }

// term returns the place of the term of the given name, -1 if there is none.
func (c *Class) term(name string) int {
	for i := range c.Terms {
		if c.Terms[i].Name == name {
			return i
		}
	}
	return -1
}

func (v *value) decodeXML(d *xml.Decoder, c *Class, t *Term) (err error) {
	if v.set {
		return errors.New("repeated")
	}
	v.set = true
	if t.Item == "" {
		v.text, err = elementText(d)
		return err
	}
	for {
		e, err := nextElement(d, t.Name)
		if e == nil || err != nil {
			return err
		}
		if e.Name != c.xmlName(t.Item) {
			return fmt.Errorf("unexpected %.60q, want %s:%s", e.Name.Local, c.Prefix, t.Item)
		}
		item, err := elementText(d)
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
	}
}

// nextElement returns the next element within the one named parent, nil at its
// end. A parent of "" is the document, whose end is that of the data.
func nextElement(d *xml.Decoder, parent string) (*xml.StartElement, error) {
	for {
		token, err := d.Token()
		if err == io.EOF && parent == "" {
			return nil, nil
		}
		if err != nil {
			return nil, unexpected(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			return &x, nil
		case xml.EndElement:
			return nil, nil
		case xml.CharData:
			if strings.Trim(string(x), " \t\r\n") != "" {
				return nil, fmt.Errorf("text %.40q stands between elements", x)
			}
		}
	}
}

// elementText returns the text up to the end of the present element, which may
// hold nothing else.
func elementText(d *xml.Decoder) (string, error) {
	var text []byte
	for {
		token, err := d.Token()
		if err != nil {
			return "", unexpected(err)
		}
		switch x := token.(type) {
		case xml.CharData:
			text = append(text, x...)
		case xml.EndElement:
			return string(text), nil
		case xml.StartElement:
			return "", fmt.Errorf("element %.40q stands in a value", x.Name.Local)
		}
	}
}
