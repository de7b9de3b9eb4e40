package image

import (
	"context"
)

// Check reads all objects of an image, and calls bad with the error of each piece that is
// missing or damaged; it ends when bad returns false, and returns this error. Errors of the
// store end it, too.
func (s *Store) Check(ctx context.Context, m *Manifest, bad func(error) bool) error {
	check := func(p *Piece) error {
		_, err := s.Piece(ctx, m, p)
		if isDamage(err) && bad(err) {
			return nil
		}
		return err
	}
	for i := range m.Files {
		for j := range m.Files[i].Pieces {
			if err := check(&m.Files[i].Pieces[j]); err != nil {
				return err
			}
		}
	}
	for i := range m.Pages {
		g := &m.Pages[i]
		for j := range g.Jobs {
			if err := check(&g.Jobs[j]); err != nil {
				return err
			}
		}
		for j := range g.Payloads {
			if err := check(&g.Payloads[j].Piece); err != nil {
				return err
			}
		}
	}
	return nil
}
