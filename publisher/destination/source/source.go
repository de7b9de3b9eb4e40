// Package source reads what a ResourceSync Source publishes (ANSI/NISO Z39.99-2017,
// versions 1.1, 1.0, 0.9 and the form of January 2013): its sets, the resources of a set,
// and the changes after a point in time.
//
// A Source is found by its well-known URI, a Capability List, any of its lists, a link in a
// page or a header, or robots.txt (6.3). Plain Sitemaps, all that
// robots.txt names, are a set with Resource Lists and nothing else.
//
// Documents are limited to 50 MB and 50,000 entries each, as the standard has it, and a
// list to 50,000 documents; an index may be in four others. References are resolved against the URI of their document.
//
// A [Client] makes its requests politely: over few connections, within a rate, and never
// without an end. A request is tried again after a broken connection and after the statuses
// 408, 429, 500, 502, 503 and 504, at the time in Retry-After or after a growing pause. A
// server gets credentials only if it is the one of the Source.
package source

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"cutie/sitemap"
	"cutie/wellknown"
)

// Limits of a Source.
const (
	maxSets      = 100_000
	maxDocuments = 50_000 // of a list
)

// A Source is one that was found.
type Source struct {
	By          wellknown.Method // how
	Base        string           // resources are below it, as a rule; with a slash at its end
	Site        string           // origin of its sets, or of its documents after redirects
	Description string           // URI of the Source Description; "" if there is none
	Sets        []string         // URIs of Capability Lists
	Lists       []string         // of a Source without these: its Resource Lists, such as plain Sitemaps
	Left        []string         // Resource Lists that robots.txt names, and that belong to no set

	// Skip gets what cannot be read and is passed over. nil: it is an error, and ends the
	// reading. It may be called from several goroutines.
	Skip func(Skip)

	client *Client
	size   atomic.Int64 // octets of the last document

	refused []error // of documents that robots.txt names
}

// Find finds the Source of a URL: of a site, a resource, a page, or a document of the
// Source.
func Find(ctx context.Context, client *Client, uri string) (*Source, error) {
	found, err := wellknown.Discover(ctx, client.HTTP(), uri)
	if err != nil {
		return nil, err
	}
	s := &Source{client: client, By: found.By, Description: found.Description, Sets: found.CapabilityLists, refused: found.Refused}
	if s.Description, err = normal(s.Description); err != nil {
		return nil, err
	}
	for _, lists := range [][]string{s.Sets, found.Lists} {
		for i := range lists {
			if lists[i], err = normal(lists[i]); err != nil {
				return nil, err
			}
		}
	}
	if len(s.Sets) > maxSets {
		return nil, fmt.Errorf("%s: more than %d sets", uri, maxSets)
	}
	if len(s.Sets) == 0 && s.Description == "" {
		s.Lists = found.Lists
	} else {
		s.Left = found.Lists
	}
	s.Base = baseOf(s.Description, slices.Concat(s.Sets, s.Lists))
	s.Site = OriginOf(append(s.Sets, found.At)[0])
	return s, nil
}

func normal(uri string) (string, error) {
	if uri == "" {
		return "", nil
	}
	return wellknown.Normal(uri)
}

// baseOf returns the part common to the URIs of a Source: a Source of ours is below
// /.well-known, others at their origin.
func baseOf(description string, lists []string) string {
	// A daemon may answer to several names; its lists have the one of its resources.
	all := append(slices.Clone(lists), description)
	for _, u := range all {
		if before, _, ok := strings.Cut(u, wellknown.Path); ok && u != description || ok && len(lists) == 0 {
			return before + "/"
		}
	}
	for _, u := range append([]string{description}, lists...) {
		if u != "" {
			return OriginOf(u) + "/"
		}
	}
	return ""
}

// A Set is a set of resources with its documents.
type Set struct {
	Name      string // short, and unique in its Source
	URI       string // of its Capability List; "" for a plain list
	Documents map[sitemap.Capability]string

	source *Source
	more   []string // further Resource Lists
}

