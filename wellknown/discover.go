package wellknown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"cutie/sitemap"
)

// Method is a way a Source was found (Z39.99-2017, 6.3).
type Method string

// The methods, in the order of Discover.
const (
	ByWellKnown  Method = "well-known URI"
	ByLinkHeader Method = "Link header"
	ByHTMLLink   Method = "HTML link"
	ByDocument   Method = "ResourceSync document" // the URL given is one itself
	ByRobots     Method = "robots.txt"
	BySitemap    Method = "/sitemap.xml"
)

// Discovery is the result of Discover: absolute URLs of documents. At least one
// of them was read and is of the right kind.
type Discovery struct {
	// By is the successful method.
	By Method

	// Description is the Source Description, empty if a Capability List did
	// not name one. A Source Description Index counts as one.
	Description string

	// CapabilityLists are all of the Source Description if it was found first,
	// otherwise the ones for the resource, or the sets named in robots.txt.
	// Without duplicates.
	CapabilityLists []string

	// Lists are Resource Lists without a Capability List, such as plain Sitemaps: the URL
	// given, or else all that robots.txt names, or else /sitemap.xml.
	Lists []string

	// At is where the first document of these was found, after redirects.
	At string

	// Refused are errors of documents that robots.txt names and that are no lists.
	Refused []error
}

func (d *Discovery) found() bool {
	return len(d.CapabilityLists)+len(d.Lists) > 0 || d.Description != ""
}

// ErrNotFound says: every method was tried and none found a Source.
var ErrNotFound = errors.New("no ResourceSync source found")

// ErrNoAnswer says: nothing was found, and a server gave no answer that would tell. It
// failed, or wants credentials.
var ErrNoAnswer = errors.New("no answer that tells of a ResourceSync source")

// Discover finds the Source for the URL of a site, resource or ResourceSync
// document; the URL must be absolute, http or https. The first successful
// method ends the search.
//
// It makes at most 50 requests with 5 redirects each, and one for each of the first 1,000
// Sitemap lines of robots.txt. It reads at most 1 MiB of an HTML page or robots.txt, and of a
// list only the head. If nothing is found the error wraps [ErrNotFound], or [ErrNoAnswer],
// and the errors of documents that were there and could not be read, or else the error of
// each request; the error of the context is returned as soon as it is done. robots.txt may
// name other Sources: it is not asked if the URL or the well-known URI gives no answer. There are no timeouts but those of ctx and
// client.
func Discover(ctx context.Context, client *http.Client, rawURL string) (Discovery, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return Discovery{}, fmt.Errorf("discover: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return Discovery{}, fmt.Errorf("discover %s: not an absolute http or https URL", rawURL)
	}
	f := &finder{fetcher: fetcher{client: bounded(client), left: maxRequests}}
	var tried []error
	for _, try := range []func(context.Context, *url.URL) error{f.wellKnown, f.resource, f.robots, f.sitemap} {
		err := try(ctx, u)
		if ctx.Err() != nil {
			return Discovery{}, fmt.Errorf("discover %s: %w", rawURL, ctx.Err())
		}
		if f.found.found() {
			return f.found, nil
		}
		tried = append(tried, err)
		if f.down || len(tried) == 2 && errors.Is(errors.Join(tried...), ErrNoAnswer) {
			return Discovery{}, fmt.Errorf("discover %s: %w", rawURL, errors.Join(tried...))
		}
	}
	if len(f.refused) > 0 {
		tried = f.refused // says more than what is missing elsewhere
	}
	return Discovery{}, fmt.Errorf("discover %s: %w", rawURL, errors.Join(append([]error{ErrNotFound}, tried...)...))
}

// finder collects the findings. Its methods return errors of vain attempts;
// other attempts may have succeeded.
type finder struct {
	fetcher
	found   Discovery
	plain   bool    // lists without a Capability List count
	refused []error // of documents that are there
}

func (f *finder) wellKnown(ctx context.Context, site *url.URL) error {
	f.found.By = ByWellKnown
	return f.follow(ctx, site.ResolveReference(&url.URL{Path: Path}), maxDepth)
}

