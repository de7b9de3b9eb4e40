// Package wellknown lets a ResourceSync Source be found, and finds one
// (ANSI/NISO Z39.99-2017, 6.3): by the well-known URI, by links in HTTP
// headers (RFC 8288) and HTML pages, and by robots.txt.
//
// [Discover] finds a Source; the rest are the small formats in which both sides meet.
package wellknown

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Path is where a site has its Source Description (RFC 8615).
const Path = "/.well-known/resourcesync"

// Rel is the link relation from a resource to its Capability List. It is not a
// relation between ResourceSync documents.
const Rel = "resourcesync"

// CORS lets pages of another origin, or of any, read resources, and nothing
// more (Fetch Standard, 3.3). Rights stay as they are: a page has to send a
// token of its own, because credentials of the browser are not allowed. The
// header is the same for everybody, so caches may keep it.
type CORS struct{ origin []string }

// NewCORS allows an origin such as https://example.org; "*" is any.
func NewCORS(origin string) (*CORS, error) {
	origin = strings.ToLower(origin)
	u, err := url.Parse(origin)
	if origin != "*" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != origin) {
		return nil, fmt.Errorf("origin %.100q is neither * nor such as https://example.org", origin)
	}
	return &CORS{[]string{origin}}, nil
}

var (
	corsMethods = []string{"GET, HEAD"}
	corsHeaders = []string{"Authorization, If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Prefer, Range"}
	corsExposed = []string{"Accept-Ranges, Content-Disposition, Content-Encoding, Content-Length, Content-Range, ETag, Last-Modified, Link, Preference-Applied, Retry-After"}
	corsAge     = []string{"86400"} // seconds
)

// Allow completes the header of the answer to a reading request. It reports
// whether the request is only the question before another one: its answer is
// 204 without a body.
func (c *CORS) Allow(h http.Header, r *http.Request) (preflight bool) {
	preflight = r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
	switch {
	case preflight:
		h["Access-Control-Allow-Methods"], h["Access-Control-Allow-Headers"], h["Access-Control-Max-Age"] = corsMethods, corsHeaders, corsAge
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		h["Access-Control-Expose-Headers"] = corsExposed
	default:
		return false
	}
	h["Access-Control-Allow-Origin"] = c.origin
	return preflight
}
