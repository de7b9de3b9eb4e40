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
