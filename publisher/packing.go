package publisher

import "io"

// A packing composes a document in a coding, of texts one behind the other.
type packing struct {
	d *document
	coding
	check check // of the text so far, in gzip
}

// packing begins to compose the document. Nothing else is added to it before
// end is called.
func (d *document) packing(c coding) *packing {
	if c == gzipped {
		d.text([]byte(gzipHead))
	}
	return &packing{d: d, coding: c}
}

func (p *packing) text(b []byte) {
	if p.coding == gzipped {
		p.gzip(p.pack(b), behind(uint32(len(b))))
		return
	}
	p.d.text(p.pack(b))
}

// gzip adds a text that is in gzip.
func (p *packing) gzip(gz []byte, factor uint32) {
	blocks, c := split(gz)
	p.check.join(c, factor)
	p.d.text(blocks)
}

// member adds the entries of a member.
func (p *packing) member(m *member) {
	switch p.coding {
	case gzipped:
		p.gzip(m.gz, m.behind())
	case zstandard:
		p.d.text(m.zstd())
	default:
		p.d.add(m.raw, func(from int64) (io.ReadCloser, error) {
			r, err := m.expand()
			if err == nil {
				_, err = io.CopyN(io.Discard, r, from)
			}
			return r, err
		})
	}
}

// gzipFile adds what stands in a file of a set: text in gzip, of size octets
// then, with that check.
func (p *packing) gzipFile(f *feed, s Set, name string, size int64, c check) {
	p.d.file(f, s, name, int64(len(gzipHead)), size-int64(gzipEnd))
	p.check.join(c, behind(c.size))
}

func (p *packing) end() {
	if p.coding == gzipped {
		p.d.text(p.check.append(nil))
	}
}
