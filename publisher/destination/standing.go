package destination

import (
	"cutie/publisher/destination/local"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// A Standing is how far the copy of a set is.
type Standing struct {
	Name     string
	URI      string // of the Capability List
	Baseline bool   // all resources were copied once
	Until    time.Time
	Event    uint64    // number of the last event known; 0 where the Source counts none
	Reached  uint64    // the last event up to which all files are there; Event without any in transit
	Synced   time.Time // when the copy last equalled the Source
	Transit  int       // resources without a file, not even a former one
	Changing []Changing
	Held     []string // files whose deletion waits for resources in transit, with slashes
}

// A Changing is a resource in transit: its file is a former one, or missing.
type Changing struct {
	File string    // path in the copy, with slashes
	Time time.Time // of the last change seen
}

// Standings returns the base URI of the Source of a copy, and how far each set is, without
// asking the Source. Without a copy the error is [ErrNoCopy], after a promotion
// [ErrPromoted].
func Standings(dir string) (base string, all []Standing, err error) {
	s, err := readState(dir, true)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", dir, err)
	}
	d, err := local.Open(dir, s.Base, false)
	if err != nil {
		return "", nil, err
	}
	defer d.Close()
	for name, set := range s.Sets {
		all = append(all, set.standing(name, d))
	}
	slices.SortFunc(all, func(a, b Standing) int { return strings.Compare(a.Name, b.Name) })
	return s.Base, all, nil
}

func (s *setState) standing(name string, d *local.Dir) Standing {
	at := Standing{Name: name, URI: s.URI, Baseline: s.Baseline, Until: s.Cursor.Time, Event: s.Cursor.Seq, Reached: s.Cursor.Seq, Synced: s.Synced}
	moved := map[string]bool{} // another file stands for a resource that was moved at the Source
	for _, h := range s.Held {
		for i := range h.Entries {
			if file, err := d.Path(h.Entries[i].Loc); err == nil {
				at.Held = append(at.Held, file)
			}
		}
		for _, uri := range h.After {
			moved[uri] = moved[uri] || len(h.Entries) > 0
		}
	}
	for i := range s.Transit {
		e := &s.Transit[i].Entry
		at.Reached = min(at.Reached, max(e.Seq, 1)-1)
		m := local.Missing
		file, err := d.Path(e.Loc)
		if err == nil {
			at.Changing = append(at.Changing, Changing{file, e.Changed()})
			m, _, err = d.Compare(file, nil, false)
		}
		if (err != nil || m == local.Missing) && !moved[e.Loc] {
			at.Transit++
		}
	}
	return at
}

// ErrPromoted is the error of a copy promoted to a home.
var ErrPromoted = errors.New("the copy was promoted, and follows no Source any more")

// A Promotion is the contents of promoted.json.
type Promotion struct {
	Source string               `json:"source"`
	Time   time.Time            `json:"time"`
	Events map[string]uint64    `json:"events"` // the last one seen of each queue
	Until  map[string]time.Time `json:"until"`
	Done   bool                 `json:"done"` // false: begun, and perhaps cut off
}

const promotedFile = "promoted.json"

// Promote notes the promotion of a copy, its begin and its end: from the begin on the
// copy is not synced any more, and after the end not promoted. The home then has the
// history.
func Promote(dir string, p Promotion) error {
	d, err := local.Open(dir, p.Source, false)
	if err != nil {
		return err
	}
	err = d.WriteState(promotedFile, &p)
	if err == nil && p.Done {
		err = d.Sweep(historyFile, nil)
	}
	return errors.Join(err, d.Close())
}

// Settle makes the deletions waiting for files in transit, and returns these files: a
// copy is then as its Source was at the cursor of each set, except for them. Nobody may
// have the copy open.
func Settle(dir string) (missing []string, err error) {
	s, err := readState(dir, true)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	d, err := local.Open(dir, s.Base, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, set := range s.Sets {
		for _, h := range set.Held {
			for i := range h.Entries {
				file, err := d.Path(h.Entries[i].Loc)
				if err == nil {
					err = d.Remove(file)
				}
				if err != nil {
					return nil, err
				}
			}
		}
		set.Held = nil
		for _, t := range set.Transit {
			missing = append(missing, t.Entry.Loc)
		}
	}
	if err = d.Sync(); err == nil {
		err = d.WriteState(stateFile, &s)
	}
	return missing, err
}

// Promoting reports whether a promotion of the copy was begun. It may have changed files.
func Promoting(dir string) (bool, error) {
	d, err := local.Look(dir, "http://none/")
	if err != nil {
		return false, err
	}
	var p Promotion
	err = d.ReadState(promotedFile, &p)
	if begun := err == nil; begun || !errors.Is(err, fs.ErrNotExist) {
		return begun, errors.Join(err, d.Close())
	}
	return false, d.Close()
}
