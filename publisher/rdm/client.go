package rdm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

// A Client asks a server, ours or another. Its fields are not to be changed
// while it is in use.
type Client struct {
	URL       string       // where the server takes messages; see [ServerURL]
	HTTP      *http.Client // nil means http.DefaultClient
	UserAgent string
	MaxObject int // octets of one object of an answer; 0: [soif.DefaultLimit]
}

// ServerURL returns where a server takes messages: the URL itself, or [Path]
// below it if it has no path.
func ServerURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", err
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", fmt.Errorf("URL %.80q is not an absolute http URL", text)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("URL %.80q: only scheme, host and path have a meaning", text)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = Path
	}
	return u.String(), nil
}

// CatalogID returns the Catalog-Service-ID of a catalog of the server, by its
// name. A Catalog-Service-ID is returned unchanged.
func (c *Client) CatalogID(name string) string {
	if name == "" || strings.Contains(name, "://") {
		return name
	}
	i := strings.Index(c.URL, "://")
	host, _, _ := strings.Cut(c.URL[i+len("://"):], "/")
	return catalogIDOf(c.URL[:i], host, name)
}

// A Request is a query. Empty fields are not sent.
type Request struct {
	Type    Type
	Catalog string // Catalog-Service-ID; "" is the default of the server
	Scope   string // such as "all"
	// Attributes, Order and Hits are the view.
	Attributes, Order, Hits string
}

// append appends the message.
func (q *Request) append(dst []byte) []byte {
	head := Header{Type: q.Type, Language: languages[q.Type], Catalog: q.Catalog}
	dst = head.append(dst)
	query := soif.Object{Type: queryObject}
	for _, a := range [...]soif.Attribute{{Name: nameScope, Value: q.Scope}, {Name: nameViewAttributes, Value: q.Attributes},
		{Name: nameViewOrder, Value: q.Order}, {Name: nameViewHits, Value: q.Hits}} {
		if a.Value != "" {
			query.Attributes = append(query.Attributes, a)
		}
	}
	if len(query.Attributes) > 0 {
		dst = query.Append(dst)
	}
	return dst
}

// since is the beginning of a scope with a date.
const since = "since "

// Since returns the scope of changes at an instant, or later in its second.
func Since(t time.Time) string { return since + httpDate(t) }

// A Reply is the answer to a message. Close it after use.
type Reply struct {
	Header
	Status int // of HTTP
	// Until is the instant of the answer: a request since then completes it. It
	// is zero if the server does not say.
	Until  time.Time
	Length int64 // octets of the answer; -1 if the server does not say

	in   *soif.Reader
	body io.Closer
}

// Read returns the next object of the answer behind its header, or io.EOF.
func (r *Reply) Read() (soif.Object, error) { return r.in.Read() }

// Close lets go of the answer.
func (r *Reply) Close() error { return r.body.Close() }

// Ask sends a request. Each octet read is also written to watch, unless watch
// is nil. An error in the answer is an [*web.Error]. An empty answer is no error.
func (c *Client) Ask(ctx context.Context, q Request, watch io.Writer) (*Reply, error) {
	message := q.append(nil)
	r, err := c.send(ctx, int64(len(message)), bytes.NewReader(message), watch)
	if err != nil {
		return nil, err
	}
	if r.Status >= 400 {
		return nil, errors.Join(&web.Error{Status: r.Status, Message: r.Header.Error}, r.Close())
	}
	return r, nil
}

// Send submits objects, the SOIF in body, to a catalog: as new jobs, or, if typ
// is [RDResponseDeleted], to delete the jobs with their URLs. The answer has a
// result for each object; its Status and Error sum them up.
func (c *Client) Send(ctx context.Context, typ Type, catalog string, body io.Reader) (*Reply, error) {
	head := Header{Type: typ, Catalog: catalog}
	return c.send(ctx, -1, io.MultiReader(bytes.NewReader(head.append(nil)), body), nil)
}

func (c *Client) send(ctx context.Context, size int64, body io.Reader, watch io.Writer) (*Reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, io.NopCloser(body))
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", MediaType)
	req.Header.Set("Accept", MediaType+", application/rdm;q=0.9")
	req.Header.Set("Accept-Encoding", "gzip")
	if c.UserAgent != "" {
		req.Header.Set("User-Agent", c.UserAgent)
	}
	resp, err := cmp.Or(c.HTTP, http.DefaultClient).Do(req)
	if err != nil {
		return nil, err
	}
	r, err := c.reply(resp, watch)
	if err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return r, nil
}

// reply reads the header of an answer.
func (c *Client) reply(resp *http.Response, watch io.Writer) (*Reply, error) {
	r := &Reply{Status: resp.StatusCode, Length: resp.ContentLength, body: resp.Body}
	var in io.Reader = resp.Body
	if watch != nil {
		in = io.TeeReader(in, watch)
	}
	if resp.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("answer: %w", err)
		}
		in = z
	}
	r.in = soif.NewReader(in)
	r.in.Limit = c.MaxObject
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if media = strings.TrimSpace(media); media != MediaType && media != "application/rdm" && media != "text/plain" {
		if r.Status >= 400 {
			return nil, &web.Error{Status: r.Status}
		}
		return nil, fmt.Errorf("answer is %.60q, not %s", media, MediaType)
	}
	o, err := r.in.Read()
	if err == nil {
		r.Header, err = parseHeader(&o)
	}
	switch {
	case err != nil && r.Status >= 400:
		return nil, &web.Error{Status: r.Status}
	case err == io.EOF:
		return nil, errors.New("answer is empty")
	case err != nil:
		return nil, fmt.Errorf("answer: %w", err)
	}
	if t, err := http.ParseTime(resp.Header.Get("Last-Modified")); err == nil {
		r.Until = t
	}
	return r, nil
}
