package destination

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// A history is the changes of a queue that led to its copy, as the Source listed them, with
// [Options].History. A Source made of the copy publishes them, and followers of the
// original go on with it. Parts are files of the state: members in gzip with an entry a
// line, without links. The oldest part goes when there are too many.
type history struct {
	Bases []string      `json:"bases"` // base URIs of the Source, the last one of now
	Parts []historyPart `json:"parts"` // one at least; changes are added to the last one
	buf   []byte        // entries not yet in its file
}

type historyPart struct {
	File   string    `json:"file"`
	From   time.Time `json:"from"`            // it has all changes after it
	First  uint64    `json:"first,omitempty"` // event; 0 without any
	Last   uint64    `json:"last,omitempty"`
	Octets int64     `json:"octets,omitempty"` // of the file
}

// Limits of a history.
const (
	partOctets  = 16 << 20
	mostParts   = 16
	bufOctets   = 1 << 20
	earlyLists  = 4 // closed lists of before the baseline
	historyFile = "changes-"
)

// newHistory begins at a cursor.
func newHistory(base string, from time.Time) *history {
	h := &history{Bases: []string{base}}
	h.begin(from)
	return h
}

// begin begins a part. Its name was never that of another one: a state on disk may still
// speak of it.
func (h *history) begin(from time.Time) {
	h.Parts = append(h.Parts, historyPart{File: fmt.Sprintf("%s%016x", historyFile, rand.Uint64()), From: from})
}

func (h *history) last() *historyPart { return &h.Parts[len(h.Parts)-1] }

// events returns the first and the last event, 0 without any.
func (h *history) events() (first, last uint64) {
	for i := range h.Parts {
		if p := &h.Parts[i]; p.First > 0 {
			if first == 0 {
				first = p.First
			}
			last = p.Last
		}
	}
	return first, last
}

// remembers reports whether this run keeps the changes of the sets: it has all of them.
func (c *Copy) remembers() bool {
	return c.o.History && !c.o.DryRun && !c.filtered()
}

// remember adds the changes up to an event to the history of a set. c.mu is held.
func (c *Copy) remember(s *setState, entries []sitemap.Entry, upTo uint64) {
	if s.History == nil {
		return
	}
	_, last := s.History.events()
	for i := range entries {
		e := &entries[i]
		if e.Seq == 0 || !c.remembers() { // the Source counts no events, or there are others
			s.History = nil
			return
		}
		if e.Seq > upTo {
			return
		}
		if e.Seq > last {
			s.History.add(e)
		}
	}
	if len(s.History.buf) > bufOctets {
		c.writeHistory(s)
	}
}

// add adds an entry, without its links.
func (h *history) add(e *sitemap.Entry) {
	bare := *e
	bare.Links = nil
	h.buf = sitemap.AppendEntry(h.buf, sitemap.URLSet, &bare)
	p := h.last()
	if p.First == 0 {
		p.First = e.Seq
	}
	p.Last = e.Seq
}

// writeHistory puts gathered entries into the file. Without it the history begins anew:
// the copy is whole without. c.mu is held.
func (c *Copy) writeHistory(s *setState) {
	h := s.History
	if h == nil || len(h.buf) == 0 {
		return
	}
	p := h.last()
	var z bytes.Buffer
	w, err := gzip.NewWriterLevel(&z, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(h.buf)
		err = errors.Join(err, w.Close())
	}
	if err == nil {
		err = c.dir.AppendState(p.File, p.Octets, z.Bytes())
	}
	if err != nil {
		c.o.Tell(fmt.Sprintf("%s: its history of changes begins anew: %v", s.URI, err))
		s.History = newHistory(c.state.Base, s.Cursor.Time)
		return
	}
	h.buf = h.buf[:0]
	p.Octets += int64(z.Len())
}

// writeHistories puts the entries of all sets into their files. c.mu is held.
func (c *Copy) writeHistories() {
	for _, s := range c.state.Sets {
		c.writeHistory(s)
		if h := s.History; h != nil && h.last().Octets > partOctets {
			h.begin(s.Cursor.Time)
			h.Parts = h.Parts[max(0, len(h.Parts)-mostParts):]
		}
	}
}

// sweepHistories removes files of histories of before, after the state was written.
func (c *Copy) sweepHistories() error {
	c.mu.Lock()
	used := map[string]bool{}
	for _, s := range c.state.Sets {
		if s.History != nil {
			for i := range s.History.Parts {
				used[s.History.Parts[i].File] = true
			}
		}
	}
	c.mu.Unlock()
	return c.dir.Sweep(historyFile, func(name string) bool { return used[name] })
}

