package rdm

import (
	"errors"
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

	typ        Type
	csid       string // as it was sent
	scope      string // "" if there is none
	view       view
	submission Type           // type of the submission: RDResponse or RDResponseDeleted
	sun        *soif.Object   // the object in place of a header
	catalog    *queuefs.Queue // once it was found
}

func (h *Handler) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{h: h, w: w, r: r, base: state.NewBase(h.svc.Info().BaseURI), memory: buffers.Of(r.Context())}
	x.out = newOutput(w, r, x.memory)
	w.Header().Set("Content-Type", MediaType)
	w.Header().Set("Vary", "Accept, Accept-Encoding")
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
	name, ok := keys["type"]
	if !ok {
		return errNoType
	}
	if x.typ, err = ParseType(strings.TrimSpace(name)); err != nil {
		return badRequest("%v", err)
	}
	if !x.typ.isRequest() {
		return badRequest("type %v is not asked for, but posted", x.typ)
	}
	x.csid = strings.TrimSpace(keys["csid"])
	return x.ask(keys["ql"], keys["scope"], keys["view-attributes"], keys["view-order"], keys["view-hits"])
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
func (x *exchange) readMessage() (*soif.Reader, error) {
	switch media, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type")); {
	case x.r.Header.Get("Content-Type") == "":
	case err == nil && (media == MediaType || media == "application/rdm" || media == "text/plain"):
	default:
		return nil, &web.Error{Status: http.StatusUnsupportedMediaType, Message: "a message is of the type " + MediaType}
	}
	in, err := x.openMessage()
	if err != nil {
		return nil, err
	}
	// What it asks for, and the right to it, are known after this.
	in.Limit = min(x.h.o.MaxObject, maxHead)
	o, err := in.Read()
	in.Limit = x.h.o.MaxObject
	if err == io.EOF {
		return nil, badRequest("message is empty")
	}
	if err != nil {
		return nil, err
	}
	if o.Is(sunObject) {
		x.sun = &o
		return in, x.readSun()
	}
	head, err := parseHeader(&o)
	x.typ, x.csid = head.Type, head.Catalog
	if err != nil {
		return nil, badRequest("%v", err)
	}
	switch {
	case x.typ == RDResponse || x.typ == RDResponseDeleted:
		x.submission = x.typ
	case !x.typ.isRequest():
		return nil, badRequest("a message of type %v is of no use here; %v and %v are taken", x.typ, RDResponse, RDResponseDeleted)
	}
	if err := x.ask(head.Language, "", "", "", ""); err != nil {
		return nil, err
	}
	return in, nil
}

// readRest reads the part of a request after its header.
func (x *exchange) readRest(in *soif.Reader) error {
	in.Limit = min(x.h.o.MaxObject, maxHead)
	o, err := in.Read()
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
	if o, err = in.Read(); err == nil {
		return badRequest("%.40q follows the query, where the message ends", o.Type)
	}
	if err == io.EOF {
		err = nil
	}
	return err
}

func (x *exchange) openMessage() (*soif.Reader, error) {
	// A message of HTTP/1.0 ends with its connection unless it says where: its end
	// could not be told from a broken one.
	if !x.r.ProtoAtLeast(1, 1) && x.r.Header.Get("Content-Length") == "" {
		return nil, web.Errorf(http.StatusLengthRequired, "a message over HTTP/1.0 needs a Content-Length")
	}
	limit := x.h.o.MaxBody
	if x.r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	b, err := web.NewBodyReader(x.w, x.r, limit, x.h.o.BodyIdle)
	if err != nil {
		return nil, err
	}
	var in io.Reader = b
	switch coding := strings.ToLower(strings.TrimSpace(x.r.Header.Get("Content-Encoding"))); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, notGzip(err)
		}
		in = &unpacked{z, limit, limit}
	default:
		x.w.Header().Set("Accept-Encoding", "gzip, x-gzip")
		return nil, web.Errorf(http.StatusUnsupportedMediaType, "unsupported content coding, gzip is taken")
	}
	r := soif.NewReader(in)
	r.Clean, r.Limit, r.Memory = true, x.h.o.MaxObject, x.memory.Grow
	return r, nil
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