// resource looks into the answer for the URL given: its header, then the page
// or document in it.
func (f *finder) resource(ctx context.Context, u *url.URL) error {
	f.plain = true // from here on
	p, err := f.page(ctx, u)
	if errors.Is(err, errForbidden) {
		err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	if err != nil {
		return err
	}
	f.found.By = ByLinkHeader
	err = f.followAll(ctx, p.url, Links(p.header, Rel))
	if f.found.found() {
		return nil
	}
	if p.isHTML() {
		f.found.By = ByHTMLLink
		return errors.Join(err, f.followAll(ctx, p.url, HTMLLinks(p.text)))
	}
	f.found.By = ByDocument
	return errors.Join(err, f.follow(ctx, u, maxDepth))
}

func (f *finder) robots(ctx context.Context, site *url.URL) error {
	p, err := f.page(ctx, site.ResolveReference(&url.URL{Path: "/robots.txt"}))
	if err != nil {
		return err
	}
	f.found.By = ByRobots
	refs := RobotsSitemaps(p.text)
	if len(refs) > maxSitemaps {
		f.refuse(fmt.Errorf("%s: %w: the first %d of %d are read", p.url, errTooMany, maxSitemaps, len(refs)))
		refs = refs[:maxSitemaps]
	}
	f.left += len(refs)
	var unread []string
	for _, ref := range refs {
		u, err := p.url.Parse(ref)
		if err == nil {
			err = f.follow(ctx, u, maxDepth)
		}
		switch {
		case errors.Is(err, ErrNoAnswer):
			unread = append(unread, u.String())
		case err != nil && !slices.Contains(f.refused, err):
			f.refuse(err)
		}
	}
	if len(f.found.Lists) > 0 {
		f.found.Lists = append(f.found.Lists, unread...) // whoever reads them gets the error
	}
	f.found.Refused = f.refused
	return nil
}

func (f *finder) sitemap(ctx context.Context, site *url.URL) error {
	f.found.By = BySitemap
	return f.follow(ctx, site.ResolveReference(&url.URL{Path: "/sitemap.xml"}), maxDepth)
}

// maxDepth is how many documents are followed upwards (Resource List, index,
// Capability List) or downwards (Source Description Index), with some to spare.
const maxDepth = 5

func (f *finder) followAll(ctx context.Context, base *url.URL, refs []string) error {
	var errs []error
	for _, ref := range refs {
		u, err := base.Parse(ref)
		if err == nil {
			err = f.follow(ctx, u, maxDepth)
		}
		errs = append(errs, err)
		if errors.Is(err, errTooMany) {
			break
		}
	}
	return errors.Join(errs...)
}

// follow reads a ResourceSync document and goes on from there to Capability
// Lists.
func (f *finder) follow(ctx context.Context, u *url.URL, depth int) error {
	if depth == 0 {
		return fmt.Errorf("%s: too many steps from document to document", u)
	}
	resp, err := f.get(ctx, u)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	base := resp.Request.URL
	defer func() {
		if f.found.At == "" && f.found.found() {
			f.found.At = base.String()
		}
	}()
	text, err := sitemap.Unpack(resp.Body, sitemap.MaxOctets)
	if err != nil {
		return fmt.Errorf("%s: %w", u, err)
	}
	r := sitemap.NewReader(text)
	r.Plain = f.plain
	root, head, err := r.ReadHead()
	if err != nil {
		err = fmt.Errorf("%s: %w", u, err)
		if !isHTML(resp.Header) { // a page for every address
			f.refuse(err)
		}
		return err
	}
	up := head.Link(sitemap.RelUp)
	switch {
	case head.Capability == sitemap.Description, head.Capability == sitemap.CapabilityList && root == sitemap.SitemapIndex:
		locs, err := locations(r, base)
		if err != nil {
			return fmt.Errorf("%s: %w", u, err)
		}
		ofDescriptions := head.Capability == sitemap.Description && root == sitemap.SitemapIndex
		return f.describe(ctx, u, locs, ofDescriptions, depth)
	case head.Capability == sitemap.CapabilityList:
		f.add(u)
		if d, err := base.Parse(up); err == nil && up != "" && f.found.Description == "" {
			f.found.Description = d.String()
		}
		return nil
	case up == "" && f.plain && head.Capability == sitemap.ResourceList:
		f.found.Lists = appendNew(f.found.Lists, u.String())
		return nil
	case up == "":
		return fmt.Errorf("%s: a %s without link up", u, head.Capability)
	}
	next, err := base.Parse(up)
	if err != nil {
		return fmt.Errorf("%s: link up: %w", u, err)
	}
	err = f.follow(ctx, next, depth-1)
	if err != nil && !errors.Is(err, ErrNoAnswer) && depth == maxDepth && f.plain && head.Capability == sitemap.ResourceList {
		f.found.Lists, err = appendNew(f.found.Lists, u.String()), nil // its Capability List is not there
	}
	return err
}

// describe takes the sets of a Source Description. An index of them names
// others, and the Capability List Index of older versions stands for one.
func (f *finder) describe(ctx context.Context, u *url.URL, names []*url.URL, ofDescriptions bool, depth int) error {
	if f.found.Description == "" {
		f.found.Description = u.String()
	}
	var errs []error
	for _, name := range names {
		if ofDescriptions {
			errs = append(errs, f.follow(ctx, name, depth-1))
		} else {
			f.add(name)
		}
	}
	return errors.Join(errs...)
}

func (f *finder) refuse(err error) { f.refused = append(f.refused, err) }

func (f *finder) add(list *url.URL) {
	f.found.CapabilityLists = appendNew(f.found.CapabilityLists, list.String())
}

func appendNew(all []string, s string) []string {
	if slices.Contains(all, s) {
		return all
	}
	return append(all, s)
}

// locations reads the entries of r.
func locations(r *sitemap.Reader, base *url.URL) ([]*url.URL, error) {
	var locs []*url.URL
	for {
		e, err := r.Read()
		if errors.Is(err, io.EOF) {
			return locs, nil
		}
		if err != nil {
			return nil, err
		}
		loc, err := base.Parse(e.Loc)
		if err != nil {
			return nil, err
		}
		locs = append(locs, loc)
	}
}
