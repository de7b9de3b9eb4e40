package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"cutie/queuefs/durable"
)

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
