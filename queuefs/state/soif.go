package state

import (
	"strconv"

	"cutie/publisher/soif"
)

// appendSOIF appends d as one object of SOIF: its type is the root element, its
// URL the URL of the state, and the items of a list are numbered from 1.
func appendSOIF(dst []byte, d *Document) []byte {
	url := d.Subject
	if (&soif.Object{Type: d.Class.Root, URL: url}).Check() != nil {
		url = ""
	}
	dst = soif.AppendHead(dst, d.Class.Root, url)
	for i := range d.Properties {
		p := &d.Properties[i]
		if p.Item == "" {
			dst = soif.AppendAttribute(dst, p.Name, p.Text)
			continue
		}
		for n, item := range p.Items {
			dst = append(append(dst, p.Item...), '-')
			dst = soif.AppendAttribute(strconv.AppendInt(dst, int64(n)+1, 10), "", item)
		}
	}
	return soif.AppendEnd(dst)
}
