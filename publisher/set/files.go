package set

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"cutie/publisher/compose"
	"cutie/publisher/dump"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// Every file of a set is verified when it is opened first, and again after a change of
// the file; a background reader reads all of them, see Scrub. A damaged file is
// answered with 503 until the next Tick has made it again or set it aside, see Heal.

// EntriesOf opens the entries of the Change List from the event first on, verified up to
// length. s.mu is not held.
func (s *Set) EntriesOf(first queuefs.Seq, length int64) (compose.Content, error) {
	for {
		text, packs, err := s.entriesOf(first, length)
		if !packs || !store.Absent(err) {
			return text, err
		}
	}
}

// entriesOf is EntriesOf. If packs, the file may have gone since: its list stands in gzip
// alone from then on.
func (s *Set) entriesOf(first queuefs.Seq, length int64) (text compose.Content, packs bool, err error) {
	s.mu.Lock()
	sp, closed := s.files.Lists.Find(first)
	if !closed && first == s.at.First {
		defer s.mu.Unlock()
		file, err := s.openGrowing()
		if err != nil && store.Unusable(err) {
			err = errors.Join(s.mend(lostList(err)), &brokenFile{names.EntriesFile(first)})
		}
		return file, false, err
	}
	s.mu.Unlock()
	if !closed || length > sp.Length {
		return nil, false, fmt.Errorf("%s: %w", names.EntriesFile(first), fs.ErrNotExist) // removed, or lost
	}
	file, err := s.OpenPiece(sp.List())
	if err != nil || sp.Packed == 0 {
		return file, sp.Packed == 0, err
	}
	p, err := compose.OpenPacked(file)
	if err != nil {
		file.Close()
		return nil, false, err // another file since it was verified
	}
	return p, false, nil
}

// openGrowing opens the entries of the open list, verified. s.mu is held.
func (s *Set) openGrowing() (*os.File, error) {
	file, err := s.openFile(names.EntriesFile(s.at.First))
	if err != nil {
		return nil, err
	}
	if err := s.text.Check(file, s.at.Length); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// OpenPiece opens a file of a closed list or a package, verified. s.mu is not held.
func (s *Set) OpenPiece(p store.Piece) (*os.File, error) {
	file, err := s.verified(p)
	if err != nil && store.Unusable(err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.files.Has(p.Name) {
			return nil, err // removed meanwhile
		}
		s.note(p.Name, err)
		return nil, &brokenFile{p.Name}
	}
	return file, err
}

// OpenManifest opens the manifest in a package.
func (s *Set) OpenManifest(p store.Piece) (io.ReadCloser, error) {
	file, err := s.OpenPiece(p)
	if err != nil {
		return nil, err
	}
	r, err := dump.OpenManifest(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return r, nil
}

// openFile opens a file in the directory of the set for reading.
func (s *Set) openFile(name string) (*os.File, error) {
	d, err := s.dir()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Open(name)
}

func (s *Set) verified(p store.Piece) (*os.File, error) {
	file, err := s.openFile(p.Name)
	if err != nil {
		return nil, err
	}
	if err = s.Store.Verify(file, p); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// note remembers a damaged file for the next Tick. s.mu is held.
func (s *Set) note(name string, err error) {
	if s.damaged == nil {
		s.damaged = make(map[string]error)
	}
	if s.damaged[name] == nil {
		s.damaged[name] = err
		s.damage.Store(true)
	}
}

// A brokenFile is the answer while a file is damaged.
type brokenFile struct{ name string }

func (e *brokenFile) Error() string {
	return e.name + " is damaged and is made again, if that can be: try again in a few seconds"
}

// HTTPStatus makes the error an answer with its text.
func (e *brokenFile) HTTPStatus() int { return http.StatusServiceUnavailable }

// survey looks for files that are absent or have another length. s.mu is held.
func (s *Set) survey(d *durable.Dir) error { return s.files.Survey(d, s.note) }

// Packed opens the file of a closed list in gzip, verified. The error is [fs.ErrNotExist] if
// there is none.
func (s *Set) Packed(sp store.Span) (*compose.Packed, error) {
	p := sp.Gzip()
	file, err := s.verified(p)
	if err == nil {
		var text *compose.Packed
		if text, err = compose.OpenPacked(file); err == nil {
			return text, nil
		}
		file.Close()
	}
	if store.Unusable(err) && !store.Absent(err) {
		s.mu.Lock()
		s.note(p.Name, err)
		s.mu.Unlock()
	}
	return nil, err
}

// OpenGzip opens the file of a closed list in gzip, verified, to copy its octets.
func (s *Set) OpenGzip(sp store.Span) (*os.File, error) { return s.verified(sp.Gzip()) }
