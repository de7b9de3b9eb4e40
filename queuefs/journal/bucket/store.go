package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"time"

	"cutie/queuefs/journal"
	"cutie/queuefs/objects"
)

const (
	maxBatch  = 4 << 20  // bytes where a batch stops gathering; one Append may be larger
	maxAppend = 16 << 20 // bytes of one Append
	// maxObject is the most bytes of a batch: one Append on top of a batch that
	// gathers, and its records are not empty.
	maxObject = headerSize + maxBatch + (1+recHeader)*maxAppend
)

// A chain is the objects of a journal.
type chain struct {
	store    objects.Store
	patience time.Duration // how long a request is repeated
}

// again is [objects.Again].
func (c *chain) again(ctx context.Context, try func(ctx context.Context) (done bool, err error)) error {
	return objects.Again(ctx, c.patience, try)
}

// read returns the first most bytes of a batch. Without such an object the error is
// [objects.ErrNotExist].
func (c *chain) read(ctx context.Context, number uint64, most int64) (buf []byte, err error) {
	err = c.again(ctx, func(ctx context.Context) (bool, error) {
		if buf, err = readSome(ctx, c.store, nameOf(number), most); errors.Is(err, objects.ErrNotExist) {
			return true, err
		}
		return false, err
	})
	return buf, err
}

// readSome returns the first most bytes of an object.
func readSome(ctx context.Context, s objects.Store, name string, most int64) ([]byte, error) {
	r, err := s.Get(ctx, name, most)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	buf := bytes.NewBuffer(make([]byte, 0, headerSize+bytes.MinRead))
	_, err = buf.ReadFrom(io.LimitReader(r, headerSize))
	if h, e := parseHeader(buf.Bytes()); err == nil && e == nil { // room for the whole batch at once
		buf.Grow(int(min(int64(h.size), most-headerSize)) + bytes.MinRead)
	}
	if err == nil {
		_, err = buf.ReadFrom(r)
	}
	return buf.Bytes(), err
}

// header returns the header of a batch, unverified but for its number.
func (c *chain) header(ctx context.Context, number uint64) (header, error) {
	buf, err := c.read(ctx, number, headerSize)
	if err != nil {
		return header{}, err
	}
	h, err := parseHeader(buf)
	if err == nil && h.number != number {
		err = fmt.Errorf("is batch %d", h.number)
	}
	if err != nil {
		return h, damage(number, err.Error())
	}
	return h, nil
}

// load returns the bytes of a batch, verified by itself.
func (c *chain) load(ctx context.Context, number uint64) ([]byte, batch, error) {
	buf, err := c.read(ctx, number, maxObject)
	if err != nil {
		return nil, batch{}, err
	}
	b, err := parse(buf)
	if err == nil && b.number != number {
		err = fmt.Errorf("is batch %d", b.number)
	}
	if err != nil {
		return nil, b, damage(number, err.Error())
	}
	return buf, b, nil
}

// put writes a batch at its number. An attempt without an answer may have been done, or
// be done later: the object is read back, and only where there is none is it tried
// again, with the same bytes, after a call of failing. The error is errTaken if other bytes
// are there.
func (c *chain) put(ctx context.Context, number uint64, buf []byte, failing func(error)) error {
	return c.again(ctx, func(ctx context.Context) (bool, error) {
		failed := c.store.Create(ctx, nameOf(number), buf)
		if failed == nil {
			return true, nil
		}
		there, err := readSome(ctx, c.store, nameOf(number), int64(len(buf))+1)
		switch {
		case err == nil && bytes.Equal(there, buf):
			return true, nil
		case err == nil:
			return true, errTaken
		case errors.Is(failed, objects.ErrExist):
			failed = fmt.Errorf("%w, but it cannot be read: %w", failed, err) // by a store that contradicts itself, for as long as it does
		}
		failing(failed)
		return false, failed
	})
}

// errTaken: a batch of another process is at the number.
var errTaken = errors.New("batch number is taken")

// list returns up to most numbers of batches after a number, in order.
func (c *chain) list(ctx context.Context, after uint64, most int) (numbers []uint64, err error) {
	var names []string
	err = c.again(ctx, func(ctx context.Context) (bool, error) {
		names, err = c.store.List(ctx, prefix, nameOf(after), most)
		return false, err
	})
	for _, name := range names {
		if n := numberOf(name); n > 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers, err
}

// end returns the number of the last batch, 0 if there is none. hint is a number near
// the end, or 0. Lists find the end even if a batch before it is missing; they may lack
// the last ones, which are asked for by number.
func (c *chain) end(ctx context.Context, hint uint64) (uint64, error) {
	last, step := hint, uint64(1)
	none := uint64(math.MaxUint64) // there is no batch after it, by a list
	for last < none {
		at := last + (none-last)/2
		if none == math.MaxUint64 {
			at = last + step - 1
			step *= 2
		}
		found, err := c.list(ctx, at, 1)
		switch {
		case err != nil:
			return 0, err
		case len(found) > 0:
			last = found[0]
		default:
			none = at
		}
	}
	for n := last; ; n++ {
		switch _, err := c.header(ctx, n+1); {
		case errors.Is(err, objects.ErrNotExist):
			return n, nil
		case err != nil:
			return 0, err
		}
	}
}

// find returns the number of the batch with a record, of those from low up to but
// without high. With an error it is the number of the unread batch.
func (c *chain) find(ctx context.Context, at journal.LSN, low, high uint64) (uint64, error) {
	var failed error
	unread := uint64(0)
	n := sort.Search(int(high-low), func(i int) bool {
		if failed != nil {
			return true
		}
		h, err := c.header(ctx, low+uint64(i))
		if err != nil {
			failed, unread = err, low+uint64(i)
		}
		return err == nil && h.after() > at
	})
	if failed != nil {
		return unread, failed
	}
	return low + uint64(n), nil
}
