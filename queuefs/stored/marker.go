package stored

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// markerName is the file of a marker.
const markerName = "cutie-store"

// A marker says of which journal a directory is a cache.
type marker struct {
	dir     *durable.Dir
	id      string // names the directory
	journal string // "": none yet
	was     uint64 // the claim in the file when it was read
	whole   bool   // the file says that the directory was whole

	mu      sync.Mutex
	claim   uint64 // of its last process; 0: it was a standby, or the directory is not whole
	written bool   // by this process, with its claim
}

// own sets the claim for the next call of synced. mu guards both while the home is open.
func (m *marker) own(claim uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claim, m.written = claim, false
}

// synced writes the marker, unless it is written.
func (m *marker) synced() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.written {
		return nil
	}
	return m.write()
}

func file(dir *durable.Dir) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: markerName, Kind: "cache of a store", Max: 1 << 16}
}

// Refuse returns [ErrStored] if the directory of a home is the cache of a store.
func Refuse(dir *durable.Dir) error {
	if _, err := dir.Stat(markerName); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", dir.Path(), ErrStored)
}

// readMarker reads the marker, or makes the first one of an unused home. For a home of
// its own the error is [ErrUnstored].
func readMarker(dir *durable.Dir) (*marker, error) {
	m := &marker{dir: dir}
	switch err := m.read(); {
	case errors.Is(err, durable.ErrDamaged):
		// Of a cache nothing is lost.
	case errors.Is(err, fs.ErrNotExist):
		if err := unused(dir); err != nil {
			return nil, err
		}
	default:
		return m, err
	}
	m.id = rand.Text()
	return m, m.writeAs(0)
}

// read reads the file.
func (m *marker) read() error {
	text, err := file(m.dir).Read()
	if err != nil {
		return err
	}
	r, err := anvl.ParseRecord(text)
	if err != nil {
		return fmt.Errorf("%s: %w", markerName, err)
	}
	m.id, m.journal, m.whole = r.Value("directory"), r.Value("journal"), r.Value("whole") == "true"
	m.claim, err = strconv.ParseUint(r.Value("claim"), 10, 64)
	m.was = m.claim
	return err
}

// write says that the directory is whole.
func (m *marker) write() error {
	m.whole = true
	err := m.writeAs(m.claim)
	m.written = err == nil
	return err
}

func (m *marker) writeAs(claim uint64) error {
	return file(m.dir).Write(anvl.AppendRecord(nil, anvl.Record{{Name: "directory", Value: m.id}, {Name: "journal", Value: m.journal},
		{Name: "claim", Value: strconv.FormatUint(claim, 10)}, {Name: "whole", Value: strconv.FormatBool(m.whole)}}))
}

// settled reports whether the file says that the directory is whole.
func (m *marker) settled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written
}

// unused returns [ErrUnstored] if the home has queues or a journal.
func unused(dir *durable.Dir) error {
	used := false
	if _, err := dir.Stat(home.ListName); err == nil {
		used = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, path := range [][]string{{home.LogDir, home.JournalDir}, {home.QueuesDir}} {
		d, err := dir, error(nil)
		for _, name := range path {
			from := d
			d, err = from.Sub(name)
			if from != dir {
				from.Close()
			}
			if err != nil {
				break
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = d.Names(func(name string) { used = used || name != home.LostFound })
			d.Close()
		}
		if err != nil {
			return err
		}
	}
	if used {
		return fmt.Errorf("%s: %w", dir.Path(), ErrUnstored)
	}
	return nil
}
