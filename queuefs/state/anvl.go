package state

import (
	"fmt"
	"strings"

	"cutie/queuefs/anvl"
)

// appendANVL appends d as one ANVL record; a list is its items, and of paired lists
// each item stands with the other.
func appendANVL(dst []byte, d *Document) []byte {
	for i := 0; i < len(d.Properties); i++ {
		p := &d.Properties[i]
		if p.Item == "" {
			dst = anvl.AppendElement(dst, p.Name, p.Text)
			continue
		}
		of := p.partner(d.Properties[i+1:])
		for n, item := range p.Items {
			dst = anvl.AppendElement(dst, p.Item, item)
			if of != nil {
				dst = anvl.AppendElement(dst, of.Item, of.Items[n])
			}
		}
		if of != nil {
			i++
		}
	}
	return dst
}

// partner returns the next property if its items belong to those of p, or nil.
func (p *Property) partner(next []Property) *Property {
	if !p.Paired || len(next) == 0 || len(next[0].Items) != len(p.Items) {
		return nil
	}
	return &next[0]
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