// IsQueue reports whether the set is one of a daemon of ours, with all files of a queue.
func (set *Set) IsQueue() bool { return strings.HasSuffix(set.Name, "/replica") }

// Name returns the short name of the set with a Capability List: its path below the
// Source Description, without the name of the file.
func (s *Source) Name(list string) string {
	name := strings.TrimPrefix(list, s.Base)
	name = strings.TrimPrefix(name, strings.TrimPrefix(wellknown.Path, "/")+"/")
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return name
}

// Open returns the set with a Capability List, or the one of all Lists for "".
func (s *Source) Open(ctx context.Context, list string) (*Set, error) {
	if list == "" {
		return &Set{Name: "sitemap", Documents: map[sitemap.Capability]string{sitemap.ResourceList: s.Lists[0]}, source: s, more: s.Lists[1:]}, nil
	}
	d, err := s.Document(ctx, list)
	if err != nil {
		return nil, err
	}
	if err := d.kind(sitemap.CapabilityList); err != nil {
		return nil, err
	}
	set := &Set{Name: s.Name(list), URI: list, Documents: map[sitemap.Capability]string{}, source: s}
	for e, err := range d.Entries() {
		if err != nil {
			return nil, err
		}
		if _, had := set.Documents[e.Capability]; !had && e.Capability != "" {
			set.Documents[e.Capability] = e.Loc
		}
	}
	return set, nil
}

// Choose returns the Capability Lists of the sets with the given names, or URIs, all of
// them without names.
func (s *Source) Choose(names []string) ([]string, error) {
	if len(s.Lists) > 0 {
		return []string{""}, nil
	}
	if len(names) == 0 {
		return s.Sets, nil
	}
	var chosen []string
	for _, n := range names {
		uri, _ := wellknown.Normal(n)
		i := slices.IndexFunc(s.Sets, func(list string) bool { return list == uri || s.Name(list) == n })
		if i < 0 {
			return nil, fmt.Errorf("set %s: the Source has none of this name, but %s", n, some(s))
		}
		chosen = append(chosen, s.Sets[i])
	}
	return chosen, nil
}

func some(s *Source) string {
	var names []string
	for i, list := range s.Sets {
		if i == 10 {
			names = append(names, fmt.Sprintf("%d more", len(s.Sets)-i))
			break
		}
		names = append(names, s.Name(list))
	}
	return strings.Join(names, ", ")
}

// maxNesting is how deep an index may be in others. The standard has no index in an index;
// Sitemaps of some sites have.
const maxNesting = 4

// walk yields the entries of lists: of each itself, or of those of its index in their order.
// It sets at to the time of the whole, or else of its oldest part.
func (s *Source) walk(ctx context.Context, lists []string, kind sitemap.Capability, at *time.Time) iter.Seq2[sitemap.Entry, error] {
	return func(yield func(sitemap.Entry, error) bool) {
		w := &walker{source: s, kind: kind, at: at, many: len(lists) > 1, seen: map[string]bool{}, yield: yield}
		for _, uri := range lists {
			if !w.walk(ctx, uri, time.Time{}, 0) {
				return
			}
		}
		if w.bad != nil && !w.read {
			w.fail(w.bad)
		}
	}
}

// A walker is one walk.
type walker struct {
	source *Source
	kind   sitemap.Capability
	at     *time.Time
	many   bool            // lists were given
	read   bool            // a list was
	seen   map[string]bool // their URIs
	dated  bool            // at was set
	bad    error           // of the last one that was passed over
	yield  func(sitemap.Entry, error) bool
}

