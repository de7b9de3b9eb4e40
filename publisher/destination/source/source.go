package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"cutie/publisher/destination/fetch"
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
	By          wellknown.Method // how; "" for a plain Sitemap
	Base        string           // resources are below it, as a rule; with a slash at its end
	Description string           // URI of the Source Description; "" if there is none
	Sets        []string         // URIs of Capability Lists

	// Listed gets, with each list of resources, the octets of these, its number among all
	// lists of the set, and how many there are. The octets are an estimate. nil: nobody asks.
	Listed func(octets int64, n, of int)

	client *fetch.Client
	size   atomic.Int64 // octets of the last document
	plain  string       // URI of a list without Capability List
}

// Find finds the Source of a URL: of a site, a resource, a page, or a document of the
// Source.
func Find(ctx context.Context, client *fetch.Client, uri string) (*Source, error) {
	s := &Source{client: client}
	found, err := wellknown.Discover(ctx, client.HTTP(), uri)
	if err == nil {
		s.By, s.Description, s.Sets = found.By, found.Description, found.CapabilityLists
		if len(s.Sets) > maxSets {
			return nil, fmt.Errorf("%s: more than %d sets", uri, maxSets)
		}
	} else if e := s.findPlain(ctx, uri, err); e != nil {
		return nil, e
	}
	s.Base = baseOf(s.Description, slices.Concat(s.Sets, []string{s.plain}))
	return s, nil
}

// findPlain takes a list without Capability List, or a plain Sitemap, after nothing else
// was found: at the URL, or if nothing keeps another Source hidden, named in robots.txt or
// at /sitemap.xml. The error is that of the URL if it was refused, else none.
func (s *Source) findPlain(ctx context.Context, uri string, none error) error {
	if !errors.Is(none, wellknown.ErrNotFound) && !errors.Is(none, wellknown.ErrNoAnswer) {
		return none
	}
	err := s.tryPlain(ctx, uri)
	if status := fetch.Status(err); err == nil || status == http.StatusUnauthorized || status == http.StatusForbidden {
		return err
	}
	u, err := url.Parse(uri)
	if err != nil || errors.Is(none, wellknown.ErrNoAnswer) {
		return none
	}
	var candidates []string
	robots := u.ResolveReference(&url.URL{Path: "/robots.txt"}).String()
	_ = s.client.Get(ctx, fetch.Request{URI: robots}, func(a *fetch.Answer) error {
		text, err := io.ReadAll(io.LimitReader(a.Body, 1<<20))
		candidates = append(candidates, wellknown.RobotsSitemaps(string(text))...)
		return err
	})
	candidates = append(candidates, u.ResolveReference(&url.URL{Path: "/sitemap.xml"}).String())
	for _, c := range candidates {
		if s.tryPlain(ctx, c) == nil {
			return nil
		}
	}
	return none
}

func (s *Source) tryPlain(ctx context.Context, uri string) error {
	d, err := s.Document(ctx, uri)
	if err == nil {
		err = d.kind(sitemap.ResourceList)
	}
	if err == nil {
		s.plain = uri
	}
	return err
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
			return fetch.OriginOf(u) + "/"
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

// Open returns the set with a Capability List, or the one of a plain list for "".
func (s *Source) Open(ctx context.Context, list string) (*Set, error) {
	if list == "" {
		return &Set{Name: "sitemap", Documents: map[sitemap.Capability]string{sitemap.ResourceList: s.plain}, source: s}, nil
	}
	d, err := s.Document(ctx, list)
	if err != nil {
		return nil, err
	}
	if err := d.kind(sitemap.CapabilityList); err != nil {
		return nil, err
	}
	set := &Set{Name: s.Name(list), URI: list, Documents: map[sitemap.Capability]string{}, source: s}
	for {
		e, err := d.Read()
		if err == io.EOF {
			return set, nil
		}
		if err != nil {
			return nil, err
		}
		if _, had := set.Documents[e.Capability]; !had && e.Capability != "" {
			set.Documents[e.Capability] = e.Loc
		}
	}
}

// Choose returns the Capability Lists of the sets with the given names, or URIs, all of
// them without names.
func (s *Source) Choose(names []string) ([]string, error) {
	if s.plain != "" {
		return []string{""}, nil
	}
	if len(names) == 0 {
		return s.Sets, nil
	}
	var chosen []string
	for _, n := range names {
		i := slices.IndexFunc(s.Sets, func(list string) bool { return list == n || s.Name(list) == n })
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

// walk yields the documents of a list: itself, or those of its index in their order. It
// sets at to the time of the whole, or else of its oldest part.
func (s *Source) walk(ctx context.Context, uri string, kind sitemap.Capability, at *time.Time) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		d, err := s.Document(ctx, uri)
		if err == nil {
			err = d.kind(kind)
		}
		if err == nil {
			*at = d.Head.At
		}
		if err != nil || d.Root == sitemap.URLSet {
			s.listed(d, kind, 1, 1)
			yield(d, err)
			return
		}
		of := bytes.Count(d.text, []byte("<sitemap>"))
		for n := 1; ; n++ {
			e, err := d.Read()
			if err == io.EOF {
				return
			}
			if err == nil && n > maxDocuments {
				err = fmt.Errorf("%s: more than %d documents", uri, maxDocuments)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			part, err := s.Document(ctx, e.Loc)
			if err == nil {
				err = part.kind(kind)
			}
			if err == nil && part.Root != sitemap.URLSet {
				err = fmt.Errorf("%s: an index in an index", part.URI)
			}
			if err == nil && d.Head.At.IsZero() && (n == 1 || part.Head.At.Before(*at)) {
				*at = part.Head.At
			}
			s.listed(part, kind, n, of)
			if !yield(part, err) || err != nil {
				return
			}
		}
	}
}

func (s *Source) listed(d *Document, kind sitemap.Capability, n, of int) {
	if s.Listed != nil && d != nil && kind == sitemap.ResourceList {
		s.Listed(d.lengths(), n, max(n, of))
	}
}

// Resources gives each resource of the Resource List to visit, and returns the time at
// which the list is true: all changes up to then are in it. For lists without a time it
// is zero. As far as it is known, visit gets the time, too.
func (set *Set) Resources(ctx context.Context, visit func(e *sitemap.Entry, at time.Time) error) (at time.Time, err error) {
	uri := set.Documents[sitemap.ResourceList]
	if uri == "" {
		return at, fmt.Errorf("set %s has no Resource List", set.Name)
	}
	for d, err := range set.source.walk(ctx, uri, sitemap.ResourceList, &at) {
		if err != nil {
			return at, err
		}
		for {
			e, err := d.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				return at, err
			}
			if err := visit(&e, at); err != nil {
				return at, err
			}
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
	for d, err := range set.source.walk(ctx, uri, kind, &at) {
		if err != nil {
			return nil, at, err
		}
		for {
			e, err := d.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, at, err
			}
			all = append(all, e)
		}
	}
	return all, at, nil
}
