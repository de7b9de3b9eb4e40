package wellknown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"

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

const (
	maxRequests  = 50
	maxSitemaps  = 1000 // lines of robots.txt
	maxRedirects = 5
	maxPage      = 1 << 20 // octets
)

var (
	errTooMany   = errors.New("too many documents")
	errRedirects = fmt.Errorf("more than %d redirects", maxRedirects)
	errForbidden = errors.New("403 Forbidden") // of static sites also where there is no file
)

// fetcher makes a limited number of requests.
type fetcher struct {
	client *http.Client
	left   int
	heard  bool // a server has answered
	down   bool // none has, and a request failed
}

// bounded returns a client like c with a limit of redirects. A nil c is the
// default client.
func bounded(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	b := *c
	b.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errRedirects
		}
		if c.CheckRedirect != nil {
			return c.CheckRedirect(req, via)
		}
		return nil
	}
	return &b
}

// get returns a response of status 200; the caller closes its body.
func (f *fetcher) get(ctx context.Context, u *url.URL) (*http.Response, error) {
	if f.left == 0 {
		return nil, errTooMany
	}
	f.left--
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		if errors.Is(err, errRedirects) {
			return nil, err
		}
		f.down = !f.heard
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	f.heard = true
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	resp.Body.Close()
	switch s := resp.StatusCode; {
	case s == http.StatusForbidden:
		return nil, fmt.Errorf("%s: %w", u, errForbidden)
	case s == http.StatusUnauthorized, s == http.StatusProxyAuthRequired, s == http.StatusRequestTimeout,
		s == http.StatusTooManyRequests, s == http.StatusBadGateway, s == http.StatusServiceUnavailable, s == http.StatusGatewayTimeout:
		return nil, fmt.Errorf("%w: %s: %s", ErrNoAnswer, u, resp.Status)
	}
	return nil, fmt.Errorf("%s: %s", u, resp.Status)
}

// page is an answer with the beginning of its body.
type page struct {
	url    *url.URL // after redirects
	header http.Header
	text   string
}

func (f *fetcher) page(ctx context.Context, u *url.URL) (page, error) {
	resp, err := f.get(ctx, u)
	if err != nil {
		return page{}, err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return page{}, fmt.Errorf("%s: %w", u, err)
	}
	return page{url: resp.Request.URL, header: resp.Header, text: string(text)}, nil
}

func (p page) isHTML() bool { return isHTML(p.header) }

func isHTML(h http.Header) bool {
	t, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return t == "text/html" || t == "application/xhtml+xml"
}

// Normal returns an absolute http or https URI in its normal form (RFC 3986, 6.2.2 and
// 6.2.3), so that equal URIs are equal strings: scheme and host in lower case, the host in
// ASCII (RFC 5891), no default port, "/" for an empty path, no dot segments, and percent
// signs for all but the characters of URIs. Other URIs are returned as they are.
func Normal(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return uri, nil
	}
	_, rest, _ := strings.Cut(uri, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	user, host := "", rest[:end]
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		user, host = host[:i+1], host[i+1:]
	}
	if host, err = normalHost(host, u); err != nil {
		return "", err
	}
	path, rest := rest[end:], ""
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path, rest = path[:i], path[i:]
	}
	if path == "" {
		path = "/"
	}
	return u.Scheme + "://" + user + host + withoutDots(normalPercent(path)) + normalPercent(rest), nil
}

func normalHost(host string, u *url.URL) (string, error) {
	port := u.Port()
	host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(host, port), ":"))
	if strings.ContainsFunc(host, func(c rune) bool { return c > '~' || c == '%' }) && host[0] != '[' {
		ascii, err := idna.Lookup.ToASCII(strings.ToLower(u.Hostname()))
		if err != nil {
			return "", fmt.Errorf("host %.80q: %w", u.Hostname(), err)
		}
		host = ascii
	}
	if port == "" || port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		return host, nil
	}
	return host + ":" + port, nil
}

// normalPercent encodes what is no character of URIs, and nothing else.
func normalPercent(s string) string {
	if !strings.ContainsFunc(s, func(c rune) bool { return c > '~' || !ofURI(byte(c)) }) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' { // url.Parse has seen two digits in a path
			if i+2 < len(s) && hex(s[i+1]) >= 0 && hex(s[i+2]) >= 0 {
				c = byte(hex(s[i+1])<<4 | hex(s[i+2]))
				i += 2
			}
			if unreserved(c) {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		if ofURI(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// ofURI reports whether a character of a URI stands for itself.
func ofURI(c byte) bool { return unreserved(c) || strings.IndexByte("/?#[]!$&'()*+,;=:@", c) >= 0 }

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// hex returns the value of a digit, below 0 of another character.
func hex(c byte) int {
	if c >= 'A' && c <= 'F' {
		c += 'a' - 'A'
	}
	return strings.IndexByte("0123456789abcdef", c)
}

// withoutDots removes the segments . and .. of an absolute path (RFC 3986, 5.2.4).
func withoutDots(path string) string {
	if !strings.Contains(path, "/.") {
		return path
	}
	var out []string
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "..":
			out = out[:max(0, len(out)-1)]
		case s != ".":
			out = append(out, s)
			continue
		}
		if last {
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/")
}
