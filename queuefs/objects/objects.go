// Package objects is the seam to an object store: named bytes, written whole. Package
// s3 reaches stores with the S3 API. Package objectstest has a store in memory with
// faults by script, and the tests every store passes.
package objects

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// A Store holds objects. After Create or Put has returned nil, the object is on stable
// storage and every Get finds it. After an error other than [ErrExist] it may be there,
// now or later. A Store is safe for concurrent use.
type Store interface {
	// Create makes an object. If there is one of the name already the error is
	// [ErrExist], and it stays as it is.
	Create(ctx context.Context, name string, data []byte) error

	// Put makes or replaces an object with the size bytes of body.
	Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error

	// Get opens an object for reading, at most the first most bytes; 0 means all.
	// Without such an object the error is [ErrNotExist].
	Get(ctx context.Context, name string, most int64) (io.ReadCloser, error)

	// Part opens size bytes of an object from an offset on, or as many as there are.
	// Without such an object the error is [ErrNotExist].
	Part(ctx context.Context, name string, from, size int64) (io.ReadCloser, error)

	// Delete removes an object. If there is none, that is no error.
	Delete(ctx context.Context, name string) error

	// List returns up to most names with a prefix, in order, of those after a name.
	// Lists may lack the objects of late.
	List(ctx context.Context, prefix, after string, most int) ([]string, error)
}

var (
	// ErrExist: there is an object of the name.
	ErrExist = errors.New("object exists")

	// ErrNotExist: there is no object of the name.
	ErrNotExist = errors.New("no such object")

	// ErrTooLong: the object has more bytes than were asked for.
	ErrTooLong = errors.New("object too long")

	// ErrPrefix: the name begins those of other objects, and the store has them in
	// directories.
	ErrPrefix = errors.New("the name is that of a directory in this store")

	// ErrDenied: the store does not know the credentials, or they lack the right.
	ErrDenied = errors.New("the store denies access")

	// ErrNoBucket: the store has no bucket of the name.
	ErrNoBucket = errors.New("no such bucket")

	// ErrClock: the clock of this machine and that of the store are too far apart.
	ErrClock = errors.New("the clock of this machine is not that of the store")

	// ErrRegion: the bucket is in another region than requests say.
	ErrRegion = errors.New("the bucket is in another region")

	// ErrForeign: the answer is a page, of a proxy or of another service.
	ErrForeign = errors.New("the answer is not that of a store with the S3 API")

	// ErrUnconditional: the store replaces objects it was told to leave alone.
	ErrUnconditional = errors.New("the store does not honour conditional writes (If-None-Match: *), so two owners could write at once")
)

// Refused reports whether an error of [Probe] lasts until somebody changes the store, its
// credentials or this machine.
func Refused(err error) bool {
	for _, lasting := range []error{ErrUnconditional, ErrDenied, ErrNoBucket, ErrClock, ErrRegion} {
		if errors.Is(err, lasting) {
			return true
		}
	}
	return false
}

// Read returns the bytes of an object. Of one longer than most bytes the error is
// [ErrTooLong].
func Read(ctx context.Context, s Store, name string, most int64) ([]byte, error) {
	r, err := s.Get(ctx, name, most+1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s: %w: more than %d bytes", name, ErrTooLong, most)
	}
	return data, err
}

// Probe tries whether the store writes, reads, lists and deletes, and honours
// conditional writes. If it does not the error is [ErrUnconditional].
func Probe(ctx context.Context, s Store) error {
	name := "probe-" + rand.Text()
	first, second := []byte("first\n"), []byte("second\n")
	if err := s.Create(ctx, name, first); err != nil && !errors.Is(err, ErrExist) { // if it exists, a proxy asked twice
		return fmt.Errorf("write an object: %w", err)
	}
	defer s.Delete(context.WithoutCancel(ctx), name)
	switch err := s.Create(ctx, name, second); {
	case err == nil:
		return ErrUnconditional
	case !errors.Is(err, ErrExist):
		return fmt.Errorf("write an object that exists: %w", err)
	}
	switch data, err := Read(ctx, s, name, 100); {
	case err != nil:
		return fmt.Errorf("read an object: %w", err)
	case bytes.Equal(data, second):
		return ErrUnconditional
	case !bytes.Equal(data, first):
		return fmt.Errorf("read an object: other bytes came back than were written")
	}
	if _, err := s.List(ctx, "probe-", "", 1); err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	if err := s.Delete(ctx, name); err != nil {
		return fmt.Errorf("delete an object: %w", err)
	}
	return nil
}

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

// A pause between two attempts grows from the first of these to the last.
var pauses = [...]time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second}

// oneTry is how long one request may take.
const oneTry = 20 * time.Second

// ErrAway: the store did not do a request in all the time that it was repeated. It does not
// answer, or refuses.
var ErrAway = errors.New("the store cannot be used")

// An awayError is an [ErrAway] in the words of the last attempt.
type awayError struct{ error }

func (e awayError) Unwrap() error        { return e.error }
func (e awayError) Is(target error) bool { return target == ErrAway }

// Again repeats a request until it succeeds, or is done with an error of final meaning,
// or the patience is over: then the error is an [ErrAway].
func Again(ctx context.Context, patience time.Duration, try func(ctx context.Context) (done bool, err error)) error {
	end := time.Now().Add(patience)
	for n := 0; ; n++ {
		one, cancel := context.WithTimeout(ctx, oneTry)
		done, err := try(one)
		cancel()
		if done || err == nil {
			return err
		}
		pause := pauses[min(n, len(pauses)-1)]
		if time.Now().Add(pause).After(end) {
			return awayError{err}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