// beginHistory begins the history of a set with its baseline, and takes in the changes
// that the newest lists have from before it: a follower may be behind this copy.
func (c *Copy) beginHistory(ctx context.Context, set *source.Set, s *setState) error {
	if !c.remembers() || !set.IsQueue() || set.Documents[sitemap.ChangeList] == "" {
		return nil
	}
	at := s.Cursor.Time
	begin := func(from time.Time) {
		c.mu.Lock()
		s.History = newHistory(c.source.Base, from)
		c.mu.Unlock()
	}
	begin(at)
	from, err := set.Reach(ctx, earlyLists)
	if err == nil && !from.IsZero() && from.Before(at) {
		begin(from)
		err = set.Changes(ctx, source.Cursor{Time: from}, 0, func(b source.Batch) error {
			n := 0
			for n < len(b.Entries) && !b.Entries[n].Changed().After(at) {
				n++
			}
			if n > 0 {
				c.mu.Lock()
				c.remember(s, b.Entries[:n], b.Entries[n-1].Seq)
				c.mu.Unlock()
			}
			if n < len(b.Entries) {
				return io.EOF // the others follow the baseline
			}
			return nil
		})
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && err != io.EOF {
		c.o.Tell(fmt.Sprintf("set %s: changes from before the baseline: %v", set.Name, err))
		begin(at)
	}
	if s.History == nil { // the early changes have no numbers
		begin(at)
	}
	return nil
}

// A History is the changes that led to a copy, oldest first.
type History struct {
	Base  string    // base URI of the Source; all entries are below it
	From  time.Time // it has all changes after it
	First uint64    // event; 0 without any
	Last  uint64

	bases []string
	dir   *local.Dir
	parts []historyPart
}

// ErrNoHistory says that a copy has no changes of a set, or not all up to its state.
var ErrNoHistory = errors.New("the copy has no changes of the Source")

// OpenHistory returns the changes of a set of a copy, up to the event that Standings tells.
func OpenHistory(dir, set string) (*History, error) {
	s, err := readState(dir, true)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	of := s.Sets[set]
	if of == nil || of.History == nil || len(of.History.Parts) == 0 {
		return nil, ErrNoHistory
	}
	first, last := of.History.events()
	if first == 0 || last != of.Cursor.Seq {
		return nil, fmt.Errorf("%w up to event %d: they end with event %d", ErrNoHistory, of.Cursor.Seq, last)
	}
	bases := slices.Clone(of.History.Bases)
	slices.SortFunc(bases, func(a, b string) int { return len(b) - len(a) }) // one may begin another
	h := &History{Base: s.Base, From: of.History.Parts[0].From, First: first, Last: last, bases: bases, parts: of.History.Parts}
	h.dir, err = local.Look(dir, s.Base)
	return h, err
}

// Read gives all entries to do. Each was verified to be of the set and in order; a damaged
// file is noticed at its end.
func (h *History) Read(do func(e *sitemap.Entry) error) error {
	last := h.First - 1
	for i := range h.parts {
		if p := &h.parts[i]; p.Octets > 0 {
			if err := h.read(p, &last, do); err != nil {
				return fmt.Errorf("%s/%s: %w", local.Own, p.File, err)
			}
		}
	}
	if last != h.Last {
		return fmt.Errorf("%w up to event %d: they end with event %d", ErrNoHistory, h.Last, last)
	}
	return nil
}

func (h *History) read(p *historyPart, last *uint64, do func(e *sitemap.Entry) error) error {
	f, err := h.dir.OpenState(p.File)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(io.NewSectionReader(f, 0, p.Octets))
	if err != nil {
		return err
	}
	for lines := sitemap.NewLines(z); ; {
		e, err := lines.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Seq < max(*last, p.First) || e.Seq > p.Last || e.Changed().IsZero() {
			return fmt.Errorf("event %d comes after event %d", e.Seq, *last)
		}
		*last = e.Seq
		if e.Loc, err = h.now(e.Loc); err != nil {
			return err
		}
		if err := do(&e); err != nil {
			return err
		}
	}
}

// now returns the URI that a resource has now: the base of the Source may have been
// another one.
func (h *History) now(uri string) (string, error) {
	for _, base := range h.bases {
		if rest, ok := strings.CutPrefix(uri, base); ok {
			return h.Base + rest, nil
		}
	}
	return "", fmt.Errorf("%.200s is not below %s", uri, h.Base)
}

// Close lets go of the copy.
func (h *History) Close() error { return h.dir.Close() }

// A Deviation is how a file of a copy is not as the last change of its resource says.
type Deviation int

const (
	Unproved Deviation = iota // the copy has no change of it
	Removed                   // it should be gone
	Changed                   // it should have other contents
)

// A lastChange is what the last change of a resource says of its file.
type lastChange struct {
	length int64 // -1: it is gone
	sum    string
}

// Deviations compares the files below a directory for which of returns true with the last
// changes of their resources, by digest, without asking the Source. It needs about 150 bytes
// a resource. With damaged changes the error is [ErrNoHistory].
func (h *History) Deviations(ctx context.Context, below string, of func(file string) bool, do func(file string, d Deviation) error) error {
	last := map[uint64]lastChange{}
	err := h.Read(func(e *sitemap.Entry) error {
		file, err := h.dir.Path(e.Loc)
		if err != nil || !of(file) {
			return ctx.Err() // a resource without a path is not in the copy
		}
		c := lastChange{length: -1}
		for _, x := range e.Hashes {
			if sum, err := hex.DecodeString(x.Value); e.Change != sitemap.Deleted && x.Alg == "sha-256" && err == nil {
				c = lastChange{e.Length, string(sum)}
			}
		}
		last[maphash.String(seed, file)] = c
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrNoHistory, err)
	}
	if err != nil {
		return err
	}
	return h.dir.Walk(below, func(file string) error {
		if err := ctx.Err(); err != nil || !of(file) {
			return err
		}
		c, known := last[maphash.String(seed, file)]
		switch {
		case !known:
			return do(file, Unproved)
		case c.length < 0:
			return do(file, Removed)
		}
		want := sitemap.Entry{Length: c.length, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: hex.EncodeToString([]byte(c.sum))}}}
		if m, _, err := h.dir.Compare(file, &want, true); err != nil || m == local.Same {
			return err
		}
		return do(file, Changed)
	})
}
