// Package state holds the states of a Cutie service, its queues, jobs and
// errors, as documents in several forms (Cutie 0.3, sections 3 and 4).
//
// There is one model: a [Document] is a list of properties in the fixed order
// of its [Class]. The class gives every property a name and a type. Every form
// is written from the Document alone, so the forms cannot differ in content.
//
// The element names are those of Cutie section 3, followed by additional
// properties. The root elements are cut:cutieServiceState, que:queueState,
// job:jobState, bat:batchState and exc:exceptionState.
//
// ANVL has the names without prefix and repeats the inner name of a list, as
// Merritt did. JSON has one plain object with the names without prefix,
//
//	{"@context":{"@vocab":"…/queue/"},"@type":"queueState","@id":"…","name":"Queue01","jobStates":["…"]}
//
// in fixed order, with lists always as arrays, identifiers and versions always as
// strings, and counts as numbers. As JSON-LD it means the same as Turtle, but for
// the types of dates and references. Dates are W3CDTF in UTC with microseconds.
// Properties without a value are left out; the lists named in the specification
// are there even when empty.
//
// XML has the prefixed names in namespaces without # or / at their end, and the
// exact text. Turtle has the names in the same namespaces with a slash at the
// end, the URL of the state as the subject, and every list as one RDF
// collection of its outer name, which keeps the order; cut:queueState and que:jobState
// name the items one by one as well. XHTML is Merritt's table
// of names and values. SOIF has one object: its type is the root element, its
// URL the URL of the state, its attributes the names without prefix, and the
// items of a list are numbered.
//
// Text outside of UTF-8 and of XML 1.0 is U+FFFD in all forms.
package state

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"cutie/queuefs/job"
)

// A Type is the type of a property's text.
type Type uint8

const (
	String    Type = iota // any text in UTF-8
	Integer               // decimal digits, perhaps with a minus sign, within 64 bits
	Boolean               // "true" or "false"
	Date                  // W3CDTF in UTC with microseconds: 2010-04-20T16:00:00.000000Z
	Reference             // URL
	Object                // of JSON, in facts alone
)

// A Term is a possible property of a class of documents.
type Term struct {
	Name string // without prefix
	Type Type   // of the value, or of the items
	Item string // name of the items if the property is a list, else ""
	// Always is set for lists written even when they have no items.
	Always bool
	// Paired is set for a list whose items belong to those of the next property, one by
	// one; ANVL keeps them together.
	Paired bool
}

// A Class is a kind of document: its root element and its properties in order.
type Class struct {
	Prefix string // of the names in XML and Turtle
	Root   string // name of the root element, without prefix
	List   string // name of the element for several of them; "" if there is none
	// Namespace is the namespace of the names in XML. Turtle and JSON-LD put a slash
	// behind it.
	Namespace string
	Terms     []Term
}

// A Property is a term with its value. The fields are not for change.
type Property struct {
	*Term
	Text  string   // the value unless the term is a list; UTF-8 within XML 1.0
	Items []string // the values if the term is a list
}

// A Document is the state of one thing in the order of its class.
type Document struct {
	Class      *Class
	Subject    string // URL of the state, "" if it has none
	Base       Base   // of the service, for the links of a page; "" if unknown
	Properties []Property
	Outline    bool // for a caller who may not read the state: a page has no more than this
}

// Property returns the property of the given name, or nil.
func (d *Document) Property(name string) *Property {
	for i := range d.Properties {
		if d.Properties[i].Name == name {
			return &d.Properties[i]
		}
	}
	return nil
}

// dateLayout is the written form of dates; all of them are UTC.
const dateLayout = "2006-01-02T15:04:05.000000Z"

// A builder makes a Document. Its methods are called in the order of the terms
// and may leave terms out.
type builder struct {
	Document
	next int    // the first term still allowed
	buf  []byte // composed values one behind the other
	cuts []cut

	from *Document // to read the fields from instead; see reader
	err  error     // of such a field
}

// A cut is the part of builder.buf with the text of a property.
type cut struct{ property, from, to int }

// usualTerms is enough for most documents; the others grow.
const usualTerms = 20

func newBuilder(c *Class) *builder {
	b := builders.Get().(*builder)
	*b = builder{
		Document: Document{Class: c, Properties: make([]Property, 0, min(len(c.Terms), usualTerms))},
		buf:      b.buf[:0],
		cuts:     b.cuts[:0],
	}
	return b
}

// builders have been used before; document gives them back.
var builders = sync.Pool{New: func() any {
	return &builder{buf: make([]byte, 0, 640), cuts: make([]cut, 0, usualTerms)}
}}

