package image

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"cutie/queuefs/durable"
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

// Check reads all pieces of an image. It calls bad with each missing or damaged
// one, and with its place; other errors end it. jobFile is called with the job
// files of whole pieces.
func (s *Store) Check(ctx context.Context, m *Manifest, bad func(what string, err error), jobFile func(queue string, id uint64, text []byte)) error {
	check := func(p *Piece, what string, visit func(id uint64, data []byte)) error {
		data, err := s.Piece(ctx, m, p)
		if err == nil && visit != nil {
			if e := Entries(data, visit); e != nil {
				err = &DamageError{m.Objects[p.Object].Name, e.Error()}
			}
		}
		if isDamage(err) {
			bad(what, err)
			err = nil
		}
		return err
	}
	for i := range m.Files {
		for j := range m.Files[i].Pieces {
			if err := check(&m.Files[i].Pieces[j], m.Files[i].Path, nil); err != nil {
				return err
			}
		}
	}
	for i := range m.Pages {
		g := &m.Pages[i]
		what := fmt.Sprintf("page %d of queue %s", g.Number, g.Queue)
		for j := range g.Jobs {
			if err := check(&g.Jobs[j], "job files of "+what, func(id uint64, text []byte) { jobFile(g.Queue, id, text) }); err != nil {
				return err
			}
		}
		for j := range g.Payloads {
			if err := check(&g.Payloads[j].Piece, "payloads of "+what, func(uint64, []byte) {}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Complete looks whether the store has all objects with jobs of an image, by a list. The
// error is a [*DamageError] if one is missing.
func (s *Store) Complete(ctx context.Context, m *Manifest) error {
	names, err := s.list(ctx, objectPrefix)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	missing := func(p *Piece, g *Page) error {
		if name := m.Objects[p.Object].Name; !there[name] {
			return &DamageError{name, fmt.Sprintf("is missing, of page %d of queue %s", g.Number, g.Queue)}
		}
		return nil
	}
	for i := range m.Pages {
		g := &m.Pages[i]
		for j := range g.Jobs {
			if err := missing(&g.Jobs[j], g); err != nil {
				return err
			}
		}
		for j := range g.Payloads {
			if err := missing(&g.Payloads[j].Piece, g); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sizes returns the bytes of an image as it is stored, by kind.
func (m *Manifest) Sizes() (index, published, jobFiles, payloads int64) {
	for i := range m.Files {
		for _, p := range m.Files[i].Pieces {
			if strings.HasPrefix(m.Files[i].Path, "log/") {
				index += p.Stored
			} else {
				published += p.Stored
			}
		}
	}
	for i := range m.Pages {
		for _, p := range m.Pages[i].Jobs {
			jobFiles += p.Stored
		}
		for _, p := range m.Pages[i].Payloads {
			payloads += p.Stored
		}
	}
	return index, published, jobFiles, payloads
}

// Pieces returns how many pieces the image has.
func (m *Manifest) Pieces() (n int) {
	for i := range m.Files {
		n += len(m.Files[i].Pieces)
	}
	for i := range m.Pages {
		n += len(m.Pages[i].Jobs) + len(m.Pages[i].Payloads)
	}
	return n
}

// restorers is how many objects are restored at once. Each is in memory, while other parts
// of the home are opened.
const restorers = 4

// A restoring is the memory to restore one.
type restoring struct{ object, piece []byte }

// Restore writes the wanted files of an image into the directory of a home,
// unsynced. The error is a [*DamageError] for a damaged object.
func (s *Store) Restore(ctx context.Context, m *Manifest, dir *durable.Dir, wanted func(path string) bool) error {
	type place struct {
		Piece
		file *File
		off  int64
	}
	var places []place
	left := make(map[*File]int, len(m.Files)) // pieces
	for i := range m.Files {
		f := &m.Files[i]
		if !wanted(f.Path) {
			continue
		}
		off := int64(0)
		for _, p := range f.Pieces {
			places = append(places, place{p, f, off})
			off += p.Size
		}
		if left[f] = len(f.Pieces); off != f.Size {
			return &DamageError{ManifestName(m.Number), fmt.Sprintf("has %s in pieces of another size", f.Path)}
		}
		if off == 0 {
			if err := finish(dir, f, true); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(places, func(x, y place) int { return cmp.Or(cmp.Compare(x.Object, y.Object), cmp.Compare(x.At, y.At)) })
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(restorers)
	buffers := sync.Pool{New: func() any { return new(restoring) }}
	var mu sync.Mutex // of left
	for len(places) > 0 {
		o, n := places[0].Object, 0
		for n < len(places) && places[n].Object == o {
			n++
		}
		some := places[:n]
		places = places[n:]
		g.Go(func() error {
			from, to := some[0].At, int64(0)
			for _, p := range some {
				to = max(to, p.At+p.Stored)
			}
			b := buffers.Get().(*restoring)
			defer buffers.Put(b)
			data, err := s.read(ctx, m.Objects[o].Name, from, to-from, b.object)
			if err != nil {
				return err
			}
			b.object = data
			for _, p := range some {
				part := data[min(p.At-from, int64(len(data))):]
				text, err := s.open(m.Objects[o].Name, &p.Piece, part[:min(p.Stored, int64(len(part)))], b.piece)
				if err == nil {
					b.piece = text
					err = writePiece(dir, p.file, p.off, text)
				}
				if err != nil {
					return err
				}
				mu.Lock()
				left[p.file]--
				last := left[p.file] == 0
				mu.Unlock()
				if last {
					if err := finish(dir, p.file, false); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// in calls do with the directory of a path, made if need be, and the name in it.
func in(dir *durable.Dir, path string, do func(d *durable.Dir, name string) error) error {
	first, rest, more := strings.Cut(path, "/")
	if !more {
		return do(dir, path)
	}
	sub, err := dir.AddSub(first)
	if err != nil {
		return err
	}
	defer sub.Close()
	return in(sub, rest, do)
}

func writePiece(dir *durable.Dir, f *File, off int64, data []byte) error {
	return in(dir, f.Path, func(d *durable.Dir, name string) error {
		if len(f.Pieces) == 1 {
			return d.Renew(name, data)
		}
		file, err := d.Update(name)
		if err != nil {
			return err
		}
		_, err = file.WriteAt(data, off)
		return errors.Join(err, file.Close())
	})
}

// finish gives a file its date; with empty it is made.
func finish(dir *durable.Dir, f *File, empty bool) error {
	return in(dir, f.Path, func(d *durable.Dir, name string) error {
		if empty {
			if err := d.Renew(name, nil); err != nil {
				return err
			}
		}
		return d.Date(name, time.Unix(0, f.Modified))
	})
}

// In a page an entry with a small result begins with a zero, as no job file does. Programs
// without small results in images pass over it.

// ResultEntry returns the entry of a result.
func ResultEntry(name string, contents []byte) []byte {
	entry := make([]byte, 0, 2+len(name)+len(contents))
	entry = append(append(append(entry, 0), name...), 0)
	return append(entry, contents...)
}

// ParseResult is the opposite of [ResultEntry]; ok is false for a job file.
func ParseResult(entry []byte) (name string, contents []byte, ok bool) {
	if len(entry) == 0 || entry[0] != 0 {
		return "", nil, false
	}
	of, contents, ok := bytes.Cut(entry[1:], []byte{0})
	return string(of), contents, ok
}
