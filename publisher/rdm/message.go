package rdm

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

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

// keys are the keys of a request in a URL, in lower case: short names, and those of the
// attributes.
var keys = map[string]string{
	"type": nameType, "rdm-type": nameType, "ql": nameLanguage, "rdm-query-language": nameLanguage,
	"csid": nameCatalog, "catalog-service-id": nameCatalog, "scope": nameScope,
	"view-attributes": nameViewAttributes, "view-order": nameViewOrder, "view-hits": nameViewHits,
}

// MediaType is the type of messages.
const MediaType = "application/x-rdm"

// isMedia reports whether messages are read from this type.
func isMedia(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == MediaType || media == "application/rdm" || media == "text/plain")
}

// Types of messages that submit and delete descriptions.
const (
	Submit = "rd-response"
	Delete = "rd-response-deleted"
)

const statusResponse = "status-response"

// A kind is a type of messages (RDM Header), with the type of the answer and the query
// language, "" if it has none.
type kind struct {
	name, reply, language string
	answer                func(*exchange) error
}

// deleted reports whether the kind is about descriptions that are no longer there.
func (k *kind) deleted() bool { return strings.HasSuffix(k.name, "-deleted") }

// asks reports whether the kind has a query, not descriptions.
func (k *kind) asks() bool { return strings.Contains(k.name, "-request") }

// kinds returns the messages that are taken.
func kinds() []kind {
	return []kind{
		{"rd-request", "rd-response", "gatherer", (*exchange).retrieve},
		{"rd-request-deleted", "rd-response-deleted", "gatherer", (*exchange).retrieve},
		{Submit, statusResponse, "", (*exchange).submit},
		{Delete, statusResponse, "", (*exchange).submit},
		{"schema-description-request", "schema-description-response", "schema-basic", (*exchange).describeSchema},
		{"server-description-request", "server-description-response", "", (*exchange).describeServer},
		{"taxonomy-description-request", "taxonomy-description-response", "taxonomy-basic", (*exchange).describeTaxonomy},
		{"status-request", statusResponse, "", (*exchange).describeStatus},
	}
}

// kindOf reads a type in any case, and short names like schema-request.
func kindOf(typ string) (*kind, error) {
	var names []string
	for _, k := range kinds() {
		if strings.EqualFold(typ, k.name) || strings.EqualFold(typ, strings.Replace(k.name, "-description", "", 1)) {
			return &k, nil
		}
		names = append(names, k.name)
	}
	return nil, badRequest("%s %.60q is none of %s", nameType, typ, strings.Join(names, ", "))
}

// object makes an object of names and values. Empty values are left out.
func object(typ, url string, pairs ...string) soif.Object {
	o := soif.Object{Type: typ, URL: url}
	add(&o, pairs...)
	return o
}

func add(o *soif.Object, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			o.Add(pairs[i], pairs[i+1])
		}
	}
}

// readURL reads a request in the URL (Using the GET method). Unknown keys are
// ignored.
func (x *exchange) readURL() error {
	query, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return badRequest("query: %v", err)
	}
	for key, all := range query {
		name := keys[strings.ToLower(key)]
		if name == "" {
			continue
		}
		if _, twice := x.asked.Lookup(name); twice || len(all) > 1 {
			return badRequest("key %.40q is repeated", key)
		}
		x.asked.Add(name, all[0])
	}
	if x.said(nameType) == "" {
		return badRequest("no type is given, such as type=status-request")
	}
	if x.kind, err = kindOf(x.said(nameType)); err != nil {
		return err
	}
	if !x.kind.asks() {
		return badRequest("type %v is not asked for, but posted", x.kind.name)
	}
	return x.readQuery()
}

// readBody reads a request in the body (Using the POST method), or the header of a
// submission.
func (x *exchange) readBody() error {
	const maxHead = 64 << 10 // bytes of a header, before the right of the caller is known, and of a query
	if err := x.openBody(); err != nil {
		return err
	}
	x.in.Limit = maxHead
	head, err := x.in.Read()
	switch {
	case err == io.EOF:
		return badRequest("message is empty")
	case err != nil:
		return err
	case !head.Is(headerObject):
		return badRequest("message begins with %.40q, not with %s", head.Type, headerObject)
	}
	x.asked = head
	for _, name := range []string{nameVersion, nameType} {
		if _, ok := head.Lookup(name); !ok {
			return badRequest("%s has no %s", headerObject, name)
		}
	}
	if v := x.said(nameVersion); v != "1" && !strings.HasPrefix(v, "1.") {
		return badRequest("%s %.20q is not 1.0", nameVersion, v)
	}
	if x.kind, err = kindOf(x.said(nameType)); err != nil {
		return err
	}
	if !x.kind.asks() {
		x.in.Limit = 0
		return nil
	}
	query, err := x.in.Read()
	if err == nil && !query.Is(queryObject) {
		return badRequest("%.40q follows the header, not %s", query.Type, queryObject)
	}
	if err == nil {
		x.asked.Attributes = append(x.asked.Attributes, query.Attributes...)
		var more soif.Object
		if more, err = x.in.Read(); err == nil {
			return badRequest("%.40q follows the query, where the message ends", more.Type)
		}
	}
	if err != io.EOF {
		return err
	}
	return x.readQuery()
}

