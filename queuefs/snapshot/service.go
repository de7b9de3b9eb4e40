package snapshot

import (
	"errors"
	"io/fs"

	"cutie/queuefs/durable"
	"cutie/queuefs/ledger"
)

// service is the copy of cutie-info.txt.
func (s *Store) service() durable.Sealed {
	return durable.Sealed{Dir: s.Dir, Name: "service", Kind: "cutie-info.txt", Max: 1 << 20}
}

// Service returns the last known cutie-info.txt; nil if there is no copy.
func (s *Store) Service() ([]byte, error) {
	text, err := s.service().Read()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrDamaged) { // made again
		return nil, nil
	}
	return text, err
}

// KeepService keeps a copy of cutie-info.txt, unless there is no space.
func (s *Store) KeepService(text []byte) error {
	err := s.service().Write(text)
	if errors.Is(ledger.StorageError(err), ledger.ErrNoSpace) {
		return nil
	}
	return err
}
