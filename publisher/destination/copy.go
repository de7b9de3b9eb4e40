// Package destination keeps copies of ResourceSync Sources, and proves them
// (ANSI/NISO Z39.99-2017, 5.2): the baseline, the changes after it, and the audit. It takes
// any Source, of version 1.1 or before, and plain Sitemaps.
//
// A [Copy] is a directory with a file for each resource; package local says where.
// [Copy.Sync] brings it up to the Source and [Copy.Follow] keeps it there; [Copy.Audit]
// compares both.
//
// # Promises
//
// A file has its name only when length and digests are the ones given by the Source.
// Nothing is fetched twice, and an interruption costs no more than the answers on their
// way: one to a connection, and less than one in a hundred of those before. The state in
// .cutie-sync is written after the files are on stable storage, so that it never promises
// more than there is.
//
// Changes of all lists are known before the first of them is applied: nothing is fetched
// that a later one replaces. Many of them come by packages of the Change Dump, where these
// have fewer octets than the answers to single requests.
//
// Each change is applied once, also where many have the same second or day. Where a list gets
// a change with an older time than others that were applied before, whole lists are compared.
//
// What cannot be read of a Source is named and passed over, be it an entry, a list or a set, and
// all else is copied. Then no file goes for being in no list, and the next run reads it again.
//
// A file of 1 MiB or more, and a package with a digest, go on where they were cut off. A run
// that is cut off within changes keeps the cursor up to where all files are there.
//
// With [Options].History the copy of a queue of a daemon has the changes that led to it, too.
// They and the cursor are one state, so that [OpenHistory] has all changes up to the cursor.
//
// A resource that is gone, or another, when it is asked for is in transit: a change to
// come explains it. Only if none does, it counts as failed.
package destination

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// Deletions chooses the files to remove.
type Deletions string

// The kinds of deletions.
const (
	DeleteTold  Deletions = "told" // resources whose deletion the Source tells, or no longer tells; the default
	DeleteAll   Deletions = "all"  // and files without an entry in a list
	DeleteNever Deletions = "never"
)

// By says how a baseline is made.
type By string

// The ways to make a baseline.
const (
	ByBest By = ""     // by packages for an empty directory, if there are any; else by list
	ByList By = "list" // by Resource List, and a request for each resource
	ByDump By = "dump" // by the packages of the Resource Dump
)

// Options are the settings of a copy.
type Options struct {
	URL     string // of the Source, or of a document or page of it; "" for the one of before
	Dir     string
	Sets    []string // names or URIs of Capability Lists; none: the ones of before, else all
	By      By
	Delete  Deletions
	Include []string // patterns of URIs to copy, see [path.Match]; * takes slashes, too; none: all
	Exclude []string // patterns of URIs to leave out
	Again   bool     // make the baseline again: look at all resources, fetch different ones
	Deep    bool     // for Sync: compare digests of files whose length and time are right
	Quick   bool     // for Audit: compare length and time alone, and no digests
	DryRun  bool     // count, and do nothing
	Look    bool     // for Audit, also while another process follows the Source
	HTTP    source.Options

	// History keeps the changes of the queues of a daemon, for [OpenHistory]; a run with
	// patterns ends it.
	History bool

	// MaxResource is how many octets a resource may have whose length no list says; 0:
	// DefaultMaxResource. MaxFiles is how many files a package may have; 0:
	// [source.MaxPackageFiles].
	MaxResource int64
	MaxFiles    int

	// Settle is the first pause before the changes are read again for resources in
	// transit; the next ones are twice as long each. 0: 100 ms; below 0: Sync reads
	// the changes once, and leaves the rest to Explain.
	Settle time.Duration

	// Tell gets each thing worth a line, such as a resource refused or failed. It may be
	// called from several goroutines.
	Tell func(text string)
}

// DefaultMaxResource is the limit of a resource without a length in a list.
const DefaultMaxResource = 4 << 30

// Errors of a copy.
var (
	ErrNoCopy = errors.New("no copy of a Source is there")
	ErrOther  = errors.New("the directory has a copy of another Source")

	ErrTooLarge = errors.New("the resource is too large") // see [Options]
)

// A Copy is an open directory with the copy of a Source.
type Copy struct {
	o      Options
	client *source.Client
	source *source.Source
	dir    *local.Dir
	sets   []*source.Set
	closed []error // of sets that could not be opened
	counts Counts
	empty  string // directory of a dry run, to be removed

	mu     sync.Mutex
	state  state
	named  map[string]bool // what was skipped in this run
	pushed chan struct{}   // closed by the next Wake; nil: nobody calls it

	// Of Sync, which works on one set at a time. A pass is over a list or a package.
	listed          map[uint64]uint64 // by hash of its path, the last pass that had a resource; nil: nobody asks
	pass, firstPass uint64            // of now, and of these lists
	allListed       bool              // this run reads the lists of all resources
}