// add begins a property. It panics if name is out of order: a bug.
func (b *builder) add(name string) *Property {
	for ; b.next < len(b.Class.Terms); b.next++ {
		if t := &b.Class.Terms[b.next]; t.Name == name {
			b.next++
			b.Properties = append(b.Properties, Property{Term: t})
			return &b.Properties[len(b.Properties)-1]
		}
	}
	panic(fmt.Sprintf("state: %s:%s is unknown or out of order", b.Class.Prefix, name))
}

func (b *builder) text(name, s string) { b.add(name).Text = validText(s) }

// optional adds a text unless it is empty.
func (b *builder) optional(name, s string) {
	if s != "" {
		b.text(name, s)
	}
}

func (b *builder) boolean(name string, v bool) {
	b.add(name).Text = strconv.FormatBool(v)
}

func (b *builder) integer(name string, n int64) {
	b.composed(name, strconv.AppendInt(b.buf, n, 10))
}

// date adds a date unless it is zero.
func (b *builder) date(name string, t time.Time) {
	if !t.IsZero() {
		b.composed(name, job.AppendTime(b.buf, t))
	}
}

// composed adds the text appended to b.buf.
func (b *builder) composed(name string, buf []byte) {
	b.add(name)
	b.cuts = append(b.cuts, cut{len(b.Properties) - 1, len(b.buf), len(buf)})
	b.buf = buf
}

// list adds a list, also when it is empty if its term says so.
func (b *builder) list(name string, items []string) {
	p := b.add(name)
	if len(items) == 0 && !p.Always {
		b.Properties = b.Properties[:len(b.Properties)-1]
		return
	}
	p.Items = items
}

func (b *builder) document() Document {
	text := string(b.buf)
	for _, c := range b.cuts {
		b.Properties[c.property].Text = text[c.from:c.to]
	}
	d := b.Document
	if b.Document = (Document{}); cap(b.buf) <= 64<<10 {
		builders.Put(b)
	}
	return d
}

// validText replaces characters outside of UTF-8 and XML 1.0, so all forms have
// the same text.
func validText(s string) string {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 || !isChar(r) {
				return strings.Map(validRune, s)
			}
			i += size
		case c < ' ' && !isChar(rune(c)):
			return strings.Map(validRune, s)
		default:
			i++
		}
	}
	return s
}

func validRune(r rune) rune {
	if isChar(r) {
		return r
	}
	return utf8.RuneError
}

// isChar reports whether r is a Char of XML 1.0.
func isChar(r rune) bool {
	if r < ' ' {
		return r == '\t' || r == '\n' || r == '\r'
	}
	return r != 0xfffe && r != 0xffff
}

// A Base is the URL below which a service answers, without a slash at its end.
// All references are built from it.
type Base string

// NewBase returns the Base of a baseURI, with or without a slash at its end.
func NewBase(baseURI string) Base { return Base(strings.TrimRight(validText(baseURI), "/")) }

// Append appends the reference of the given path to dst: the base and, each
// after a slash, the segments, percent-encoded where they need it. Characters
// allowed in a segment (RFC 3986) stay as they are, so a reference has one
// spelling.
func (b Base) Append(dst []byte, segments ...string) []byte {
	dst = append(dst, b...)
	for _, s := range segments {
		dst = appendSegment(append(dst, '/'), s)
	}
	return dst
}

// Ref returns the reference of the given path; see [Base.Append].
func (b Base) Ref(segments ...string) string {
	return string(b.Append(make([]byte, 0, 96), segments...))
}

// AppendJob appends the reference "kind/queue/job", such as
// "<base>/state/q/j000000000042". The queue is its cleaned identifier.
func (b Base) AppendJob(dst []byte, kind, queue string, id job.ID) []byte {
	return id.Append(append(b.Append(dst, kind, queue), '/'))
}

// JobRef returns the reference of [Base.AppendJob].
func (b Base) JobRef(kind, queue string, id job.ID) string {
	return string(b.AppendJob(make([]byte, 0, 96), kind, queue, id))
}

// AppendPayload appends the reference of a payload as a plain resource.
func (b Base) AppendPayload(dst []byte, queue string, id job.ID) []byte {
	return id.Append(append(b.Append(dst, "queues", queue, "payload"), '/'))
}

// CapabilityList returns the reference of the ResourceSync Capability List of a
// set of a queue; the sets are "pending" and "replica".
func (b Base) CapabilityList(queue, set string) string {
	return b.Ref(".well-known", "resourcesync", queue, set, "capabilitylist.xml")
}

// ParseJobRef returns the queue and the job of a reference from its last two
// segments, as in [Base.AppendJob]. Query and fragment do not count.
func ParseJobRef(ref string) (queue string, id job.ID, err error) {
	rest, last, ok := CutLast(ref)
	if ok {
		id, err = job.ParseID(last)
		_, queue, ok = CutLast(rest)
	}
	if err == nil && (!ok || queue == "") {
		err = fmt.Errorf("%w: %.80q is no reference to a job", job.ErrBadName, ref)
	}
	return queue, id, err
}

