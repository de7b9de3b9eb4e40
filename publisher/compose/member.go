package compose

import (
	"bytes"
	"container/list"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
)

// A Member is a run of text that never changes, kept in gzip.
type Member struct {
	Len int64 // bytes of the text

	gz     []byte
	zst    atomic.Pointer[[]byte]
	factor atomic.Uint32 // see shift; 0 until asked for
}

// NewMember compresses a text.
func NewMember(text []byte) *Member { return &Member{Len: int64(len(text)), gz: compress(nil, text)} }

// Weight returns about how many bytes of memory the member takes, with its form
// in Zstandard.
func (m *Member) Weight() int { return 2 * len(m.gz) }

// shift returns shift of the length of the text, computed once.
func (m *Member) shift() uint32 {
	f := m.factor.Load()
	if f == 0 { // no factor is
		f = shift(uint32(m.Len))
		m.factor.Store(f)
	}
	return f
}

// zstd returns the member in Zstandard, made once.
func (m *Member) zstd() []byte {
	if z := m.zst.Load(); z != nil {
		return *z
	}
	r, err := m.expand()
	if err != nil {
		panic(err) // it was made here
	}
	defer r.Close()
	text := make([]byte, m.Len)
	if _, err := io.ReadFull(r, text); err != nil {
		panic(err)
	}
	z := Zstd.pack(text)
	m.zst.Store(&z)
	return z
}

var gzipReaders sync.Pool // of *gzip.Reader

// expand returns a reader of the text.
func (m *Member) expand() (io.ReadCloser, error) {
	z, _ := gzipReaders.Get().(*gzip.Reader)
	src := bytes.NewReader(m.gz)
	if z == nil {
		var err error
		if z, err = gzip.NewReader(src); err != nil {
			return nil, err
		}
	} else if err := z.Reset(src); err != nil {
		return nil, err
	}
	return &expander{z}, nil
}

type expander struct{ *gzip.Reader }

func (e *expander) Close() error {
	if e.Reader != nil {
		gzipReaders.Put(e.Reader)
		e.Reader = nil
	}
	return nil
}

// A Cache keeps the values used last, up to Max bytes. It is safe for
// concurrent use.
type Cache[K comparable, V interface{ Weight() int }] struct {
	Max int

	mu    sync.Mutex
	size  int
	order list.List // of *cached, last used first
	items map[K]*list.Element
}

type cached[K comparable, V any] struct {
	key   K
	value V
}

// overhead is how many bytes a value takes beside its weight.
const overhead = 256

// Get returns the value of a key, and whether there is one.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.items[k]
	if el == nil {
		return v, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*cached[K, V]).value, true
}

// Drop forgets the value of a key.
func (c *Cache[K, V]) Drop(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.items[k]; el != nil {
		c.remove(el)
	}
}

func (c *Cache[K, V]) remove(el *list.Element) {
	old := c.order.Remove(el).(*cached[K, V])
	delete(c.items, old.key)
	c.size -= old.value.Weight() + overhead
}

// Put keeps a value.
func (c *Cache[K, V]) Put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.items[k]; el != nil {
		c.remove(el)
	}
	if c.items == nil {
		c.items = make(map[K]*list.Element)
	}
	c.items[k] = c.order.PushFront(&cached[K, V]{k, v})
	c.size += v.Weight() + overhead
	for c.size > c.Max && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}