func (x *exchange) openBody() error {
	if t := x.r.Header.Get("Content-Type"); t != "" && !isMedia(t) {
		return web.Errorf(http.StatusUnsupportedMediaType, "a message is of the type %s", MediaType)
	}
	// A message of HTTP/1.0 ends with its connection unless it says where: its end
	// could not be told from a broken one.
	if !x.r.ProtoAtLeast(1, 1) && x.r.Header.Get("Content-Length") == "" {
		return web.Errorf(http.StatusLengthRequired, "a message over HTTP/1.0 needs a Content-Length")
	}
	limit := x.h.o.MaxBody
	b, err := web.NewBodyReader(x.w, x.r, limit, web.BodyIdle)
	if err != nil {
		return err
	}
	x.in = soif.NewReader(b)
	switch coding := strings.ToLower(strings.TrimSpace(x.r.Header.Get("Content-Encoding"))); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(b)
		if err != nil {
			return notGzip(err)
		}
		x.in = soif.NewReader(&unpacked{z, limit, limit})
	default:
		x.w.Header().Set("Accept-Encoding", "gzip, x-gzip")
		return web.Errorf(http.StatusUnsupportedMediaType, "unsupported content coding, gzip is taken")
	}
	x.in.Memory = x.memory.Grow
	return nil
}

// unpacked is a compressed message of at most limit bytes.
type unpacked struct {
	from        io.Reader
	left, limit int64
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	switch u.left -= int64(n); {
	case u.left < 0:
		return 0, web.Errorf(http.StatusRequestEntityTooLarge, "message has more than %d bytes", u.limit)
	case err != nil && err != io.EOF:
		err = notGzip(err)
	}
	return n, err
}

func notGzip(err error) error {
	if _, ok := errors.AsType[*web.Error](err); ok {
		return err
	}
	return badRequest("message is not what its content coding says: %v", err)
}

// readQuery checks the language of a query, and reads its view.
func (x *exchange) readQuery() (err error) {
	language, want := x.said(nameLanguage), x.kind.language
	if want != "" && language != "" && !strings.EqualFold(language, want) {
		return badRequest("unsupported query language: %.60s", strings.ToValidUTF8(language, "\ufffd"))
	}
	x.view, err = parseView(x.said(nameViewAttributes), x.said(nameViewOrder), x.said(nameViewHits))
	return err
}

// parseSince reads the scopes of the query language gatherer: since when things
// are wanted, the zero time for all of them.
func parseSince(scope string) (since time.Time, err error) {
	word, date, _ := strings.Cut(scope, " ")
	date = strings.TrimSpace(date)
	switch {
	case scope == "", strings.EqualFold(scope, "all"):
	case !strings.EqualFold(word, "since"):
		err = badRequest("scope %.60q is neither all nor since DATE", scope)
	default:
		if since, err = http.ParseTime(date); err != nil {
			err = badRequest("scope: date %.60q is not like %s", date, http.TimeFormat)
		}
	}
	return since, err
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
	if hits == "" {
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

// wants reports whether hit number n is in the view.
func (v *view) wants(n int64) bool { return n >= v.first && !v.past(n) }

// past reports whether hit number n comes after the view.
func (v *view) past(n int64) bool { return v.last > 0 && n > v.last }

// has reports whether an attribute is in the view: by its name, or by its name
// without the number of a value.
func (v *view) has(name string) bool {
	base, _ := soif.Base(name)
	return v.attributes == nil || slices.ContainsFunc(v.attributes, func(want string) bool {
		return strings.EqualFold(want, name) || strings.EqualFold(want, base)
	})
}

// keep removes attributes outside of the view.
func (v *view) keep(o *soif.Object) {
	o.Attributes = slices.DeleteFunc(o.Attributes, func(a soif.Attribute) bool { return !v.has(a.Name) })
}
