package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"cutie/queuefs/objects"
)

const (
	maxObject  = 8 << 20  // bytes of an object, about
	filePiece  = 1 << 20  // bytes of a piece of a file
	packPiece  = 4 << 20  // bytes of a piece of a page, about
	maxPiece   = 64 << 20 // bytes of a piece: one entry may be larger than others
	atOnce     = 8        // requests at a time
	perList    = 1000     // names asked for at a time
	smallPart  = 8        // an object of less than this part of the most is small
	mostSmalls = 32       // small objects, before they are written together
)

// A Store keeps the images of one home.
type Store struct {
	Objects  objects.Store
	Patience time.Duration // how long a request is repeated

	enc *zstd.Encoder
	dec *zstd.Decoder
}

// New returns the images in a store. Nothing is sent to it yet.
func New(s objects.Store, patience time.Duration) (*Store, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		return nil, err
	}
	return &Store{Objects: s, Patience: patience, enc: enc, dec: dec}, nil
}

// A DamageError names a damaged or missing object.
type DamageError struct{ Name, Text string }

func (e *DamageError) Error() string { return e.Name + " " + e.Text }

func isDamage(err error) bool {
	var damage *DamageError
	return errors.As(err, &damage)
}

// again repeats a request. A missing object is an error at once.
func (s *Store) again(ctx context.Context, try func(ctx context.Context) error) error {
	return objects.Again(ctx, s.Patience, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		return errors.Is(err, objects.ErrNotExist) || errors.Is(err, objects.ErrTooLong), err
	})
}

// read returns the bytes of an object, or of a part if size is not 0: then in buf, if they
// fit.
func (s *Store) read(ctx context.Context, name string, from, size int64, buf []byte) (data []byte, err error) {
	err = s.again(ctx, func(ctx context.Context) error {
		if size == 0 {
			data, err = objects.Read(ctx, s.Objects, name, maxManifest)
			return err
		}
		body, err := s.Objects.Part(ctx, name, from, size)
		if err != nil {
			return err
		}
		defer body.Close()
		into := bytes.NewBuffer(slices.Grow(buf[:0], int(size)+bytes.MinRead))
		_, err = into.ReadFrom(io.LimitReader(body, size))
		data = into.Bytes()
		return err
	})
	switch {
	case errors.Is(err, objects.ErrNotExist):
		return nil, &DamageError{name, "is missing"}
	case errors.Is(err, objects.ErrTooLong):
		return nil, &DamageError{name, "is too long"}
	}
	return data, err
}

// Manifest reads a manifest. The error is a [*DamageError] for a missing or damaged
// one.
func (s *Store) Manifest(ctx context.Context, number uint64) (*Manifest, error) {
	data, err := s.read(ctx, ManifestName(number), 0, 0, nil)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(number, data, s.dec)
	if err != nil {
		return nil, &DamageError{ManifestName(number), err.Error()}
	}
	return m, nil
}

// Newest returns the number of the newest manifest, 0 if there is none.
func (s *Store) Newest(ctx context.Context) (newest uint64, err error) {
	names, err := s.list(ctx, Manifests)
	for _, name := range names {
		newest = max(newest, manifestNumber(name))
	}
	for err == nil { // lists may lack the last ones
		err = s.again(ctx, func(ctx context.Context) error {
			body, err := s.Objects.Get(ctx, ManifestName(newest+1), 1)
			if err == nil {
				body.Close()
			}
			return err
		})
		if errors.Is(err, objects.ErrNotExist) {
			return newest, nil
		}
		newest++
	}
	return 0, err
}

// list returns all names with a prefix.
func (s *Store) list(ctx context.Context, prefix string) (all []string, err error) {
	for after := ""; ; after = all[len(all)-1] {
		var names []string
		err := s.again(ctx, func(ctx context.Context) (err error) {
			names, err = s.Objects.List(ctx, prefix, after, perList)
			return err
		})
		all = append(all, names...)
		if err != nil || len(names) < perList {
			return all, err
		}
	}
}

// Piece reads a piece. The error is a [*DamageError] for a damaged one.
func (s *Store) Piece(ctx context.Context, m *Manifest, p *Piece) ([]byte, error) {
	name := m.Objects[p.Object].Name
	data, err := s.read(ctx, name, p.At, p.Stored, nil)
	if err != nil {
		return nil, err
	}
	return s.open(name, p, data, nil)
}

// open returns the bytes of a piece as it was before it was stored, in buf if they fit.
func (s *Store) open(name string, p *Piece, stored, buf []byte) ([]byte, error) {
	data, err := s.dec.DecodeAll(stored, slices.Grow(buf[:0], int(p.Size)))
	if err != nil || int64(len(data)) != p.Size || sha256.Sum256(data) != p.Sum {
		return nil, &DamageError{name, fmt.Sprintf("is damaged between %d and %d", p.At, p.At+p.Stored)}
	}
	return data, nil
}

// Live returns the bytes of all pieces of the image.
func (m *Manifest) Live() (bytes int64) {
	for _, o := range m.Objects {
		bytes += o.Live
	}
	return bytes
}

// Page returns a page, nil without one.
func (m *Manifest) Page(queue string, number int) *Page {
	i, ok := m.page(queue, number)
	if !ok {
		return nil
	}
	return &m.Pages[i]
}

// Sweep deletes objects made for images up to m, unless m or before names them.
// before may be nil. See the package comment for when it may be called.
func (s *Store) Sweep(ctx context.Context, m, before *Manifest) error {
	named := map[string]bool{}
	for _, of := range []*Manifest{m, before} {
		if of == nil {
			continue
		}
		named[ManifestName(of.Number)] = true
		for _, o := range of.Objects {
			named[o.Name] = true
		}
	}
	return s.delete(ctx, func(name string, number uint64) bool { return number <= m.Number && !named[name] })
}

// Clear deletes all images. Nobody may need them, or make one.
func (s *Store) Clear(ctx context.Context) error {
	return s.delete(ctx, func(string, uint64) bool { return true })
}

// delete deletes manifests, and then pieces, by name and number of their image.
func (s *Store) delete(ctx context.Context, unwanted func(name string, number uint64) bool) error {
	for _, prefix := range []string{Manifests, objectPrefix} {
		names, err := s.list(ctx, prefix)
		if err != nil {
			return err
		}
		for _, name := range names {
			n := manifestNumber(name)
			if strings.HasPrefix(name, objectPrefix) {
				n = objectNumber(name)
			}
			if n == 0 || !unwanted(name, n) {
				continue
			}
			if err := s.again(ctx, func(ctx context.Context) error { return s.Objects.Delete(ctx, name) }); err != nil {
				return err
			}
		}
	}
	return nil
}
