package rdm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

// A Client asks a server, ours or another. Its fields are not to be changed
// while it is in use.
type Client struct {
	URL       string       // where the server takes messages; see [ServerURL]
	HTTP      *http.Client // nil means http.DefaultClient
	UserAgent string
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
	scheme, rest, _ := strings.Cut(c.URL, "://")
	host, _, _ := strings.Cut(rest, "/")
	return catalogIDOf(scheme, host, name)
}

// A Request is a query. Empty fields are not sent.
type Request struct {
	Type    Type
	Catalog string // Catalog-Service-ID; "" is the default of the server
	Scope   string // such as "all"
	// Attributes, Order and Hits are the view.
	Attributes, Order, Hits string
}

// Since returns the scope of changes at an instant, or later in its second.
func Since(t time.Time) string { return "since " + httpDate(t) }

// A Reply is the answer to a message. Close it after use.
type Reply struct {
	Header
	Status int // of HTTP
	// Until is the instant of the answer: a request since then completes it. It
	// is zero if the server does not say.
	Until time.Time

	in   *soif.Reader
	body io.Closer
}

// Read returns the next object of the answer behind its header, or io.EOF.
func (r *Reply) Read() (soif.Object, error) { return r.in.Read() }

// Close lets go of the answer.
func (r *Reply) Close() error { return r.body.Close() }

// Ask sends a request. An error in the answer is an [*web.Error]. An empty answer is no
// error.
func (c *Client) Ask(ctx context.Context, q Request) (*Reply, error) {
	head := Header{Type: q.Type, Language: languages[q.Type], Catalog: q.Catalog}
	message := appendObject(head.append(nil), queryObject, nameScope, q.Scope, nameViewAttributes, q.Attributes,
		nameViewOrder, q.Order, nameViewHits, q.Hits)
	r, err := c.send(ctx, int64(len(message)), bytes.NewReader(message))
	if err == nil && r.Status >= 400 {
		return nil, errors.Join(&web.Error{Status: r.Status, Message: r.Header.Error}, r.Close())
	}
	return r, err
}

// Send submits objects, the SOIF in body, to a catalog: to insert or update them, or, if
// typ is [RDResponseDeleted], to delete them. The answer has a result for each object; its
// Status and Error sum them up.
func (c *Client) Send(ctx context.Context, typ Type, catalog string, body io.Reader) (*Reply, error) {
	head := Header{Type: typ, Catalog: catalog}
	return c.send(ctx, -1, io.MultiReader(bytes.NewReader(head.append(nil)), body))
}

func (c *Client) send(ctx context.Context, size int64, body io.Reader) (*Reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, io.NopCloser(body))
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", MediaType)
	req.Header.Set("Accept", MediaType+", application/rdm;q=0.9")
	if c.UserAgent != "" {
		req.Header.Set("User-Agent", c.UserAgent)
	}
	resp, err := cmp.Or(c.HTTP, http.DefaultClient).Do(req)
	if err != nil {
		return nil, err
	}
	r := &Reply{Status: resp.StatusCode, body: resp.Body, in: soif.NewReader(resp.Body)}
	r.Until, _ = http.ParseTime(resp.Header.Get("Last-Modified"))
	if err := r.readHeader(resp.Header.Get("Content-Type")); err != nil {
		if r.Status >= 400 {
			err = &web.Error{Status: r.Status}
		}
		return nil, errors.Join(err, resp.Body.Close())
	}
	return r, nil
}

func (r *Reply) readHeader(contentType string) error {
	if media, _, _ := mime.ParseMediaType(contentType); !isMedia(media) {
		return fmt.Errorf("answer is %.60q, not %s", contentType, MediaType)
	}
	o, err := r.in.Read()
	if err == io.EOF {
		return errors.New("answer is empty")
	}
	if err == nil {
		r.Header, err = parseHeader(&o)
	}
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}
