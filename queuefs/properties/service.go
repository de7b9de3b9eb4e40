package properties

import (
	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/snapshot"
	"errors"
	"fmt"
)

// A Service has the properties of the service: cutie-info.txt, and its copy in the index.
type Service struct {
	File   *home.File[home.ServiceInfo]
	Index  *snapshot.Store
	Report func(path, text string) // called with damage found

	bad string // why the copy holds; "" if the file does
}

// ErrInfo is the error for a damaged cutie-info.txt without a copy.
var ErrInfo = errors.New("properties of the service damaged")

// Open reads the file when the home is opened. A damaged file does not keep it shut if
// the index has a copy. With keep the copy is brought up to the file.
func (s *Service) Open(keep bool) (home.Reading[home.ServiceInfo], error) {
	r, err := s.File.Read()
	if err != nil && content.Transient(err) {
		return r, err
	}
	copied, e := s.Index.Service()
	switch {
	case e != nil:
		return r, e
	case err != nil && copied == nil:
		return r, fmt.Errorf("%s: %w: %w", home.InfoName, ErrInfo, durable.Bare(err))
	case err != nil:
		s.bad = durable.Bare(err).Error() + "; the last known properties hold"
		s.Report(home.InfoName, s.bad)
		if r, err = s.File.Instead(r, copied, s.bad); err != nil {
			return r, err
		}
	case copied != nil && string(copied) != string(r.Text):
		s.Report(home.InfoName, "edited by other hands: "+home.Differences(copied, r.Text))
	}
	s.File.Take(r)
	if keep && string(copied) != string(r.Text) {
		err = s.Index.KeepService(r.Text)
	}
	return r, err
}

// Mend writes a damaged file again by its copy; nil if it was not damaged.
func (s *Service) Mend() (*home.Problem, error) {
	if s.bad == "" {
		return nil, nil
	}
	to, err := s.File.SetAside()
	if err != nil {
		return nil, err
	}
	copied, err := s.Index.Service()
	if err != nil {
		return nil, err
	}
	if _, err := s.File.Replace(copied); err != nil {
		return nil, err
	}
	text := s.bad + "; written again"
	if to != "" {
		text = s.bad + "; moved to " + to + ", and written again"
	}
	return &home.Problem{Path: home.InfoName, Text: text}, nil
}