// walk yields the entries of a document, or of those of an index; whole is the time of the index that names it.
// It returns whether to go on.
func (w *walker) walk(ctx context.Context, uri string, whole time.Time, depth int) bool {
	if w.seen[uri] {
		return true
	}
	if w.seen[uri] = true; len(w.seen) > maxDocuments {
		return w.fail(fmt.Errorf("%s: more than %d documents", uri, maxDocuments))
	}
	d, err := w.source.Document(ctx, uri)
	if err == nil {
		err = d.kind(w.kind)
	}
	if err == nil && d.Root != sitemap.URLSet && depth == maxNesting {
		err = fmt.Errorf("%s: an index in more than %d others", d.URI, maxNesting)
	}
	if err != nil && (w.many || depth > 0) && w.source.skips(ctx, err) {
		w.bad = err
		return true
	}
	if err != nil {
		return w.fail(err)
	}
	if whole.IsZero() {
		whole = d.Head.At
	}
	if (d.Root == sitemap.URLSet || !whole.IsZero()) && (!w.dated || whole.Before(*w.at)) {
		*w.at, w.dated = whole, true
	}
	plain := d.Root == sitemap.URLSet
	if plain {
		w.read = true
	}
	for e, err := range d.Entries() {
		switch {
		case err != nil:
			return w.fail(err)
		case plain && !w.yield(e, nil), !plain && !w.walk(ctx, e.Loc, whole, depth+1):
			return false
		}
	}
	return true
}

// fail yields an error, and ends the walk.
func (w *walker) fail(err error) bool {
	w.yield(sitemap.Entry{}, err)
	return false
}

// Resources gives each resource of the Resource List to visit, and returns the time at
// which the list is true: all changes up to then are in it. For lists without a time it
// is zero. As far as it is known, visit gets the time, too.
func (set *Set) Resources(ctx context.Context, visit func(e *sitemap.Entry, at time.Time) error) (at time.Time, err error) {
	uri := set.Documents[sitemap.ResourceList]
	if uri == "" {
		return at, fmt.Errorf("set %s has no Resource List", set.Name)
	}
	if set.URI == "" && set.source.Skip != nil {
		for _, err := range set.source.refused {
			set.source.Skip(Skip{Err: err})
		}
	}
	for e, err := range set.source.walk(ctx, append([]string{uri}, set.more...), sitemap.ResourceList, &at) {
		if err == nil {
			err = visit(&e, at)
		}
		if err != nil {
			return at, err
		}
	}
	return at, nil
}

// Packages returns the packages of the Resource Dump, and the time at which they are
// true.
func (set *Set) Packages(ctx context.Context) (all []sitemap.Entry, at time.Time, err error) {
	return set.packages(ctx, sitemap.ResourceDump)
}

// ChangePackages returns the packages of the Change Dump with changes after a cursor, oldest
// first.
func (set *Set) ChangePackages(ctx context.Context, since *Cursor) ([]sitemap.Entry, error) {
	all, _, err := set.packages(ctx, sitemap.ChangeDump)
	return slices.DeleteFunc(all, func(e sitemap.Entry) bool { return !e.Until.IsZero() && e.Until.Before(since.Time) }), err
}

func (set *Set) packages(ctx context.Context, kind sitemap.Capability) (all []sitemap.Entry, at time.Time, err error) {
	uri := set.Documents[kind]
	if uri == "" {
		return nil, at, fmt.Errorf("set %s has no %s", set.Name, kind)
	}
	for e, err := range set.source.walk(ctx, []string{uri}, kind, &at) {
		if err != nil {
			return nil, at, err
		}
		all = append(all, e)
	}
	return all, at, nil
}

// First returns the first resource of the set, nil if it has none.
func (set *Set) First(ctx context.Context) (first *sitemap.Entry, err error) {
	_, err = set.Resources(ctx, func(e *sitemap.Entry, _ time.Time) error {
		first = e
		return io.EOF
	})
	if err == io.EOF {
		err = nil
	}
	return first, err
}

// Succeeds reports whether the set is a successor of one of another Source: it publishes
// the resources below the base URI of that one, with links to where they came from
// (Z39.99-2017, 14.4). known is false where the set has no resources to tell.
func (set *Set) Succeeds(ctx context.Context, base string) (yes, known bool, err error) {
	e, err := set.First(ctx)
	if err != nil || e == nil {
		return false, false, err
	}
	path, below := strings.CutPrefix(e.Loc, set.source.Base)
	return below && e.Link(sitemap.RelVia) == base+path, true, nil
}
