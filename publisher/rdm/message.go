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
	"strconv"
	"strings"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

// Template types of the objects of a message.
const (
	headerObject         = "RDMHEADER"
	queryObject          = "RDMQUERY"
	statusObject         = "RDMSTATUS"
	serverObject         = "RDMSERVER"
	documentObject       = "DOCUMENT"
	schemaObject         = "SCHEMA"
	taxonomyObject       = "TAXONOMY"
	classificationObject = "CLASSIFICATION"
)

// Names of the attributes of a header and a query.
const (
	nameVersion   = "RDM-Version"
	nameType      = "RDM-Type"
	nameLanguage  = "RDM-Query-Language"
	nameCatalog   = "Catalog-Service-ID"
	nameInterpret = "RDM-Response-Interpret"
	nameError     = "RDM-Error-Message"
	nameMended    = "RDM-Mended" // an addition

	nameScope          = "Scope"
	nameViewAttributes = "View-Attributes"
	nameViewOrder      = "View-Order"
	nameViewHits       = "View-Hits"
)

// MediaType is the type of messages.
const MediaType = "application/x-rdm"

// isMedia reports whether messages are read from this type.
func isMedia(t string) bool {
	return t == MediaType || t == "application/rdm" || t == "text/plain"
}

// A Type is the type of a message (RDM Header), in lower case.
type Type string

const (
	RDRequest         Type = "rd-request"
	RDResponse        Type = "rd-response"
	RDRequestDeleted  Type = "rd-request-deleted"
	RDResponseDeleted Type = "rd-response-deleted"
	SchemaRequest     Type = "schema-description-request"
	SchemaResponse    Type = "schema-description-response"
	ServerRequest     Type = "server-description-request"
	ServerResponse    Type = "server-description-response"
	TaxonomyRequest   Type = "taxonomy-description-request"
	TaxonomyResponse  Type = "taxonomy-description-response"
	StatusRequest     Type = "status-request"
	StatusResponse    Type = "status-response"
)

var types = []Type{RDRequest, RDResponse, RDRequestDeleted, RDResponseDeleted, SchemaRequest, SchemaResponse,
	ServerRequest, ServerResponse, TaxonomyRequest, TaxonomyResponse, StatusRequest, StatusResponse}

// ParseType reads a type in any case, and short names like schema-request.
func ParseType(s string) (Type, error) {
	for _, t := range types {
		if strings.EqualFold(s, string(t)) || strings.EqualFold(s, strings.Replace(string(t), "-description", "", 1)) {
			return t, nil
		}
	}
	return "", fmt.Errorf("RDM-Type %.60q is none of %s", s, joined(types))
}

func joined(types []Type) string {
	list := make([]string, len(types))
	for i, t := range types {
		list[i] = string(t)
	}
	return strings.Join(list, ", ")
}

// IsRequest reports whether messages of the type are requests.
func (t Type) IsRequest() bool { return strings.Contains(string(t), "-request") }

// reply is the type of the answer.
func (t Type) reply() Type {
	if t.IsRequest() {
		return Type(strings.Replace(string(t), "-request", "-response", 1))
	}
	return StatusResponse
}

// languages are the query languages, by type.
var languages = map[Type]string{RDRequest: "gatherer", RDRequestDeleted: "gatherer",
	SchemaRequest: "schema-basic", TaxonomyRequest: "taxonomy-basic"}

// A Header begins a message (RDM Header).
type Header struct {
	Type      Type
	Language  string
	Catalog   string // Catalog-Service-ID
	Interpret string // RDM-Response-Interpret
	Error     string // RDM-Error-Message; "" if there was none
	Mended    string // what the server mended in the message it answers; "" if nothing
}

// append appends the header as an object.
func (h *Header) append(dst []byte) []byte {
	return appendObject(dst, headerObject, nameVersion, "1.0", nameType, string(h.Type), nameLanguage, h.Language,
		nameCatalog, h.Catalog, nameInterpret, h.Interpret, nameError, h.Error, nameMended, h.Mended)
}

// appendObject appends an object without a URL. pairs are names and values; empty values
// are left out.
func appendObject(dst []byte, typ string, pairs ...string) []byte {
	return soif.AppendEnd(appendPairs(soif.AppendHead(dst, typ, ""), pairs...))
}

func appendPairs(dst []byte, pairs ...string) []byte {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			dst = soif.AppendAttribute(dst, pairs[i], pairs[i+1])
		}
	}
	return dst
}

