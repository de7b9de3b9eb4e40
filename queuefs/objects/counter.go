package objects

import (
	"context"
	"io"
	"sync/atomic"
)

// A Counter is a [Store] whose requests are counted: these, and the bytes, are what stores
// are paid for. A list is one request for each [Store.List].
type Counter struct {
	store Store
	done  [operations]atomic.Int64
	in    atomic.Int64
	out   atomic.Int64
}

// An Operation is a kind of request, as stores price it.
type Operation int

const (
	Writes Operation = iota // Create and Put
	Reads                   // Get and Part
	Deletes
	Lists
	operations
)

var operationNames = [operations]string{"put", "get", "delete", "list"}

func (o Operation) String() string { return operationNames[o] }

// Count counts the requests to a store.
func Count(s Store) *Counter { return &Counter{store: s} }

// Requests calls visit with the number of requests of each kind so far, failed ones
// included.
func (c *Counter) Requests(visit func(of Operation, n int64)) {
	for o := range operations {
		visit(o, c.done[o].Load())
	}
}

// Bytes returns the bytes of objects written to the store, and read from it.
func (c *Counter) Bytes() (written, read int64) { return c.out.Load(), c.in.Load() }

// Create is [Store.Create].
func (c *Counter) Create(ctx context.Context, name string, data []byte) error {
	c.done[Writes].Add(1)
	c.out.Add(int64(len(data)))
	return c.store.Create(ctx, name, data)
}

// Put is [Store.Put].
func (c *Counter) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	c.done[Writes].Add(1)
	c.out.Add(size)
	return c.store.Put(ctx, name, body, size)
}

// Get is [Store.Get].
func (c *Counter) Get(ctx context.Context, name string, most int64) (io.ReadCloser, error) {
	c.done[Reads].Add(1)
	return c.counted(c.store.Get(ctx, name, most))
}

// Part is [Store.Part].
func (c *Counter) Part(ctx context.Context, name string, from, size int64) (io.ReadCloser, error) {
	c.done[Reads].Add(1)
	return c.counted(c.store.Part(ctx, name, from, size))
}

// Delete is [Store.Delete].
func (c *Counter) Delete(ctx context.Context, name string) error {
	c.done[Deletes].Add(1)
	return c.store.Delete(ctx, name)
}

// List is [Store.List].
func (c *Counter) List(ctx context.Context, prefix, after string, most int) ([]string, error) {
	c.done[Lists].Add(1)
	return c.store.List(ctx, prefix, after, most)
}

// counted counts the bytes of a body as they are read.
func (c *Counter) counted(body io.ReadCloser, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, err
	}
	return &countedBody{body, &c.in}, nil
}

type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}

var _ Store = (*Counter)(nil)
