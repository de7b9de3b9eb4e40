package queuefs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"cutie/queuefs/compare"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
)

// Compare compares all queues with their files and adds to r. With Repair it mends
// differences where possible. Nobody may use the service meanwhile.
func (s *Service) Compare(r *compare.Report, o compare.Options) error {
	if !s.opts.Look {
		if err := s.fileNow(); err != nil {
			return err
		}
	}
	if err := s.checkService(r, o.Repair); err != nil {
		return err
	}
	for _, q := range s.Queues() {
		r.Queues++
		if err := q.checkSettings(r, o.Repair); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		if err := q.comparer().Check(r, o); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	return nil
}

// checkService mends a damaged cutie-info.txt by its copy in the index, to repair.
func (s *Service) checkService(r *compare.Report, repair bool) error {
	if s.serviceBad == "" || !repair {
		return nil // told when the home was opened
	}
	r.Mended = slices.DeleteFunc(r.Mended, func(p Problem) bool { return p.Path == home.InfoName })
	to, err := s.properties.service.SetAside()
	if err != nil {
		return err
	}
	kept, err := s.index.Service()
	if err != nil {
		return err
	}
	if _, err := s.properties.service.Replace(kept); err != nil {
		return err
	}
	text := s.serviceBad + "; written again"
	if to != "" {
		text += ", the former one is in " + to
	}
	r.Mended = append(r.Mended, Problem{Path: home.InfoName, Text: text})
	return nil
}

// fileNow brings all files up to the journal, as far as there is space.
func (s *Service) fileNow() error {
	at := s.shared.Journal.Stats().Next
	err := s.makeSpace()
	for _, q := range s.Queues() {
		if err == nil {
			err = q.filer.UpTo(at)
		}
	}
	if errors.Is(storageError(err), ErrNoSpace) {
		return nil
	}
	return err
}

// checkSettings reports a damaged queue-info.txt. Repairing sets it aside and
// writes the properties in force.
func (q *Queue) checkSettings(r *compare.Report, repair bool) error {
	q.svc.properties.Lock()
	defer q.svc.properties.Unlock()
	hold := q.ledger.Settings()
	bad, path := hold.Bad, home.QueueInfoPath(q.ID())
	if bad == "" {
		q.look(func(x *index.Index) {
			if x.Info != ([sha256.Size]byte{}) && x.Info != hold.Facts.SHA256 {
				r.Problems = append(r.Problems, Problem{Path: path, Text: "edited by other hands, and not taken in yet"})
			}
		})
		return nil
	}
	// It was told when the home was opened.
	told := func(p Problem) bool { return p.Path == path }
	r.Mended, r.Problems = slices.DeleteFunc(r.Mended, told), slices.DeleteFunc(r.Problems, told)
	if !repair {
		r.Problems = append(r.Problems, Problem{Path: path, Text: bad})
		return nil
	}
	to, err := q.file.SetAside()
	if err != nil {
		return err
	}
	if to == "" {
		bad += "; written again"
	} else {
		bad += "; moved to " + to + ", and written again"
	}
	written, err := q.file.Replace(hold.Text)
	if err != nil {
		return err
	}
	if err := q.takeSettings(q.settingsOf(written)); err != nil {
		return err
	}
	r.Mended = append(r.Mended, Problem{Path: path, Text: bad})
	return nil
}