// parseHeader reads the first object of a message.
func parseHeader(o *soif.Object) (h Header, err error) {
	if !o.Is(headerObject) {
		return h, fmt.Errorf("message begins with %.40q, not with %s", o.Type, headerObject)
	}
	for _, name := range []string{nameVersion, nameType} {
		if _, ok := o.Lookup(name); !ok {
			return h, fmt.Errorf("%s has no %s", headerObject, name)
		}
	}
	if v := strings.TrimSpace(o.Value(nameVersion)); v != "1" && !strings.HasPrefix(v, "1.") {
		return h, fmt.Errorf("%s %.20q is not 1.0", nameVersion, v)
	}
	h.Type, err = ParseType(strings.TrimSpace(o.Value(nameType)))
	h.Language, h.Catalog = strings.TrimSpace(o.Value(nameLanguage)), strings.TrimSpace(o.Value(nameCatalog))
	h.Interpret, h.Error, h.Mended = o.Value(nameInterpret), o.Value(nameError), o.Value(nameMended)
	return h, err
}

// A view is the part of a result to send, and its order (RDM View
// Specification). The zero view is everything.
type view struct {
	attributes  []string // nil: all; the URL is always sent
	order       []sortKey
	first, last int64 // hits, from 1 on; 0: no limit
}

type sortKey struct {
	name       string
	descending bool
}

func parseView(attributes, order, hits string) (v view, err error) {
	const most = 8 << 10
	if len(attributes) > most || len(order) > most {
		return v, badRequest("view has more than %d bytes", most)
	}
	v.attributes = listed(attributes)
	for _, name := range listed(order) {
		// A plus sign in a URL arrives as a blank.
		k := sortKey{name: strings.TrimSpace(strings.TrimLeft(name, "+-")), descending: name[0] == '-'}
		if k.name == "" {
			return v, badRequest("%s %.80q names no attribute", nameViewOrder, order)
		}
		v.order = append(v.order, k)
	}
	if hits = strings.TrimSpace(hits); hits == "" {
		return v, nil
	}
	first, last, ranged := strings.Cut(hits, "..")
	if !ranged {
		first, last = "1", hits
	}
	var err1, err2 error
	v.first, err1 = strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	if last = strings.TrimSpace(last); last != "" {
		v.last, err2 = strconv.ParseInt(last, 10, 64)
	}
	if err1 != nil || err2 != nil || v.first < 1 || last != "" && v.last < v.first {
		return v, badRequest("%s %.40q is none of 10, 11..20, 11..", nameViewHits, hits)
	}
	return v, nil
}

// listed splits a list; empty parts do not count.
func listed(list string) (all []string) {
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// hits returns how many of n results are wanted.
func (v *view) hits(n int64) int64 {
	if v.last > 0 {
		n = min(n, v.last)
	}
	return max(0, n-max(v.first, 1)+1)
}

// wants reports whether hit number n is in the view.
func (v *view) wants(n int64) bool { return n >= v.first && !v.past(n) }

// past reports whether hit number n comes after the view.
func (v *view) past(n int64) bool { return v.last > 0 && n > v.last }

// has reports whether an attribute is in the view: by its name, or by its name
// without the number of a value.
func (v *view) has(name string) bool {
	if v.attributes == nil {
		return true
	}
	base, _ := soif.Base(name)
	for _, want := range v.attributes {
		if strings.EqualFold(want, name) || strings.EqualFold(want, base) {
			return true
		}
	}
	return false
}

// keep removes attributes outside of the view.
func (v *view) keep(o *soif.Object) {
	kept := o.Attributes[:0]
	for _, a := range o.Attributes {
		if v.has(a.Name) {
			kept = append(kept, a)
		}
	}
	o.Attributes = kept
}

// parseSince reads the scopes of the query language gatherer: since when things
// are wanted, the zero time for all of them.
func parseSince(scope string) (time.Time, error) {
	word, rest, _ := strings.Cut(scope, " ")
	switch {
	case scope == "", strings.EqualFold(scope, "all"):
		return time.Time{}, nil
	case strings.EqualFold(word, "since"):
		t, err := http.ParseTime(strings.TrimSpace(rest))
		if err != nil {
			return t, badRequest("scope: date %.60q is not like %s", strings.TrimSpace(rest), http.TimeFormat)
		}
		return t, nil
	}
	return time.Time{}, badRequest("scope %.60q is neither all nor since DATE", scope)
}

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
