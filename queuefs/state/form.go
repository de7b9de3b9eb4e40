package state

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"cutie/publisher/soif"
	"cutie/queuefs/anvl"
)

// ErrForm is the error for an unknown response form; the answer is 415 (Cutie
// 5.2).
var ErrForm = errors.New("unsupported response form")

// A Form is a form of state (Cutie 4). The zero Form is none.
type Form uint8

const (
	ANVL Form = 1 + iota
	JSON
	Turtle
	XHTML
	XML
	SOIF
	HTML // XHTML under the name text/html, for clients of no other
)

// Default is the form of an answer to a request for no certain form (Cutie 4).
const Default = XHTML

var forms = [...]struct {
	name, alias string
	media       []string // the first is written
}{
	ANVL:   {"anvl", "txt", []string{"text/x-anvl", "text/anvl"}},
	JSON:   {"json", "json", []string{"application/json"}},
	Turtle: {"turtle", "ttl", []string{"text/turtle", "text/x-turtle"}},
	XHTML:  {"xhtml", "html", []string{"application/xhtml+xml"}},
	XML:    {"xml", "xml", []string{"application/xml", "text/xml"}},
	SOIF:   {"soif", "soif", []string{"application/x-soif"}},
	HTML:   {"text/html", "text/html", []string{"text/html; charset=utf-8", "text/html"}},
}

// preferred are the forms, the one preferred by us first.
var preferred = [...]Form{XHTML, HTML, JSON, ANVL, XML, Turtle, SOIF}

// String returns the name of the form in ?t=.
func (f Form) String() string {
	if f.known() {
		return forms[f].name
	}
	return fmt.Sprintf("Form(%d)", f)
}

func (f Form) known() bool { return f > 0 && int(f) < len(forms) }

// MediaType returns the media type of answers in this form, "" for none of the
// forms.
func (f Form) MediaType() string {
	if f.known() {
		return forms[f].media[0]
	}
	return ""
}

// ParseForm returns the form of the given name, file name extension or media type
// (Cutie 4), in any case: anvl (txt), json, turtle (rdf/turtle, ttl, rdf), xhtml
// (html), xml and soif. An extension may have its dot. The error wraps [ErrForm].
func ParseForm(name string) (Form, error) {
	low := strings.TrimPrefix(strings.ToLower(name), ".")
	switch low {
	case "rdf", "rdf/turtle":
		return Turtle, nil
	case "application/xhtml xml": // a plus sign in a URL arrives as a blank
		return XHTML, nil
	}
	for f := ANVL; f.known(); f++ {
		if low == forms[f].name || low == forms[f].alias {
			return f, nil
		}
		for _, m := range forms[f].media {
			if low == m {
				return f, nil
			}
		}
	}
	return 0, fmt.Errorf("%w: %.40q", ErrForm, name)
}

// FormOf returns the form of an answer with the given Content-Type header. The
// error wraps [ErrForm].
func FormOf(contentType string) (Form, error) {
	media, _, _ := strings.Cut(contentType, ";")
	return ParseForm(strings.TrimSpace(media))
}

// Negotiate returns the form to answer in. t is the query parameter of this
// name; it decides unless it is empty. accept is the Accept header. Without any
// wish the form is [Default]. A page is [HTML] if accept prefers it to [XHTML].
// For an unknown form the error wraps [ErrForm].
func Negotiate(t, accept string) (Form, error) {
	if t != "" {
		f, err := ParseForm(t)
		if f == XHTML && accept != "" {
			if a := ParseAccept(accept); a.Quality("text/html") > a.Quality(XHTML.MediaType()) {
				f = HTML
			}
		}
		return f, err
	}
	switch accept {
	case "", "*/*":
		return Default, nil
	case forms[ANVL].media[0]:
		return ANVL, nil
	case forms[JSON].media[0]:
		return JSON, nil
	}
	var (
		a    = ParseAccept(accept)
		best Form
		most float64
	)
	for _, f := range preferred {
		for _, m := range forms[f].media {
			if q := a.Quality(m); q > most {
				best, most = f, q
			}
		}
	}
	if best == 0 {
		return 0, fmt.Errorf("%w: %.80q", ErrForm, accept)
	}
	return best, nil
}

// An Accept is a parsed Accept header (RFC 9110, 12.5.1).
type Accept []mediaRange

type mediaRange struct {
	kind, sub string // lower case; "*" is any
	q         float64
}

// ParseAccept reads an Accept header. Unintelligible parts are left out;
// parameters other than q do not count.
func ParseAccept(header string) Accept {
	var a Accept
	for part := range strings.SplitSeq(header, ",") {
		media, params, _ := strings.Cut(part, ";")
		kind, sub, ok := strings.Cut(strings.ToLower(strings.TrimSpace(media)), "/")
		if !ok || kind == "" || sub == "" || kind == "*" && sub != "*" {
			continue
		}
		r := mediaRange{kind, sub, 1}
		for p := range strings.SplitSeq(params, ";") {
			name, value, _ := strings.Cut(p, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "q") {
				continue
			}
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(q >= 0 && q <= 1) {
				q = 0
			}
			r.q = q
		}
		a = append(a, r)
	}
	return a
}

