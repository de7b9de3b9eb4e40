package state

import (
	"fmt"
	"strings"

	"cutie/queuefs/anvl"
)

// appendANVL appends d as one ANVL record; a list is its items.
func appendANVL(dst []byte, d *Document) []byte {
	for i := range d.Properties {
		p := &d.Properties[i]
		if p.Item == "" {
			dst = anvl.AppendElement(dst, p.Name, p.Text)
			continue
		}
		for _, item := range p.Items {
			dst = anvl.AppendElement(dst, p.Item, item)
		}
	}
	return dst
}

func decodeANVL(c *Class, data []byte) (values, error) {
	record, err := anvl.ParseRecord(data)
	if err != nil {
		return nil, err
	}
	v := make(values, len(c.Terms))
	for _, e := range record {
		for i := range c.Terms {
			t := &c.Terms[i]
			if t.Item != "" && strings.EqualFold(t.Item, e.Name) {
				v[i].set = true
				v[i].items = append(v[i].items, e.Value)
			} else if t.Item == "" && strings.EqualFold(t.Name, e.Name) {
				if v[i].set {
					return nil, fmt.Errorf("%s: repeated", e.Name)
				}
				v[i].set, v[i].text = true, e.Value
			}
		}
	}
	return v, nil
}