// Counts are the work of a run so far. They may be read at any time.
type Counts struct {
	Same, Fetched, Deleted, Refused, Failed atomic.Int64
	Skipped                                 atomic.Int64 // times that something of the Source was passed over
	Stored                                  atomic.Int64 // octets of the files made
	Held                                    atomic.Int64 // octets of the files that were there
	Total                                   atomic.Int64 // octets of the packages of a baseline
}

// A state is the contents of state.json.
type state struct {
	Version int                  `json:"version"`
	URL     string               `json:"url"`
	Base    string               `json:"base"`
	Site    string               `json:"site,omitempty"`   // origin of its documents
	Boot    string               `json:"boot,omitempty"`   // of the system, while a run writes files
	Chosen  []string             `json:"chosen,omitempty"` // sets named by a run; none: all
	Gap     bool                 `json:"gap,omitempty"`    // changes are lost, and deletions with them, until all lists were compared
	Sets    map[string]*setState `json:"sets"`
}

// A setState is how far the copy of a set is.
type setState struct {
	URI      string        `json:"uri"` // of the Capability List
	Baseline bool          `json:"baseline"`
	Began    time.Time     `json:"began,omitzero"` // of lists that a baseline not yet whole was made of; the first ones
	Cursor   source.Cursor `json:"cursor"`
	Synced   time.Time     `json:"synced,omitzero"`   // when it last equalled the Source
	Partial  bool          `json:"partial,omitempty"` // something of the lists of the baseline was passed over: they are read again
	Packages []string      `json:"packages,omitempty"`
	Transit  []transit     `json:"transit,omitempty"`
	Held     []held        `json:"held,omitempty"`
	History  *history      `json:"history,omitempty"`
}

// A transit is a resource without its file; a change to come should say why.
type transit struct {
	Entry sitemap.Entry `json:"entry"`
	Why   string        `json:"why"`
}

// Held are deletions that wait until resources of the same batch are there, or are
// explained. A file moved at the Source is a deletion and a creation: so a copy whose
// Source is lost in between has the file once.
type held struct {
	After   []string        `json:"after"` // URIs
	Entries []sitemap.Entry `json:"entries"`
}

const stateVersion = 1

// Open finds the Source and opens the directory.
func Open(ctx context.Context, o Options) (c *Copy, err error) {
	switch o.Delete {
	case "":
		o.Delete = DeleteTold
	case DeleteTold, DeleteAll, DeleteNever:
	default:
		return nil, fmt.Errorf("deletions %q: told, all, or never", o.Delete)
	}
	for _, p := range slices.Concat(o.Include, o.Exclude) {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("pattern %q: %w", p, err)
		}
	}
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	c = &Copy{o: o}
	old, err := readState(o.Dir, false)
	if err != nil && !errors.Is(err, ErrNoCopy) {
		return nil, err
	}
	if o.URL = cmp.Or(o.URL, old.URL); o.URL == "" {
		return nil, fmt.Errorf("%s: %w", o.Dir, ErrNoCopy)
	}
	if len(o.Sets) == 0 {
		o.Sets = old.Chosen
	}
	o.Settle = cmp.Or(o.Settle, 100*time.Millisecond)
	o.MaxResource = cmp.Or(o.MaxResource, DefaultMaxResource)
	o.HTTP.Origin = source.OriginOf(o.URL)
	c.o, c.client = o, source.NewClient(o.HTTP)
	if err := c.find(ctx); err != nil {
		return nil, err
	}
	for _, list := range c.source.Left {
		o.Tell(fmt.Sprintf("%s belongs to no set of the Source, and is not copied; its own URL copies it", list))
	}
	relocated := c.relocate(&old)
	moved := old.Base != "" && old.Base != c.source.Base
	for i, name := range c.o.Sets {
		if rest, ok := strings.CutPrefix(name, old.Base); moved && ok {
			c.o.Sets[i] = c.source.Base + rest
		}
	}
	if err := c.choose(ctx); err != nil {
		return nil, err
	}
	switch {
	case relocated:
		if moved, err = c.followed(ctx); err != nil {
			return nil, err
		}
		if !moved { // documents alone
			c.source.Base = old.Base
			if err := c.choose(ctx); err != nil {
				return nil, err
			}
		}
	case moved:
		if err := c.succeed(ctx, &old); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Dir, err)
		}
	}
	if old.URL == "" && len(o.HTTP.Header) > 0 && !o.DryRun {
		if err := c.private(); err != nil {
			return nil, err
		}
	}
	if err := c.openDir(); err != nil {
		return nil, err
	}
	c.state = state{Version: stateVersion, URL: o.URL, Base: c.source.Base, Sets: map[string]*setState{}}
	if err := c.dir.ReadState(stateFile, &c.state); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, c.Close())
	}
	c.state.Chosen, c.state.Site = o.Sets, c.source.Site
	if relocated && moved {
		o.Tell(fmt.Sprintf("the Source has moved from %s to %s, and is followed there; its files keep their places", old.Base, c.source.Base))
	} else if moved {
		o.Tell(fmt.Sprintf("%s is the successor of %s, and is followed from where that one ended", c.source.Base, old.Base))
	}
	if moved {
		c.state.moveTo(c.source.Base)
		c.state.URL = o.URL
	}
	return c, nil
}

