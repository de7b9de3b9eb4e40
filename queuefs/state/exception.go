package state

import (
	"bytes"
	"encoding/xml"
	"strconv"
	"strings"
)

// ExceptionClass is the class of the state in answers to failed requests. The
// names are those of Merritt's exceptions, without the details of the program.
var ExceptionClass = &Class{
	Prefix: "exc", Root: "exceptionState", Namespace: namespace + "exception",
	Terms: []Term{
		{Name: "status"}, // such as REQUESTED_ITEM_NOT_FOUND
		{Name: "hTTPResponse", Type: Integer},
		{Name: "description"}, // of the status
		{Name: "detail"},      // of this case
	},
}

// An Exception says why a request was not served.
type Exception struct {
	Status int    // of HTTP
	Detail string // the thing and its error; "" if that is not for the caller
}

var statuses = map[int]struct{ name, description string }{
	400: {"REQUEST_INVALID", "badly-formed request"},
	401: {"USER_NOT_AUTHENTICATED", "unauthorized user agent"},
	403: {"USER_NOT_AUTHORIZED", "user agent has no right to do this"},
	404: {"REQUESTED_ITEM_NOT_FOUND", "request names something that does not exist"},
	405: {"METHOD_NOT_ALLOWED", "method is not allowed here"},
	408: {"REQUEST_TIMEOUT", "request came too slowly"},
	409: {"REQUEST_ITEM_CONFLICT", "request does not fit the present state"},
	410: {"REQUESTED_ITEM_GONE", "what the request is about is over"},
	411: {"LENGTH_REQUIRED", "request needs a length"},
	412: {"PRECONDITION_FAILED", "condition of the request is not met"},
	413: {"REQUEST_TOO_LARGE", "request is larger than this service accepts"},
	415: {"UNSUPPORTED_FORM", "request or response form is not supported"},
	421: {"MISDIRECTED_REQUEST", "this service is not known by that name"},
	429: {"TOO_MANY_REQUESTS", "too many requests"},
	500: {"GENERAL_EXCEPTION", "service error"},
	501: {"UNSUPPORTED_FUNCTION", "function is not supported"},
	503: {"SERVICE_UNAVAILABLE", "service unavailable"},
	507: {"INSUFFICIENT_STORAGE", "service is out of space"},
}

// OfException returns the state of an exception.
func OfException(e Exception) Document {
	s, ok := statuses[e.Status]
	if !ok {
		s = statuses[500]
		if e.Status < 500 {
			s = statuses[400]
		}
	}
	b := newBuilder(ExceptionClass)
	b.text("status", s.name)
	b.integer("hTTPResponse", int64(e.Status))
	b.text("description", s.description)
	b.optional("detail", e.Detail)
	return b.document()
}

// Exception returns the exception in the state d, of class [ExceptionClass].
func (d *Document) Exception() Exception {
	return Exception{Status: int(d.integer("hTTPResponse", 0)), Detail: d.Text("detail")}
}

// DetailOf returns the detail of an exception written in form f, "" if it has
// none or is no exception.
func DetailOf(f Form, data []byte) string {
	switch f {
	case ANVL, JSON:
		d, err := f.Decode(ExceptionClass, data)
		if err != nil {
			return ""
		}
		return d.Exception().Detail
	case XML:
		return elementText(data, "detail")
	case XHTML, HTML:
		_, row, _ := bytes.Cut(data, []byte(`<th scope="row">detail</th>`))
		return elementText(row, "td")
	case Turtle:
		_, object, _ := strings.Cut(string(data), ExceptionClass.Prefix+":detail ")
		quoted, _ := strconv.QuotedPrefix(object)
		text, _ := strconv.Unquote(quoted)
		return text
	case SOIF:
		_, value, _ := strings.Cut(string(data), "\ndetail{")
		length, value, _ := strings.Cut(value, "}:\t")
		if n, err := strconv.Atoi(length); err == nil && n >= 0 && n <= len(value) {
			return value[:n]
		}
	}
	return ""
}

// elementText returns the text in the first element with a local name.
func elementText(data []byte, local string) string {
	var text []byte
	depth := 0 // of elements, 0 before the first
	for d := xml.NewDecoder(bytes.NewReader(data)); ; {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		switch token := token.(type) {
		case xml.StartElement:
			if depth > 0 || token.Name.Local == local {
				depth++
			}
		case xml.CharData:
			if depth > 0 {
				text = append(text, token...)
			}
		case xml.EndElement:
			if depth == 1 {
				return string(text)
			}
			depth = max(0, depth-1)
		}
	}
}
