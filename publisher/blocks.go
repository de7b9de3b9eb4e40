package publisher

import (
	"bytes"
	"io"
)

// blockSize is from where on a part of a Change List ends with its line.
const blockSize = 64 << 10

// block returns the end of the part of a Change List that text begins with:
// the first line end at or after blockSize, 0 if text does not reach it. It
// hangs on the entries alone, so that the parts of a list that grows stay.
func block(text []byte) int {
	if len(text) < blockSize {
		return 0
	}
	n := bytes.IndexByte(text[blockSize-1:], '\n')
	if n < 0 {
		return 0
	}
	return blockSize + n
}

// members returns the first length octets of the entries of a Change List as
// gzip members. r has the entries; it is read where the cache does not know
// them. k is that of the beginning of the list.
func (p *Publisher) members(k memberKey, length int64, r io.ReaderAt) ([]*member, error) {
	p.turns <- struct{}{}
	defer func() { <-p.turns }()
	var all []*member
	for k.from < length {
		m := p.cache.get(k)
		if m == nil || k.from+m.raw > length {
			var err error
			if m, err = p.member(k, length, r); err != nil {
				return nil, err
			}
		}
		all = append(all, m)
		k.from += m.raw
	}
	return all, nil
}

// member makes the member that begins at k.from in entries of the given
// length: up to the end of the block, or of what there is of it.
func (p *Publisher) member(k memberKey, length int64, r io.ReaderAt) (*member, error) {
	tail := k
	tail.end = length
	if m := p.cache.get(tail); m != nil {
		return m, nil
	}
	m, whole, err := press(k.from, length, r)
	if err != nil {
		return nil, err
	}
	if !whole {
		k = tail
	}
	p.cache.put(k, m)
	return m, nil
}

// press compresses the block that begins at from in entries of the given
// length, or what there is of it, which may not be a whole one.
func press(from, length int64, r io.ReaderAt) (m *member, whole bool, err error) {
	text := make([]byte, min(length-from, blockSize+maxEntry))
	if _, err := r.ReadAt(text, from); err != nil {
		return nil, false, err
	}
	n := block(text)
	if whole = n > 0; whole {
		text = text[:n]
	}
	return &member{gz: compress(nil, text), raw: int64(len(text))}, whole, nil
}

// maxEntry is more than an entry can have: two references, each of a base URI
// of maxBase octets and a queue identifier, a media type, and the rest.
const (
	maxEntry = 32 << 10
	maxBase  = 1024
)