// private makes the directory of a Source that wants credentials, for its owner alone. One
// that is there keeps its mode.
func (c *Copy) private() error {
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(c.o.Dir)), 0o777); err != nil {
		return err
	}
	err := os.Mkdir(c.o.Dir, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Stat(c.o.Dir); err == nil && info.Mode().Perm()&0o077 != 0 {
		c.o.Tell(fmt.Sprintf("%s is an existing directory of mode %04o: others can read what the Source gives only with your credentials; chmod 700 keeps them out", c.o.Dir, info.Mode().Perm()))
	}
	return nil
}

// openDir opens the directory. A dry run without one takes an empty one of its own.
func (c *Copy) openDir() (err error) {
	if c.o.Look {
		c.dir, err = local.Look(c.o.Dir, c.source.Base)
		return err
	}
	c.dir, err = local.Open(c.o.Dir, c.source.Base, !c.o.DryRun)
	if !c.o.DryRun || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c.empty, err = os.MkdirTemp("", "cutie-sync-"); err != nil {
		return err
	}
	c.dir, err = local.Open(c.empty, c.source.Base, true)
	if err != nil {
		os.RemoveAll(c.empty)
	}
	return err
}

// choose opens the sets to copy.
func (c *Copy) choose(ctx context.Context) error {
	lists, err := c.source.Choose(c.o.Sets)
	if err != nil {
		return err
	}
	if len(c.o.Sets) == 0 {
		lists = withoutParts(c.source, lists)
	}
	var sets []*source.Set
	var closed []error
	for _, list := range lists {
		set, err := c.source.Open(ctx, list)
		if err == nil {
			sets = append(sets, set)
			continue
		}
		if ctx.Err() != nil {
			return err
		}
		closed = append(closed, fmt.Errorf("set %s: %w", c.source.Name(list), err))
	}
	if len(sets) == 0 && len(closed) > 0 {
		return errors.Join(closed[:min(len(closed), maxNamed)]...)
	}
	if len(sets) == 0 {
		return fmt.Errorf("%s: the Source has no sets", c.o.URL)
	}
	c.sets, c.closed = sets, closed
	return nil
}

const stateFile = "state.json"

// withoutParts leaves out sets named Q/pending beside Q/replica: a daemon of ours publishes
// the resources of the former in the latter, too.
func withoutParts(s *source.Source, lists []string) []string {
	names := map[string]bool{}
	for _, l := range lists {
		names[s.Name(l)] = true
	}
	return slices.DeleteFunc(slices.Clone(lists), func(l string) bool {
		queue, ok := strings.CutSuffix(s.Name(l), "/pending")
		return ok && names[queue+"/replica"]
	})
}

// readState reads the state of a directory and closes it again.
func readState(dir string, promoting bool) (s state, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return s, ErrNoCopy
	}
	d, err := local.Look(dir, "http://none/")
	if errors.Is(err, fs.ErrNotExist) {
		return s, ErrNoCopy
	}
	if err != nil {
		return s, err
	}
	defer d.Close()
	var p Promotion
	if err := d.ReadState(promotedFile, &p); err == nil && (p.Done || !promoting) {
		return s, fmt.Errorf("%w: %s", ErrPromoted, p.Time.Format(time.RFC3339))
	}
	if err = d.ReadState(stateFile, &s); errors.Is(err, fs.ErrNotExist) {
		return s, ErrNoCopy
	}
	if err == nil && s.Version > stateVersion {
		err = fmt.Errorf("%s: state of version %d, of a later program", dir, s.Version)
	}
	return s, err
}

