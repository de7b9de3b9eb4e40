package wellknown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
)

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
