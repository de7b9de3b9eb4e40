package rdm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

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

// Begin returns the header of a message to a server. typ may have any case, and be short
// like schema-request. catalog is a Catalog-Service-ID, or the name of a catalog of the
// server; "" is its default.
func Begin(server, typ, catalog string) (head soif.Object, err error) {
	k, err := kindOf(typ)
	if err != nil {
		return head, err
	}
	if catalog != "" && !strings.Contains(catalog, "://") {
		catalog = catalogIDOf(server, catalog)
	}
	head = object(headerObject, "", nameVersion, "1.0", nameType, k.name, nameLanguage, k.language, nameCatalog, catalog)
	return head, nil
}

// Query returns the object behind the header of a request. Empty values are not sent.
func Query(scope, attributes, order, hits string) soif.Object {
	return object(queryObject, "", nameScope, scope, nameViewAttributes, attributes, nameViewOrder, order,
		nameViewHits, hits)
}

// Since returns the scope of changes at an instant, or later in its second.
func Since(t time.Time) string { return "since " + httpDate(t) }

// A Reply is the answer to a message: a reader of the objects behind its header. Close it
// after use.
type Reply struct {
	*soif.Reader
	io.Closer
	Accepted, Rejected int    // objects of a submission
	Mended             string // what the server mended in the message it answers; "" if nothing
	Note               string // RDM-Error-Message of an answer that is no error, such as "0 results"
	// Err is an error in the answer, an [*web.Error]. Objects may follow it.
	Err error
	// Until is the instant of the answer: a request since then completes it. It
	// is zero if the server does not say.
	Until time.Time
}

// Post sends a message to a server.
func Post(ctx context.Context, client *http.Client, server, userAgent string, head soif.Object, body []byte) (
	*Reply, error) {
	message := append(head.Append(nil), body...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server, bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", MediaType)
	req.Header.Set("Accept", MediaType+", application/rdm;q=0.9")
	req.Header.Set("User-Agent", userAgent)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	r := &Reply{Reader: soif.NewReader(resp.Body), Closer: resp.Body}
	if err := r.open(resp, strings.Contains(head.Value(nameType), "-request")); err != nil {
		if resp.StatusCode >= 400 {
			err = &web.Error{Status: resp.StatusCode}
		}
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// open reads the header of an answer.
func (r *Reply) open(resp *http.Response, asked bool) error {
	if t := resp.Header.Get("Content-Type"); !isMedia(t) {
		return fmt.Errorf("answer is %.60q, not %s", t, MediaType)
	}
	head, err := r.Read()
	switch {
	case err == io.EOF:
		return errors.New("answer is empty")
	case err != nil:
		return fmt.Errorf("answer: %w", err)
	case !head.Is(headerObject):
		return fmt.Errorf("answer begins with %.40q, not with %s", head.Type, headerObject)
	}
	r.Until, _ = http.ParseTime(resp.Header.Get("Last-Modified"))
	r.Mended, r.Note = head.Value(nameMended), head.Value(nameError)
	if resp.StatusCode >= 400 || r.Note != "" && !strings.HasPrefix(r.Note, "0 ") { // others have no status for it
		r.Err = &web.Error{Status: max(resp.StatusCode, http.StatusBadRequest), Message: r.Note}
		return nil
	}
	said := head.Value(nameInterpret)
	if _, err := fmt.Sscanf(said, "%d accepted, %d rejected", &r.Accepted, &r.Rejected); err != nil && !asked {
		r.Err = fmt.Errorf("the server does not say how many objects it accepted, but %q", said)
	}
	return nil
}
