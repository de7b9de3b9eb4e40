package image

import (
	"context"
	"fmt"
	"strings"
)

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
