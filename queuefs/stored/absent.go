package stored

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"cutie/queuefs/durable"
	"cutie/queuefs/image"
)

// absentName is the file with the absent pages, sealed: a line "QUEUE PAGE" for each.
const absentName = "cutie-absent"

func absentFile(dir *durable.Dir) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: absentName, Kind: "absent pages", Max: 64 << 20}
}

// Absent are the pages of the index with jobs without files in the directory: they are in
// the image alone. It is safe for concurrent use; nil has no page.
type Absent struct {
	dir *durable.Dir

	mu      sync.Mutex
	pages   map[page]standing
	changed bool // since it was written
}

type page struct {
	queue  string
	number int
}

// A standing is how far the files of a page are.
type standing int

const (
	away   standing = iota
	here            // written, unsynced
	synced          // to be left out of the file
)

// newAbsent has all pages of an image, nil for none.
func newAbsent(dir *durable.Dir, m *image.Manifest) *Absent {
	a := &Absent{dir: dir, pages: map[page]standing{}}
	if m != nil {
		for _, g := range m.Pages {
			a.pages[page{g.Queue, g.Number}] = away
		}
	}
	a.changed = len(a.pages) > 0
	return a
}

func readAbsent(dir *durable.Dir) (*Absent, error) {
	a := newAbsent(dir, nil)
	text, err := absentFile(dir).Read()
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	for line := range strings.Lines(string(text)) {
		var p page
		if _, err := fmt.Sscanf(line, "%s %d", &p.queue, &p.number); err != nil {
			return nil, fmt.Errorf("%s: %w", absentName, durable.ErrDamaged)
		}
		a.pages[p] = away
	}
	return a, err
}

// lacks reports whether a directory has absent pages, as far as it knows.
func lacks(dir *durable.Dir) bool {
	a, err := readAbsent(dir)
	return err != nil || a.Len() > 0
}

// Has reports whether a page is absent.
func (a *Absent) Has(queue string, number int) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	st, ok := a.pages[page{queue, number}]
	return ok && st == away
}

// Brought notes the files of a page in the directory, unsynced.
func (a *Absent) Brought(queue string, number int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := page{queue, number}
	if st, ok := a.pages[p]; ok && st == away {
		a.pages[p] = here
	}
}

// All yields the absent pages.
func (a *Absent) All() iter.Seq2[string, int] {
	var all []page
	if a != nil {
		a.mu.Lock()
		for p, st := range a.pages {
			if st == away {
				all = append(all, p)
			}
		}
		a.mu.Unlock()
	}
	slices.SortFunc(all, comparePages)
	return func(yield func(string, int) bool) {
		for _, p := range all {
			if !yield(p.queue, p.number) {
				return
			}
		}
	}
}

// Len returns how many pages are absent.
func (a *Absent) Len() (n int) {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, st := range a.pages {
		if st == away {
			n++
		}
	}
	return n
}

// none reports whether all pages are in the directory, and its file says so.
func (a *Absent) none() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.pages) == 0 && !a.changed
}

func comparePages(a, b page) int {
	return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.number, b.number))
}

// syncing is called before the directory is synced.
func (a *Absent) syncing() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, st := range a.pages {
		if st == here {
			a.pages[p], a.changed = synced, true
		}
	}
}

// write writes the file, if it has to change.
func (a *Absent) write() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.changed {
		return nil
	}
	maps.DeleteFunc(a.pages, func(_ page, st standing) bool { return st == synced })
	var err error
	if len(a.pages) == 0 {
		if err = a.dir.Remove(absentName); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		var text []byte
		for _, p := range slices.SortedFunc(maps.Keys(a.pages), comparePages) {
			text = fmt.Appendf(text, "%s %d\n", p.queue, p.number)
		}
		err = absentFile(a.dir).Write(text)
	}
	a.changed = err != nil
	return err
}