// Close lets go of the directory.
func (c *Copy) Close() error {
	err := c.dir.Close()
	if c.empty != "" {
		err = errors.Join(err, os.RemoveAll(c.empty))
	}
	return err
}

// HTTP returns a client with the settings of the copy's requests.
func (c *Copy) HTTP() *http.Client { return c.client.HTTP() }

// Counts returns the work done so far.
func (c *Copy) Counts() *Counts { return &c.counts }

// of returns the state of a set; c.mu is held, or nobody works.
func (c *Copy) of(set *source.Set) *setState {
	s := c.state.Sets[set.Name]
	if s == nil || s.URI != set.URI {
		s = &setState{URI: set.URI}
		c.state.Sets[set.Name] = s
	}
	return s
}

// save puts files and then the state on stable storage.
func (c *Copy) save() error {
	if c.o.DryRun {
		return nil
	}
	// What the state says now is in the files before it is written.
	text, err := c.stateText()
	if err == nil {
		err = c.dir.Sync()
	}
	if err != nil {
		return err
	}
	return c.dir.WriteState(stateFile, text)
}

// note writes the state alone: it says no more of files than before.
func (c *Copy) note() error {
	text, err := c.stateText()
	if err != nil {
		return err
	}
	return c.dir.WriteState(stateFile, text)
}

// stateText returns the state of now, to be written without the lock. The files of
// histories are then as it says.
func (c *Copy) stateText() (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeHistories()
	return json.Marshal(&c.state)
}

// whole reports whether the sets of this run are all sets of the copy: only then files
// without an entry in a list belong to nobody.
func (c *Copy) whole() bool {
	if len(c.closed) > 0 {
		return false
	}
	for name, s := range c.state.Sets {
		if s.Baseline && !slices.ContainsFunc(c.sets, func(set *source.Set) bool { return set.Name == name && set.URI == s.URI }) {
			return false
		}
	}
	return true
}

// filtered reports whether patterns choose the resources.
func (c *Copy) filtered() bool { return len(c.o.Include)+len(c.o.Exclude) > 0 }

// wanted reports whether the patterns choose a URI.
func (c *Copy) wanted(uri string) bool {
	match := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, uri) })
	}
	return (len(c.o.Include) == 0 || match(c.o.Include)) && !match(c.o.Exclude)
}

// matches is [path.Match] with a * for slashes, too.
func matches(pattern, uri string) bool {
	const slash = "\x01"
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(uri, "/", slash))
	return ok
}

// bootID names the run of the system. A run cut off with it may have left files without
// their contents.
func bootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}

// What cannot be read of a Source, be it an entry, a list or a set, is named and passed over,
// and all else is copied. As long as there is such a thing no file is removed for not being
// listed, and the copy does not equal its Source. The next run reads it again.

// maxNamed is how many things a run names that it passes over.
const maxNamed = 100

// find finds the Source.
func (c *Copy) find(ctx context.Context) (err error) {
	if c.source, err = source.Find(ctx, c.client, c.o.URL); err == nil {
		c.source.Skip = c.skip
	}
	return err
}

// newSkips begins a run. Sets that could not be opened are passed over in it.
func (c *Copy) newSkips() {
	c.mu.Lock()
	c.named = map[string]bool{}
	c.mu.Unlock()
	for _, err := range c.closed {
		c.skip(source.Skip{Err: err})
	}
}

// skip names something that is passed over, once a run.
func (c *Copy) skip(s source.Skip) {
	text := "skipped: " + s.Err.Error()
	if s.Optional {
		text = s.Err.Error() + ": it counts as absent"
	} else {
		c.counts.Skipped.Add(1)
	}
	c.mu.Lock()
	n := len(c.named)
	known := c.named[text] || n > maxNamed
	if !known {
		c.named[text] = true
	}
	c.mu.Unlock()
	if !known && n == maxNamed {
		text = "more was skipped, and is not named"
	}
	if !known {
		c.o.Tell(text)
	}
}

// skipSet passes over a set.
func (c *Copy) skipSet(set *source.Set, err error) {
	c.skip(source.Skip{Err: fmt.Errorf("set %s: %w", set.Name, err)})
}

