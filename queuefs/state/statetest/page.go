package statetest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"cutie/queuefs/state"
)

// decodePage reads the first table with the class in its summary, or without a
// summary, as Merritt's. The first cell of a row is the name, the second the
// value. A list has its items in one row, as an ul, or in rows with the name of
// the items.
func decodePage(c *state.Class, data []byte) (values, error) {
	d := newXMLDecoder(data)
	d.Entity = xml.HTMLEntity
	v := make(values, len(c.Terms))
	found := false
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		e, ok := token.(xml.StartElement)
		if !ok || found || e.Name.Local != "table" || !isTableOf(c, e) {
			continue
		}
		found = true
		if err := v.decodeTable(d, c); err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, fmt.Errorf("no table of %s:%s", c.Prefix, c.Root)
	}
	return v, nil
}

func isTableOf(c *state.Class, table xml.StartElement) bool {
	for _, a := range table.Attr {
		if a.Name.Local == "summary" {
			return a.Value == c.Prefix+":"+c.Root
		}
	}
	return true
}

// A cell is the content of a th or td.
type cell struct {
	text  string
	list  bool     // there is an ul
	items []string // its li
}

// decodeTable reads to the end of the table.
func (v values) decodeTable(d *xml.Decoder, c *state.Class) error {
	var row []cell
	for {
		token, err := d.Token()
		if err != nil {
			return unexpected(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			switch x.Name.Local {
			case "tr":
				row = row[:0]
			case "th", "td":
				next, err := readCell(d)
				if err != nil {
					return err
				}
				row = append(row, next)
			}
		case xml.EndElement:
			switch {
			case x.Name.Local == "table":
				return nil
			case x.Name.Local == "tr" && len(row) == 2:
				if err := v.addRow(c, row[0].text, row[1]); err != nil {
					return fmt.Errorf("%.40s: %w", row[0].text, err)
				}
			}
		}
	}
}

// readCell reads to the end of the present cell.
func readCell(d *xml.Decoder) (cell, error) {
	var (
		got  cell
		text strings.Builder
		item = -1 // depth of the li, -1 outside
	)
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return cell{}, unexpected(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			depth++
			switch {
			case x.Name.Local == "table":
				return cell{}, errors.New("table stands in a cell")
			case x.Name.Local == "ul":
				got.list = true
			case x.Name.Local == "li" && item < 0:
				item = depth
				text.Reset()
			}
		case xml.EndElement:
			if depth == 0 {
				got.text = text.String()
				return got, nil
			}
			if depth == item {
				got.items = append(got.items, text.String())
				text.Reset()
				item = -1
			}
			depth--
		case xml.CharData:
			text.Write(x)
		}
	}
}

func (v values) addRow(c *state.Class, name string, got cell) error {
	for i := range c.Terms {
		t := &c.Terms[i]
		if t.Item == name && name != "" && !got.list {
			v[i].set = true
			v[i].items = append(v[i].items, got.text)
		}
		if t.Name != name {
			continue
		}
		if v[i].set {
			return errors.New("repeated")
		}
		v[i].set = true
		switch {
		case t.Item == "" && got.list:
			return errors.New("value is a list")
		case t.Item == "":
			v[i].text = got.text
		case !got.list && got.text != "":
			return errors.New("value is no list")
		default:
			v[i].items = got.items
		}
	}
	return nil
}
