package compose

import (
	"bytes"
	"container/list"
	"io"
	"sync"
)

// A Key names the text of a member: a part of text N of something, from byte From
// on. The keys of its own members are up to the caller.
type Key struct {
	Of   string
	N    uint64
	From int64
	End  int64 // 0 unless it is the last part and may grow
}

// A Cache keeps the members used last. It is safe for concurrent use.
type Cache struct {
	max   int           // bytes
	turns chan struct{} // held while a document is read and compressed

	mu    sync.Mutex
	size  int
	order list.List // of *cached, last used first
	items map[Key]*list.Element
}

type cached struct {
	key   Key
	value *Member
}

// NewCache returns a cache of up to max bytes.
func NewCache(max int) *Cache {
	return &Cache{max: max, turns: make(chan struct{}, 2), items: make(map[Key]*list.Element)}
}

// overhead is how many bytes a member takes beside its weight.
const overhead = 256

// Get returns the member of a key, and whether there is one.
func (c *Cache) Get(k Key) (m *Member, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.items[k]
	if el == nil {
		return nil, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*cached).value, true
}

// Put keeps a member.
func (c *Cache) Put(k Key, m *Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.items[k]; el != nil {
		c.remove(el)
	}
	c.items[k] = c.order.PushFront(&cached{k, m})
	c.size += m.Weight() + overhead
	for c.size > c.max && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}

// Drop forgets the member of a key.
func (c *Cache) Drop(k Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.items[k]; el != nil {
		c.remove(el)
	}
}

func (c *Cache) remove(el *list.Element) {
	old := c.order.Remove(el).(*cached)
	delete(c.items, old.key)
	c.size -= old.value.Weight() + overhead
}

// Turn waits until few others compress. Call end after the work.
func (c *Cache) Turn() (end func()) {
	c.turns <- struct{}{}
	return func() { <-c.turns }
}

// Lines returns the first length bytes of a text of lines; the text only grows at
// its end. k is the key of its beginning; r is read where the cache lacks a member.
func (c *Cache) Lines(k Key, length int64, r io.ReaderAt) (all []*Member, err error) {
	defer c.Turn()()
	for k.From < length {
		m, ok := c.Get(k)
		if !ok || k.From+m.Len > length {
			if m, err = c.part(k, length, r); err != nil {
				return nil, err
			}
		}
		all = append(all, m)
		k.From += m.Len
	}
	return all, nil
}

// part makes the member from k.From to the end of the block, or of the text.
func (c *Cache) part(k Key, length int64, r io.ReaderAt) (*Member, error) {
	tail := k
	tail.End = length
	if m, ok := c.Get(tail); ok {
		return m, nil
	}
	m, whole, err := Block(k.From, length, r)
	if err != nil {
		return nil, err
	}
	if !whole {
		k = tail
	}
	c.Put(k, m)
	return m, nil
}

const (
	// blockSize is from where on a block ends with its line. Blocks depend on the
	// text alone: they stay when it grows.
	blockSize = 64 << 10

	// maxLine is more bytes than a line can have, and most have less than shortLine.
	maxLine   = 32 << 10
	shortLine = 1 << 10
)

// Block compresses the block from byte from on, in a text of lines of a length, or
// the rest of the text; then whole is false.
func Block(from, length int64, r io.ReaderAt) (m *Member, whole bool, err error) {
	mem := blocks.Get().(*[blockSize + maxLine]byte)
	defer blocks.Put(mem)
	text, whole, err := readBlock(mem, from, length, r)
	if err != nil {
		return nil, false, err
	}
	return NewMember(text), whole, nil
}

// readBlock reads the text of a [Block]. Most lines are short: the rest of a longer one is
// read after it.
func readBlock(mem *[blockSize + maxLine]byte, from, length int64, r io.ReaderAt) (text []byte, whole bool, err error) {
	have := 0
	for _, size := range [...]int{blockSize + shortLine, blockSize + maxLine} {
		text = mem[:min(length-from, int64(size))]
		if _, err := r.ReadAt(text[have:], from+int64(have)); err != nil {
			return nil, false, err
		}
		if len(text) < blockSize {
			return text, false, nil
		}
		begin := max(have, blockSize-1)
		if n := bytes.IndexByte(text[begin:], '\n'); n >= 0 {
			return text[:begin+n+1], true, nil
		}
		if have = len(text); int64(have) == length-from {
			break
		}
	}
	return text, false, nil
}

// blocks is memory for the text of blocks: a Member keeps its compressed form alone.
var blocks = sync.Pool{New: func() any { return new([blockSize + maxLine]byte) }}

// copyBlock is how much of a constant text is compressed at a time.
const copyBlock = 1 << 20

// Copy returns the text of open; it never changes. It is opened unless the cache
// has all members: the last one is smaller than copyBlock. k is the key
// of the beginning.
func (c *Cache) Copy(k Key, open func() (io.ReadCloser, error)) (all []*Member, err error) {
	defer c.Turn()()
	for at := k; ; {
		m, ok := c.Get(at)
		if !ok {
			break
		}
		if all = append(all, m); m.Len < copyBlock {
			return all, nil
		}
		at.From += m.Len
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
		m := NewMember(block.Bytes())
		c.Put(k, m)
		if all = append(all, m); n < copyBlock {
			return all, nil
		}
		k.From += n
	}
}
