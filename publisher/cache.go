package publisher

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
)

// cacheSize is how many octets of compressed entries a Publisher keeps.
const cacheSize = 48 << 20

// A member is a run of whole entries as one gzip member. It never changes.
type member struct {
	gz     []byte
	raw    int64 // octets of the entries
	zst    atomic.Pointer[[]byte]
	factor atomic.Uint32 // see behind; 0 until it is wanted

	// Of a page of the engine, when it was read:
	entries int
	version queuefs.Seq // last event that touched it
	at      time.Time   // time of that
}

// weight is what the member takes, with the form that may be made later: both
// are of about one size.
func (m *member) weight() int { return 2 * len(m.gz) }

// A memberKey names what a member is made of: a page of the engine, or the
// part of a Change List, or of the copy of a manifest, that begins at octet from.
// end is 0 unless it is the last part and may grow.
type memberKey struct {
	queue string
	set   Set
	list  uint64 // first event of the Change List, 0 for a Resource List
	copy  string // entity tag of the copy, "" for a list
	from  int64
	end   int64
}

// A cache keeps the members last used, up to a number of octets. Whoever got
// a member may keep it.
type cache struct {
	max int

	mu    sync.Mutex
	size  int
	order *list.List // of *cached, last used first
	items map[memberKey]*list.Element
}

type cached struct {
	key memberKey
	m   *member
}

func newCache(max int) *cache {
	return &cache{max: max, order: list.New(), items: make(map[memberKey]*list.Element)}
}

// get returns the member, nil if it is not there.
func (c *cache) get(k memberKey) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.items[k]
	if el == nil {
		return nil
	}
	c.order.MoveToFront(el)
	return el.Value.(*cached).m
}

// drop forgets the member.
func (c *cache) drop(k memberKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.items[k]; el != nil {
		c.remove(el)
	}
}

func (c *cache) remove(el *list.Element) {
	old := c.order.Remove(el).(*cached)
	delete(c.items, old.key)
	c.size -= old.m.weight() + overhead
}

// overhead is what a member takes beside its octets.
const overhead = 256

// put keeps the member in place of what was there under the key.
func (c *cache) put(k memberKey, m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.items[k]; el != nil {
		old := el.Value.(*cached)
		c.size += m.weight() - old.m.weight()
		old.m = m
		c.order.MoveToFront(el)
	} else {
		c.items[k] = c.order.PushFront(&cached{k, m})
		c.size += m.weight() + overhead
	}
	for c.size > c.max && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}
