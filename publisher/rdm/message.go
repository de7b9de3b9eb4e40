package rdm

import (
	"fmt"
	"strings"

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

// version is the version of RDM spoken here.
const version = "1.0"

// MediaType is the type of messages.
const MediaType = "application/x-rdm"

// A Type is the type of a message (RDM Header). The zero Type is none.
type Type uint8

const (
	RDRequest Type = 1 + iota
	RDResponse
	RDRequestDeleted
	RDResponseDeleted
	SchemaRequest
	SchemaResponse
	ServerRequest
	ServerResponse
	TaxonomyRequest
	TaxonomyResponse
	StatusRequest
	StatusResponse
)

var typeNames = [...]string{
	RDRequest: "rd-request", RDResponse: "rd-response",
	RDRequestDeleted: "rd-request-deleted", RDResponseDeleted: "rd-response-deleted",
	SchemaRequest: "schema-description-request", SchemaResponse: "schema-description-response",
	ServerRequest: "server-description-request", ServerResponse: "server-description-response",
	TaxonomyRequest: "taxonomy-description-request", TaxonomyResponse: "taxonomy-description-response",
	StatusRequest: "status-request", StatusResponse: "status-response",
}

func (t Type) String() string {
	if t > 0 && int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// ParseType reads a type in any case, and short names like schema-request.
func ParseType(s string) (Type, error) {
	for t, name := range typeNames {
		if name != "" && (strings.EqualFold(s, name) || strings.EqualFold(s, strings.Replace(name, "-description", "", 1))) {
			return Type(t), nil
		}
	}
	return 0, fmt.Errorf("RDM-Type %.60q is none of %s", s, strings.Join(typeNames[1:], ", "))
}

// IsRequest reports whether messages of the type are requests.
func (t Type) IsRequest() bool { return t > 0 && t%2 == 1 }

// reply is the type of the answer.
func (t Type) reply() Type {
	if t.IsRequest() {
		return t + 1
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
	return appendObject(dst, headerObject, []soif.Attribute{{Name: nameVersion, Value: version}, {Name: nameType, Value: h.Type.String()},
		{Name: nameLanguage, Value: h.Language}, {Name: nameCatalog, Value: h.Catalog},
		{Name: nameInterpret, Value: h.Interpret}, {Name: nameError, Value: h.Error}, {Name: nameMended, Value: h.Mended}})
}

// appendObject appends an object without a URL, and without empty attributes.
func appendObject(dst []byte, typ string, attributes []soif.Attribute) []byte {
	dst = soif.AppendHead(dst, typ, "")
	for _, a := range attributes {
		if a.Value != "" {
			dst = soif.AppendAttribute(dst, a.Name, a.Value)
		}
	}
	return soif.AppendEnd(dst)
}

// parseHeader reads the first object of a message.
func parseHeader(o *soif.Object) (h Header, err error) {
	if !o.Is(headerObject) {
		return h, fmt.Errorf("message begins with %.40q, not with %s", o.Type, headerObject)
	}
	v, ok := o.Lookup(nameVersion)
	if !ok {
		return h, fmt.Errorf("%s has no %s", headerObject, nameVersion)
	}
	if v = strings.TrimSpace(v); v != "1" && !strings.HasPrefix(v, "1.") {
		return h, fmt.Errorf("%s %.20q is not 1.0", nameVersion, v)
	}
	typ, ok := o.Lookup(nameType)
	if !ok {
		return h, fmt.Errorf("%s has no %s", headerObject, nameType)
	}
	h.Type, err = ParseType(strings.TrimSpace(typ))
	h.Language, h.Catalog = strings.TrimSpace(o.Value(nameLanguage)), strings.TrimSpace(o.Value(nameCatalog))
	h.Interpret, h.Error, h.Mended = o.Value(nameInterpret), o.Value(nameError), o.Value(nameMended)
	return h, err
}
