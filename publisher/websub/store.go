package websub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"cutie/queuefs/durable"
)

// A store is a file that holds a few things whole: a title, a line in JSON for
// each of them, and a last line without which it does not count:
//
//	cutie subscriptions 1
//	{"topic": … }
//	end N
type store[T any] struct {
	dir  *durable.Dir
	name string

	writing sync.Mutex
	saved   atomic.Uint64 // version of what stands in the file
}

// kept returns the version of what is on stable storage.
func (s *store[T]) kept() uint64 { return s.saved.Load() }

// badExt ends the name of a file that was set aside.
const badExt = ".bad"

// maxFile is the most octets of a file that is read back.
const maxFile = 256 << 20

// openStore reads the file, which may be absent. One that is damaged is set
// aside and told of in damage.
func openStore[T any](dir *durable.Dir, name string) (s *store[T], all []T, damage, err error) {
	s = &store[T]{dir: dir, name: name}
	if err := os.Chmod(dir.Path(), 0o700); err != nil {
		return nil, nil, nil, err
	}
	if err := sweep(dir); err != nil {
		return nil, nil, nil, err
	}
	data, err := dir.ReadFile(name, nil, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil, nil, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if all, err = s.parse(data); err != nil {
		damage = fmt.Errorf("%s: %w; moved to %s", name, err, name+badExt)
		if err := dir.Rename(name, dir, name+badExt); err != nil {
			return nil, nil, nil, errors.Join(damage, err)
		}
		return s, nil, damage, nil
	}
	return s, all, nil, nil
}

// sweep removes what is unfinished.
func sweep(dir *durable.Dir) error {
	var stale []string
	err := dir.Names(func(name string) {
		if strings.HasPrefix(name, durable.TempPrefix) {
			stale = append(stale, name)
		}
	})
	for _, name := range stale {
		err = errors.Join(err, dir.Remove(name))
	}
	return err
}

func (s *store[T]) title() string { return "cutie " + s.name + " 1\n" }

func (s *store[T]) parse(data []byte) ([]T, error) {
	rest, ok := bytes.CutPrefix(data, []byte(s.title()))
	if !ok {
		return nil, fmt.Errorf("does not begin with %q", s.title())
	}
	all := []T{}
	for line := range bytes.Lines(rest) {
		if string(line) == fmt.Sprintf("end %d\n", len(all)) {
			return all, nil
		}
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(all)+2, err)
		}
		all = append(all, one)
	}
	return nil, errors.New("cut off")
}

// save puts the present state on stable storage, unless that of the given
// version or a later one is there. Those who come while it is being written
// share the next writing.
func (s *store[T]) save(version uint64, present func() (uint64, []T)) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.kept() >= version {
		return nil
	}
	version, all := present()
	text := []byte(s.title())
	for i := range all {
		line, err := json.Marshal(all[i])
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	if err := s.dir.Replace(s.name, fmt.Appendf(text, "end %d\n", len(all))); err != nil {
		return err
	}
	s.saved.Store(version)
	return nil
}
