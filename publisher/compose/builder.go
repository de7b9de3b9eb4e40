package compose

import "io"

// A Builder adds texts, one after the other, to a document in a coding.
type Builder struct {
	d      *Document
	coding Coding
	check  Check // of the text so far, in gzip
}

// Build begins to build the document. Until [Builder.End] nothing else is added
// to it.
func (d *Document) Build(c Coding) *Builder {
	if c == Gzip {
		d.Text([]byte(gzipHead))
	}
	return &Builder{d: d, coding: c}
}

// Text adds a text.
func (b *Builder) Text(text []byte) {
	packed := b.coding.pack(text)
	if b.coding == Gzip {
		b.gzip(packed, shift(uint32(len(text))))
		return
	}
	b.d.Text(packed)
}

// gzip adds a text in gzip.
func (b *Builder) gzip(gz []byte, factor uint32) {
	blocks, c := split(gz)
	b.check.join(c, factor)
	b.d.Text(blocks)
}

// Members adds the texts of members.
func (b *Builder) Members(all []*Member) {
	for _, m := range all {
		if m.gz != nil {
			b.member(m)
		}
	}
}

func (b *Builder) member(m *Member) {
	switch b.coding {
	case Gzip:
		b.gzip(m.gz, m.shift())
	case Zstd:
		b.d.Text(m.zstd())
	default:
		b.d.add(m.Len, func(from int64) (io.ReadCloser, error) {
			r, err := m.expand()
			if err == nil {
				_, err = io.CopyN(io.Discard, r, from)
			}
			return r, err
		})
	}
}

// Packed adds the text of a file of a [FileWriter], opened again when it is read; the
// coding is Gzip.
func (b *Builder) Packed(p *Packed, open Opener) {
	b.d.Content(open, int64(len(gzipHead)), p.runs[len(p.runs)-1])
	b.check.join(p.Check, shift(p.Check.Len))
}

// End ends the document.
func (b *Builder) End() {
	if b.coding == Gzip {
		b.d.Text(b.check.append(nil))
	}
}
