package publisher

import (
	"iter"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/sitemap"
)

// The documents of a set.
type documents struct {
	*set.Set
	p *Publisher
}

// refer returns the reference of a document.
func (s documents) refer(d names.Doc) string { return s.Refs.Doc(s.Kind, d) }

// text composes a document of entries.
func (p *Publisher) text(root sitemap.Root, head sitemap.Head, entries iter.Seq[sitemap.Entry]) []byte {
	dst := p.src.Dialect.AppendHead(nil, root, head)
	for e := range entries {
		dst = p.src.Dialect.AppendEntry(dst, root, &e)
	}
	return sitemap.AppendFoot(dst, root)
}

// list returns a document of entries, made when it is asked for.
func (p *Publisher) list(tag string, root sitemap.Root, head sitemap.Head, entries iter.Seq[sitemap.Entry]) *resource {
	return textDocument(tag, func() []byte { return p.text(root, head, entries) })
}

// each returns the entry of every item.
func each[T any](items []T, entry func(*T) sitemap.Entry) iter.Seq[sitemap.Entry] {
	return func(yield func(sitemap.Entry) bool) {
		for i := range items {
			if !yield(entry(&items[i])) {
				return
			}
		}
	}
}

// oldUntil returns t in version 0.9, where open documents have an until too.
func (p *Publisher) oldUntil(t time.Time) time.Time {
	if p.src.Dialect != sitemap.V09 {
		return time.Time{}
	}
	return t
}
