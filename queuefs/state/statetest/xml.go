package statetest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"cutie/queuefs/state"
)

// An element is any element of XML with what is in it.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Elements []element  `xml:",any"`
	Text     string     `xml:",chardata"`
	Inner    string     `xml:",innerxml"`
}

// parse reads a whole document.
func parse(data []byte) (root element, err error) {
	d := xml.NewDecoder(strings.NewReader(string(data)))
	d.Entity = xml.HTMLEntity
	if err := d.Decode(&root); err != nil {
		return root, err
	}
	for {
		token, err := d.Token()
		if err == io.EOF {
			return root, nil
		}
		if text, ok := token.(xml.CharData); err != nil || !ok || strings.TrimSpace(string(text)) != "" {
			return root, fmt.Errorf("more follows the document: %v", err)
		}
	}
}

// text is all text in an element.
func (e *element) text() (string, error) {
	var text strings.Builder
	d := xml.NewDecoder(strings.NewReader("<x>" + e.Inner + "</x>"))
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if err == io.EOF {
			return text.String(), nil
		}
		if err != nil {
			return "", err
		}
		if c, ok := token.(xml.CharData); ok {
			text.Write(c)
		}
	}
}

// decodeXML reads the properties of c; elements of other names are left out.
func decodeXML(c *state.Class, data []byte) (values, error) {
	root, err := parse(data)
	if err == nil && root.XMLName != (xml.Name{Space: c.Namespace, Local: c.Root}) {
		err = errors.New("another root element")
	}
	if err != nil {
		return nil, err
	}
	v := make(values, len(c.Terms))
	for _, e := range root.Elements {
		i := term(c, e.XMLName.Local)
		if i < 0 || e.XMLName.Space != c.Namespace {
			continue
		}
		if c.Terms[i].Item == "" {
			if len(e.Elements) > 0 {
				return nil, fmt.Errorf("%s has elements", e.XMLName.Local)
			}
			err = v[i].add(e.Text)
		} else {
			var items []string
			for _, item := range e.Elements {
				if item.XMLName != (xml.Name{Space: c.Namespace, Local: c.Terms[i].Item}) || len(item.Elements) > 0 {
					return nil, fmt.Errorf("%s has an item %s", e.XMLName.Local, item.XMLName.Local)
				}
				items = append(items, item.Text)
			}
			err = v[i].list(items)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.XMLName.Local, err)
		}
	}
	return v, nil
}

// decodePage reads the first table with the class in its summary, or without a summary, as
// Merritt's. The first cell of a row is the name, the second the value; a list has its items
// in one row, as an ul, or in rows with the name of the items.
func decodePage(c *state.Class, data []byte) (values, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	tables := root.find("table", nil)
	for _, table := range tables {
		summary := c.Prefix + ":" + c.Root
		for _, a := range table.Attrs {
			if a.Name.Local == "summary" && a.Value != summary {
				summary = ""
			}
		}
		if summary == "" {
			continue
		}
		v := make(values, len(c.Terms))
		for _, row := range table.find("tr", nil) {
			if len(row.Elements) != 2 {
				continue
			}
			name, err := row.Elements[0].text()
			if err == nil {
				err = v.addRow(c, name, &row.Elements[1])
			}
			if err != nil {
				return nil, fmt.Errorf("%.40s: %w", name, err)
			}
		}
		return v, nil
	}
	return nil, fmt.Errorf("no table of %s:%s", c.Prefix, c.Root)
}

// find appends the outermost elements of a name.
func (e *element) find(name string, all []element) []element {
	for _, in := range e.Elements {
		if in.XMLName.Local == name {
			all = append(all, in)
		} else {
			all = in.find(name, all)
		}
	}
	return all
}

func (v values) addRow(c *state.Class, name string, cell *element) error {
	text, err := cell.text()
	if err != nil {
		return err
	}
	lists := cell.find("ul", nil)
	for i := range c.Terms {
		switch t := &c.Terms[i]; {
		case t.Item == name && name != "" && len(lists) == 0:
			v[i].set, v[i].items = true, append(v[i].items, text)
		case t.Name != name:
		case t.Item == "" && len(lists) == 0:
			return v[i].add(text)
		case t.Item == "" || len(lists) == 0 && text != "":
			return errors.New("a list, or none")
		default:
			var items []string
			for _, item := range cell.find("li", nil) {
				text, err := item.text()
				if err != nil {
					return err
				}
				items = append(items, text)
			}
			return v[i].list(items)
		}
	}
	return nil
}
