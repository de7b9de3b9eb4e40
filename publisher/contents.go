package publisher

import (
	"bytes"
	"fmt"
	"io"

	"cutie/publisher/dump"
)

// packaged returns a package that stands in the file name, or the copy of its
// manifest (Z39.99-2017, 11 and 13): that is read out of the package, so the
// two are the same.
func (f *feed) packaged(s Set, doc docName, sp span, name string) *resource {
	if doc.kind == changeManifest || doc.kind == resourceManifest {
		tag := fmt.Sprintf("m%d-%d-%.16s", doc.n, doc.version, sp.sha256)
		return &resource{tag: tag, modified: sp.until, cache: cacheClosed, compose: func(c coding) (*document, error) {
			d := &document{tag: tag, modified: sp.until}
			return d, f.copied(d, s, c, func() (io.ReadCloser, error) { return f.openManifest(s, name) })
		}}
	}
	tag := fmt.Sprintf("z%d-%.16s", doc.n, sp.sha256)
	return &resource{zip: true, tag: tag, modified: sp.until, cache: cacheClosed, compose: func(coding) (*document, error) {
		d := &document{tag: tag, modified: sp.until}
		d.file(f, s, name, 0, sp.length)
		return d, nil
	}}
}

// copied composes what open reads, in a coding. The entity tag of the document
// tells it from all others of the set.
func (f *feed) copied(d *document, s Set, c coding, open func() (io.ReadCloser, error)) error {
	members, err := f.p.copies(memberKey{queue: f.q.ID(), set: s, copy: d.tag}, open)
	if err != nil {
		return err
	}
	p := d.packing(c)
	for _, m := range members {
		p.member(m)
	}
	p.end()
	return nil
}

// copyBlock is how much of a copy is compressed at a time.
const copyBlock = 1 << 20

// copies returns what open reads as gzip members. It is opened unless the cache
// has all of them: the last one is smaller than copyBlock. k is that of the
// beginning.
func (p *Publisher) copies(k memberKey, open func() (io.ReadCloser, error)) (all []*member, err error) {
	p.turns <- struct{}{}
	defer func() { <-p.turns }()
	for at := k; ; {
		m := p.cache.get(at)
		if m == nil {
			break
		}
		if all = append(all, m); m.raw < copyBlock {
			return all, nil
		}
		at.from += m.raw
	}
	r, err := open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var block bytes.Buffer
	for all = nil; ; {
		block.Reset()
		n, err := io.CopyN(&block, r, copyBlock)
		if err != nil && err != io.EOF {
			return nil, err
		}
		m := &member{gz: compress(nil, block.Bytes()), raw: n}
		p.cache.put(k, m)
		if all = append(all, m); n < copyBlock {
			return all, nil
		}
		k.from += n
	}
}

// openManifest opens the manifest in a package.
func (f *feed) openManifest(s Set, name string) (io.ReadCloser, error) {
	file, err := f.open(s, name)
	if err != nil {
		return nil, err
	}
	r, err := dump.OpenManifest(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}
