package rdm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/klauspost/compress/gzip"

	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// maxHead is the most octets of the object before the right of the caller is known,
// and of a query.
const maxHead = 64 << 10

// An exchange is one message and the answer to it.
type exchange struct {
	h    *Handler
	w    http.ResponseWriter
	r    *http.Request
	out  *output
	base state.Base
	// memory is for what is kept of the message and of the answer.
	memory *buffers.Account

	typ     Type
	csid    string // as it was sent
	scope   string // "" if there is none
	view    view
	catalog *queuefs.Queue // once it was found
	in      *soif.Reader   // of a message that was posted
}

func (h *Handler) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{h: h, w: w, r: r, base: state.NewBase(h.svc.Info().BaseURI), memory: buffers.Of(r.Context())}
	x.out = &output{w: w, head: r.Method == http.MethodHead, status: http.StatusOK, memory: x.memory}
	w.Header().Set("Content-Type", MediaType)
	w.Header().Set("Vary", "Accept")
	x.expires(0)
	return x
}

// readQuery reads a request in the URL (Using the GET method). Unknown keys are
// ignored.
func (x *exchange) readQuery() error {
	query, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return badRequest("query: %v", err)
	}
	keys := map[string]string{}
	for name, values := range query {
		low := strings.ToLower(name)
		if _, twice := keys[low]; twice || len(values) > 1 {
			return badRequest("key %.40q is repeated", name)
		}
		keys[low] = values[0]
	}
	// The names of the attributes of a header will do as well.
	one := func(short, long string) (string, error) {
		value, ok := keys[short]
		if other, too := keys[strings.ToLower(long)]; ok && too && other != value {
			return "", badRequest("keys %s and %s differ", short, long)
		} else if too {
			value = other
		}
		return strings.TrimSpace(value), nil
	}
	name, err1 := one("type", nameType)
	csid, err2 := one("csid", nameCatalog)
	language, err3 := one("ql", nameLanguage)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return err
	}
	x.csid = csid
	if name == "" {
		return errNoType
	}
	if x.typ, err = ParseType(name); err != nil {
		return badRequest("%v", err)
	}
	if !x.typ.IsRequest() {
		return badRequest("type %v is not asked for, but posted", x.typ)
	}
	return x.ask(language, keys["scope"], keys["view-attributes"], keys["view-order"], keys["view-hits"])
}

// ask takes a query from a URL or from a message.
func (x *exchange) ask(language, scope, attributes, order, hits string) (err error) {
	want := languages[x.typ]
	if language = strings.TrimSpace(language); want != "" && language != "" && !strings.EqualFold(language, want) {
		return badRequest("unsupported query language: %.60s", strings.ToValidUTF8(language, "\ufffd"))
	}
	x.scope = strings.TrimSpace(scope)
	x.view, err = parseView(attributes, order, hits)
	return err
}

// readMessage reads the header of a message in the body (Using the POST method).
func (x *exchange) readMessage() error {
	switch media, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type")); {
	case x.r.Header.Get("Content-Type") == "":
	case err == nil && (media == MediaType || media == "application/rdm" || media == "text/plain"):
	default:
		return &web.Error{Status: http.StatusUnsupportedMediaType, Message: "a message is of the type " + MediaType}
	}
	if err := x.openMessage(); err != nil {
		return err
	}
	// What it asks for, and the right to it, are known after this.
	o, err := x.readShort()
	if err == io.EOF {
		return badRequest("message is empty")
	}
	if err != nil {
		return err
	}
	head, err := parseHeader(&o)
	x.typ, x.csid = head.Type, head.Catalog
	if err != nil {
		return badRequest("%v", err)
	}
	if !x.typ.IsRequest() && x.typ != RDResponse && x.typ != RDResponseDeleted {
		return badRequest("a message of type %v is of no use here; %v and %v are taken", x.typ, RDResponse, RDResponseDeleted)
	}
	return x.ask(head.Language, "", "", "", "")
}

// readShort reads an object that is no description.
func (x *exchange) readShort() (soif.Object, error) {
	x.in.Limit = min(x.h.o.MaxObject, maxHead)
	o, err := x.in.Read()
	x.in.Limit = x.h.o.MaxObject
	return o, err
}

// readRest reads the part of a request after its header.
func (x *exchange) readRest() error {
	o, err := x.readShort()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	if !o.Is(queryObject) {
		return badRequest("%.40q follows the header, not %s", o.Type, queryObject)
	}
	if err := x.ask("", o.Value(nameScope), o.Value(nameViewAttributes), o.Value(nameViewOrder), o.Value(nameViewHits)); err != nil {
		return err
	}
	if o, err = x.in.Read(); err == nil {
		return badRequest("%.40q follows the query, where the message ends", o.Type)
	}
	if err == io.EOF {
		err = nil
	}
	return err
}

// mendedText says what was mended in the message, "" if nothing was.
func (x *exchange) mendedText() string {
	if x.in == nil {
		return ""
	}
	said, all := x.in.Mended()
	text := strings.Join(said, "; ")
	if all > len(said) {
		text += fmt.Sprintf("; and %d more", all-len(said))
	}
	return text
}

func (x *exchange) openMessage() error {
	// A message of HTTP/1.0 ends with its connection unless it says where: its end
	// could not be told from a broken one.
	if !x.r.ProtoAtLeast(1, 1) && x.r.Header.Get("Content-Length") == "" {
		return web.Errorf(http.StatusLengthRequired, "a message over HTTP/1.0 needs a Content-Length")
	}
	limit := x.h.o.MaxBody
	if x.r.ContentLength > limit {
		return tooLarge(limit)
	}
	b, err := web.NewBodyReader(x.w, x.r, limit, x.h.o.BodyIdle)
	if err != nil {
		return err
	}
	var in io.Reader = b
	switch coding := strings.ToLower(strings.TrimSpace(x.r.Header.Get("Content-Encoding"))); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(b)
		if err != nil {
			return notGzip(err)
		}
		in = &unpacked{z, limit, limit}
	default:
		x.w.Header().Set("Accept-Encoding", "gzip, x-gzip")
		return web.Errorf(http.StatusUnsupportedMediaType, "unsupported content coding, gzip is taken")
	}
	x.in = soif.NewReader(in)
	x.in.Clean, x.in.Limit, x.in.Memory = true, x.h.o.MaxObject, x.memory.Grow
	return nil
}

func tooLarge(limit int64) error {
	return &web.Error{Status: http.StatusRequestEntityTooLarge, Message: "message has more than the " + number(limit) + " octets that are taken"}
}

// unpacked is a compressed message.
type unpacked struct {
	in    io.Reader
	left  int64
	limit int64
}

func (u *unpacked) Read(p []byte) (int, error) {
	if u.left == 0 {
		return 0, tooLarge(u.limit)
	}
	n, err := u.in.Read(p[:min(int64(len(p)), u.left)])
	u.left -= int64(n)
	if err != nil && err != io.EOF {
		err = notGzip(err)
	}
	return n, err
}

// notGzip keeps errors of the connection as they are.
func notGzip(err error) error {
	if e := (*web.Error)(nil); errors.As(err, &e) {
		return err
	}
	return badRequest("message is not what its content coding says: %v", err)
}
