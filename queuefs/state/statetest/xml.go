package statetest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"cutie/queuefs/state"
)

// decodeXML reads the properties of c. Elements of other names or namespaces
// may stand among them, but none of ours twice.
func decodeXML(c *state.Class, data []byte) (values, error) {
	d := newXMLDecoder(data)
	root, err := nextElement(d, "")
	if err == nil && (root == nil || root.Name != xmlName(c, c.Root)) {
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
		i := term(c, e.Name.Local)
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

// newXMLDecoder returns a Decoder after the byte order mark, if there is one.
func newXMLDecoder(data []byte) *xml.Decoder {
	return xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
}

func xmlName(c *state.Class, local string) xml.Name {
	return xml.Name{Space: c.Namespace, Local: local}
}

// term returns the place of the term of the given name, -1 if there is none.
func term(c *state.Class, name string) int {
	for i := range c.Terms {
		if c.Terms[i].Name == name {
			return i
		}
	}
	return -1
}

func (v *value) decodeXML(d *xml.Decoder, c *state.Class, t *state.Term) (err error) {
	if v.set {
		return errors.New("repeated")
	}
	v.set = true
	if t.Item == "" {
		v.text, err = xmlText(d)
		return err
	}
	for {
		e, err := nextElement(d, t.Name)
		if e == nil || err != nil {
			return err
		}
		if e.Name != xmlName(c, t.Item) {
			return fmt.Errorf("unexpected %.60q, want %s:%s", e.Name.Local, c.Prefix, t.Item)
		}
		item, err := xmlText(d)
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
	}
}

// nextElement returns the next element within the one named parent, nil at its
// end. A parent of "" is the document.
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

// xmlText returns the text up to the end of the present element; other elements
// are an error.
func xmlText(d *xml.Decoder) (string, error) {
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
