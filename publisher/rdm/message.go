package rdm

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/soif"
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