// CutLast splits a reference before its last segment, and decodes the segment.
func CutLast(ref string) (rest, last string, ok bool) {
	ref, _, _ = strings.Cut(ref, "#")
	ref, _, _ = strings.Cut(ref, "?")
	i := strings.LastIndexByte(ref, '/')
	if i < 0 {
		return "", "", false
	}
	last, err := url.PathUnescape(ref[i+1:])
	return ref[:i], last, err == nil
}

func appendSegment(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

// The methods here go over the fields of a state in the order of its class. They write them,
// or, if b.from is set, read them from that document, in which an absent property is zero. So
// there is one list of fields for both directions. The first error stays in b.err.

// reader returns a builder that reads a document.
func reader(d *Document) *builder { return &builder{from: d} }

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// ref writes a reference that says nothing new, and is not read.
func (b *builder) ref(name string, base Base, segments ...string) {
	if b.from == nil {
		b.composed(name, base.Append(b.buf, segments...))
	}
}

// str is a text; absent stands for the empty one, which is left out if that is "".
func (b *builder) str(name string, s *string, absent string) {
	switch {
	case b.from != nil:
		if *s = b.from.Text(name); *s == absent {
			*s = ""
		}
	case *s == "":
		b.optional(name, absent)
	default:
		b.text(name, *s)
	}
}

// always is a text that is written even when it is empty.
func (b *builder) always(name string, s *string) {
	if b.from != nil {
		*s = b.from.Text(name)
	} else {
		b.text(name, *s)
	}
}

// num is a number.
func num[T ~int | ~int64 | ~uint64](b *builder, name string, n *T) {
	if b.from != nil {
		*n = T(b.from.integer(name, 0))
	} else {
		b.integer(name, int64(*n))
	}
}

// count is a number that is left out if it is 0.
func (b *builder) count(name string, n *int) {
	if b.from != nil || *n > 0 {
		num(b, name, n)
	}
}

// at is a time that is left out if it is zero.
func (b *builder) at(name string, t *time.Time) {
	if b.from != nil {
		*t = b.from.date(name)
	} else {
		b.date(name, *t)
	}
}

// flag is left out if it is false.
func (b *builder) flag(name string, v *bool) {
	if b.from != nil {
		*v = b.from.Text(name) == "true"
	} else if *v {
		b.boolean(name, true)
	}
}

// word is one of some words, left out if it is zero.
func word[T interface {
	comparable
	fmt.Stringer
}](b *builder, name string, v *T, parse func(string) (T, error)) {
	var zero T
	if b.from == nil {
		if *v != zero {
			b.text(name, (*v).String())
		}
		return
	}
	if text := b.from.Text(name); text != "" {
		var err error
		if *v, err = parse(text); err != nil {
			b.fail(err)
		}
	}
}

// identifier is that of a job.
func (b *builder) identifier(name string, id *job.ID) {
	if b.from == nil {
		b.composed(name, id.Append(b.buf))
		return
	}
	var err error
	if *id, err = job.ParseID(b.from.Text(name)); err != nil {
		b.fail(err)
	}
}

// queue is the reference to the queue of a thing.
func (b *builder) queue(base Base, id *string) {
	if b.from != nil {
		_, *id, _ = CutLast(b.from.Text("queueState"))
	} else {
		b.composed("queueState", base.Append(b.buf, "state", *id))
	}
}

// items is a list of any values. parse may be nil if the list is not read.
func items[T any](b *builder, name string, list *[]T, format func(T) string, parse func(string) (T, error)) {
	if b.from == nil {
		texts := slices.Grow([]string(nil), len(*list))
		for _, v := range *list {
			texts = append(texts, format(v))
		}
		b.list(name, texts)
		return
	}
	for _, text := range b.from.Items(name) {
		v, err := parse(text)
		if err != nil {
			b.fail(err)
			return
		}
		*list = append(*list, v)
	}
}

// jobs are references to jobs of a queue.
func (b *builder) jobs(name string, base Base, queue string, ids *[]job.ID) {
	prefix := ""
	if b.from == nil && len(*ids) > 0 {
		prefix = base.Ref("state", queue) + "/"
	}
	items(b, name, ids, func(id job.ID) string { return prefix + id.String() }, func(ref string) (job.ID, error) {
		_, id, err := ParseJobRef(ref)
		return id, err
	})
}

// texts is a list of texts.
func (b *builder) texts(name string, list *[]string) {
	items(b, name, list, validText, func(text string) (string, error) { return text, nil })
}
