package set

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/sitemap"
)

// removedFile has a line for each removed queue: its identifier and the time. The
// last line of a queue counts. It is never synced: after a crash of the machine a
// queue is unknown again, and no more is lost.
const removedFile = "cutie-removed"

// maxRemoved bounds the lines kept when the file is read; the oldest go.
const maxRemoved = 10_000

// Removed are the queues that were removed. It is safe for concurrent use.
type Removed struct {
	store *Store

	mu sync.Mutex
	at map[string]time.Time
}

// Removed reads the file. Anything else in its place is as good as none.
func (s *Store) Removed() *Removed {
	r := &Removed{store: s, at: make(map[string]time.Time)}
	data, _ := s.Root().ReadFile(removedFile, nil, maxFile)
	lines := slices.Collect(strings.Lines(string(data)))
	for _, line := range lines[max(0, len(lines)-maxRemoved):] {
		id, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if at, err := sitemap.ParseTime(text); err == nil && strings.HasSuffix(line, "\n") {
			r.at[id] = at
		}
	}
	if len(lines) > 2*maxRemoved {
		r.shorten()
	}
	return r
}

// shorten forgets the oldest removals, and writes the file anew. If that fails, it
// stays long.
func (r *Removed) shorten() {
	ids := slices.SortedFunc(maps.Keys(r.at), func(a, b string) int { return r.at[b].Compare(r.at[a]) })
	for _, id := range ids[min(len(ids), maxRemoved):] {
		delete(r.at, id)
	}
	out, err := r.store.Temp()
	if err != nil {
		return
	}
	defer out.Discard()
	for id, at := range r.at {
		if _, err := out.Write(removedLine(id, at)); err != nil {
			return
		}
	}
	out.Commit(r.store.Root(), removedFile)
}

func removedLine(id string, at time.Time) []byte {
	return append(sitemap.AppendTime(fmt.Appendf(nil, "%s ", id), at), '\n')
}

// Add notes that a queue was removed.
func (r *Removed) Add(id string, at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at[id] = at; len(r.at) > 2*maxRemoved {
		r.shorten()
		return nil
	}
	f, err := r.store.Root().Append(removedFile)
	if err != nil {
		return err
	}
	_, err = f.Write(removedLine(id, at))
	return errors.Join(err, f.Close())
}

// At returns when a queue was removed, and whether one was. There may be another
// one of the name by now.
func (r *Removed) At(id string) (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok = r.at[id]
	return at, ok
}