// Quality returns how welcome a media type without parameters is, from 0, not
// at all, to 1. The most specific range decides. An Accept without ranges
// welcomes everything.
func (a Accept) Quality(mediaType string) float64 {
	if len(a) == 0 {
		return 1
	}
	mediaType, _, _ = strings.Cut(mediaType, ";")
	kind, sub, _ := strings.Cut(strings.ToLower(mediaType), "/")
	quality, specific := 0.0, 0
	for _, r := range a {
		n := 0
		switch {
		case r.kind == kind && r.sub == sub:
			n = 3
		case r.kind == kind && r.sub == "*":
			n = 2
		case r.kind == "*":
			n = 1
		}
		if n > specific {
			quality, specific = r.q, n
		}
	}
	return quality
}

// Append appends d in form f to dst. It panics if f is none.
func (f Form) Append(dst []byte, d *Document) []byte {
	switch f {
	case ANVL:
		return appendANVL(dst, d)
	case JSON:
		return appendJSON(dst, d)
	case Turtle:
		return appendTurtle(dst, d)
	case XHTML, HTML:
		return appendXHTML(dst, d)
	case XML:
		return appendXML(dst, d)
	case SOIF:
		return appendSOIF(dst, d)
	}
	panic("state: " + f.String() + " is no form")
}

// appendANVL appends d as one ANVL record; a list is its items, and of paired lists
// each item stands with the other.
func appendANVL(dst []byte, d *Document) []byte {
	for i := 0; i < len(d.Properties); i++ {
		p := &d.Properties[i]
		if p.Item == "" {
			dst = anvl.AppendElement(dst, p.Name, p.Text)
			continue
		}
		of := p.partner(d.Properties[i+1:])
		for n, item := range p.Items {
			dst = anvl.AppendElement(dst, p.Item, item)
			if of != nil {
				dst = anvl.AppendElement(dst, of.Item, of.Items[n])
			}
		}
		if of != nil {
			i++
		}
	}
	return dst
}

// partner returns the next property if its items belong to those of p, or nil.
func (p *Property) partner(next []Property) *Property {
	if !p.Paired || len(next) == 0 || len(next[0].Items) != len(p.Items) {
		return nil
	}
	return &next[0]
}

// appendSOIF appends d as one object of SOIF: its type is the root element, its
// URL the URL of the state, and the items of a list are numbered from 1.
func appendSOIF(dst []byte, d *Document) []byte {
	o := soif.Object{Type: d.Class.Root, URL: d.Subject}
	for i := range d.Properties {
		p := &d.Properties[i]
		if p.Item == "" {
			o.Add(p.Name, p.Text)
		}
		for n, item := range p.Items {
			o.Add(p.Item+"-"+strconv.Itoa(n+1), item)
		}
	}
	if o.Check() != nil {
		o.URL = ""
	}
	return o.Append(dst)
}

// appendXML appends d as an XML document, laid out as Merritt did.
func appendXML(dst []byte, d *Document) []byte {
	c := d.Class
	dst = append(dst, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<"...)
	dst = append(appendPrefixed(dst, c.Prefix, c.Root), " xmlns:"...)
	dst = append(append(dst, c.Prefix...), `="`...)
	dst = append(append(dst, c.Namespace...), "\">\n"...)
	for i := range d.Properties {
		p := &d.Properties[i]
		if p.Item == "" {
			dst = appendElement(append(dst, "    "...), c.Prefix, p.Name, p.Text)
			continue
		}
		dst = append(appendPrefixed(append(dst, "    <"...), c.Prefix, p.Name), ">\n"...)
		for _, item := range p.Items {
			dst = appendElement(append(dst, "        "...), c.Prefix, p.Item, item)
		}
		dst = append(appendPrefixed(append(dst, "    </"...), c.Prefix, p.Name), ">\n"...)
	}
	dst = appendPrefixed(append(dst, "</"...), c.Prefix, c.Root)
	return append(dst, ">\n"...)
}

func appendPrefixed(dst []byte, prefix, name string) []byte {
	dst = append(append(dst, prefix...), ':')
	return append(dst, name...)
}

func appendElement(dst []byte, prefix, name, text string) []byte {
	dst = append(appendPrefixed(append(dst, '<'), prefix, name), '>')
	dst = attributeEscapes.append(dst, text)
	return append(appendPrefixed(append(dst, "</"...), prefix, name), ">\n"...)
}

// escapes are what stands for some characters of ASCII in a form.
type escapes [utf8.RuneSelf]string

func (e *escapes) append(dst []byte, s string) []byte {
	start := 0 // of the part not yet appended
	for i := range len(s) {
		if c := s[i]; c < utf8.RuneSelf && e[c] != "" {
			dst = append(append(dst, s[start:i]...), e[c]...)
			start = i + 1
		}
	}
	return append(dst, s[start:]...)
}

var (
	xmlEscapes = escapes{'<': "&lt;", '>': "&gt;", '&': "&amp;", '"': "&quot;", '\r': "&#13;"}
	// attributeEscapes are for values in double quotes, and for text that keeps its line ends
	// and tabs when a document is laid out anew.
	attributeEscapes = escapes{'<': "&lt;", '>': "&gt;", '&': "&amp;", '"': "&quot;",
		'\r': "&#13;", '\n': "&#10;", '\t': "&#9;"}
)