// dropSets forgets sets removed at the Source: its description does not name them, and
// their Capability List is gone for good (410). With a queue of a daemon its files go; its
// last deletions may be in no list any more. A set only not found may be lost, and the
// copy is all there is of it: its files stay.
func (c *Copy) dropSets(ctx context.Context) error {
	for name, s := range c.state.Sets {
		if s.URI == "" || slices.Contains(c.source.Sets, s.URI) {
			continue
		}
		_, err := c.source.Open(ctx, s.URI)
		if !source.IsGone(err) {
			continue
		}
		if source.Status(err) != http.StatusGone {
			c.o.Tell(fmt.Sprintf("set %s is not there any more; its files stay", name))
			continue
		}
		queue, whole := strings.CutSuffix(name, "/replica")
		if whole && c.o.Delete != DeleteNever {
			if err := c.dropQueue(queue); err != nil {
				return err
			}
		}
		if c.o.DryRun {
			continue
		}
		c.o.Tell(fmt.Sprintf("set %s was removed at the Source", name))
		c.mu.Lock()
		delete(c.state.Sets, name)
		c.mu.Unlock()
	}
	return nil
}

// dropQueue removes the files of a queue.
func (c *Copy) dropQueue(queue string) error {
	below, err := c.dir.Path(c.source.Base + "queues/" + queue + "/x")
	if err != nil {
		return nil // it has none
	}
	var gone []string
	err = c.dir.Walk(path.Dir(below), func(file string) error {
		gone = append(gone, file)
		return nil
	})
	if err != nil {
		return err
	}
	return c.removeAll(gone...)
}

// A mirror that took over publishes the resources of its original under URIs of its own,
// with links to the former ones, and its changes go on behind those of the original. So a
// copy of the original follows it from where it is; only the base URI is another.

// succeed returns [ErrOther] unless the Source is the successor of the one in a state. A set
// that the copy does not have may be new at the successor, and proves nothing.
func (c *Copy) succeed(ctx context.Context, old *state) error {
	base, proved := old.Base, false
	for _, set := range c.sets {
		if old.Sets[set.Name] == nil {
			continue
		}
		yes, known, err := set.Succeeds(ctx, base)
		switch {
		case err != nil:
			return err
		case known && !yes:
			return fmt.Errorf("%w: %s, and set %s does not say that it comes from there", ErrOther, base, set.Name)
		}
		proved = proved || yes
	}
	if !proved {
		return fmt.Errorf("%w: %s", ErrOther, base)
	}
	return nil
}

// A Source may move to another host or scheme: the URL that the operator gave leads to
// documents there, by redirects or because they name it, with the same paths.

// relocate gives the Source its base URI at such a place, and reports whether it has one. As
// long as the documents stay where they were, so does the base URI.
func (c *Copy) relocate(old *state) bool {
	from := source.OriginOf(old.Base)
	pathOf := func(uri string) string { return strings.TrimPrefix(uri, source.OriginOf(uri)) }
	switch {
	case c.o.URL != old.URL || old.Site == "" || pathOf(c.source.Base) != pathOf(old.Base):
		return false
	case c.source.Site == old.Site:
		c.source.Base = old.Base
		return false
	case old.Site != from:
		return false // its documents were never where its resources are
	}
	base := c.source.Site + pathOf(old.Base)
	for _, set := range old.Sets {
		path, below := strings.CutPrefix(set.URI, old.Base)
		if set.URI == "" && len(c.source.Lists) > 0 || below && slices.Contains(c.source.Sets, base+path) {
			c.source.Base = base
			return true
		}
	}
	return false
}

// followed reports whether the resources moved with the documents.
func (c *Copy) followed(ctx context.Context) (bool, error) {
	for _, set := range c.sets {
		if set.Documents[sitemap.ResourceList] == "" {
			continue
		}
		e, err := set.First(ctx)
		if err != nil {
			return false, err
		}
		if e != nil {
			return strings.HasPrefix(e.Loc, c.source.Base), nil
		}
	}
	return true, nil
}

// moveTo gives all URIs below the base URI another one.
func (s *state) moveTo(base string) {
	move := func(uri string) string {
		if rest, ok := strings.CutPrefix(uri, s.Base); ok {
			return base + rest
		}
		return uri
	}
	entries := func(some []sitemap.Entry) {
		for i := range some {
			some[i].Loc = move(some[i].Loc)
		}
	}
	for _, set := range s.Sets {
		set.URI = move(set.URI)
		if set.History != nil {
			set.History.Bases = append(set.History.Bases, base)
		}
		set.Cursor.Open, set.Packages = source.Cursor{}.Open, nil
		set.Cursor.Forget()
		for i := range set.Transit {
			set.Transit[i].Entry.Loc = move(set.Transit[i].Entry.Loc)
		}
		for i := range set.Held {
			for k, uri := range set.Held[i].After {
				set.Held[i].After[k] = move(uri)
			}
			entries(set.Held[i].Entries)
		}
	}
	for i, uri := range s.Chosen {
		s.Chosen[i] = move(uri)
	}
	s.Base = base
}
