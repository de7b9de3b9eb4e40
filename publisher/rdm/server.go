// Package rdm speaks RDM, Resource Description Messages (W3C NOTE-rdm-960724),
// over the queues of a home, both ends: a [Handler] for /rdm/incoming and a
// [Client].
//
// A catalog is a queue, and a resource is a job: its description is the state
// of the job, and its URL the URL of Get-job-state. A catalog has the pending
// and consumed jobs; deleted are jobs in this status, and culled jobs as long
// as they are remembered.
//
//	request                        query language   scope
//	rd-request                     gatherer         all | since DATE
//	rd-request-deleted             gatherer         all | since DATE
//	schema-description-request     schema-basic     defined ATTRIBUTE
//	taxonomy-description-request   taxonomy-basic   descendant[/N] ID | children ID | anklebiter ID
//	server-description-request
//	status-request
//
// each by POST of a message of type application/x-rdm, or by GET with the keys
// type, ql, csid, scope, view-attributes, view-order and view-hits, or the first
// three by the names of the header. The short names schema-request, server-request and taxonomy-request are known as well.
//
// A client submits descriptions with a message of the type rd-response, and deletes them
// with the type rd-response-deleted. Each object stands for itself, and the answer, a
// status-response, has a result for each:
//
//   - An object is a new job. Its payload is the attribute Payload, or else the object
//     itself as application/x-soif. Title is the file name, Sidecar the sidecar; the
//     payload must have the digests of Digest-Type and Digest-Value.
//   - An object with the URL of a description in the catalog replaces it: it is a new
//     job, and the former one is deleted if it is pending, and no longer in the catalog.
//     The same object again changes nothing.
//   - An object with the URL of a pending job changes its file name, by Title, and its
//     Sidecar. The URL of a consumed or deleted job requeues it, if the attribute Status
//     is pending.
//
// Changing and deleting need the right to delete, or a user whose job it is. A leading
// SCHEMA object is passed over: all attributes are taken.
//
// A description that was submitted is sent with its URL and its attributes, followed by
// those of its job that it lacks; other jobs are sent with the URL of their state. A
// catalog forgets descriptions with their jobs: a culled one is deleted by the URL of its
// job.
//
// An answer is of the instant at its beginning: jobs that change later are left
// to the next answer. Its Last-Modified is this instant, or the last event
// before it. A request since then misses nothing, and repeats at most the
// changes of one second.
//
// Errors are messages too, with RDM-Error-Message and a status of HTTP. Where
// the text of RDM contradicts itself, names are compared without case and both
// spellings taken; dates are read in the three forms of HTTP. Messages are read as they
// are printed, with wrong sizes and blanks for TABs; RDM-Mended in the header of the
// answer says what was mended. A Catalog-Service-ID of another server is refused.
//
// The server description has the limits of [Options] as Max-Message-Size,
// Max-Object-Size, Max-Objects and Max-Ordered. A schema has all attributes in its
// default view, the view of requests without View-Attributes.
//
// Not here: query languages of other makers, and descriptions of other servers.
package rdm

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/quota"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Path is where messages are taken.
const Path = "/rdm/incoming"

// Options are the settings and limits of a [Handler]. Zero values mean the
// defaults.
type Options struct {
	// Allow returns why the caller lacks a right for a queue, by its cleaned
	// identifier, or for all queues if that is "": an [*web.Error]. What the answer
	// needs besides is added to header. nil: everybody may do everything.
	Allow func(header http.Header, r *http.Request, right web.Right, queue string) error
	// User returns the user who asks, "" for one without a name. nil: nobody
	// has one.
	User func(ctx context.Context) string
	// Quota counts the jobs of users; nil: its own.
	Quota *quota.Keeper
	// Log is called with errors hidden from the caller, if it is not nil.
	Log func(r *http.Request, err error)

	MaxBody    int64 // bytes of a message, as sent and as decoded; 0: 1 GiB; beyond it 413
	MaxObjects int   // objects of a submission; 0: [DefaultObjects]; beyond it 413
	// MaxOrdered is how many descriptions View-Order sorts; 0: [DefaultOrdered]. For
	// the first of more there is View-Hits; else the answer is 400.
	MaxOrdered int
	Now        func() time.Time // nil means time.Now
}

// Defaults of [Options].
const (
	DefaultObjects = 10_000
	DefaultOrdered = 100_000
)

const (
	// maxHead is the most bytes of the object before the right of the caller is known,
	// and of a query.
	maxHead = 64 << 10
	// An answer is held back up to 32 KiB, so that a short one has a Content-Length and
	// an error a status; without memory, up to 4 KiB.
	heldBack  = 32 << 10
	leastHeld = 4 << 10
)

// A Handler answers messages. It is safe for concurrent use.
type Handler struct {
	svc *queuefs.Service
	o   Options

	mu       sync.Mutex        // guards catalogs
	catalogs map[string]*names // by the identifiers of the queues
}

// New returns a Handler before svc, for requests with the path [Path].
func New(svc *queuefs.Service, o Options) *Handler {
	o.MaxBody = cmp.Or(o.MaxBody, 1<<30)
	o.MaxObjects = cmp.Or(o.MaxObjects, DefaultObjects)
	o.MaxOrdered = cmp.Or(o.MaxOrdered, DefaultOrdered)
	if o.Quota == nil {
		o.Quota = quota.New(svc)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Allow == nil {
		o.Allow = func(http.Header, *http.Request, web.Right, string) error { return nil }
	}
	if o.User == nil {
		o.User = func(context.Context) string { return "" }
	}
	if o.Log == nil {
		o.Log = func(*http.Request, error) {}
	}
	return &Handler{svc: svc, o: o, catalogs: map[string]*names{}}
}

// Routes returns the routes of messages. The rights that a message takes depend
// on what it says, so the handler asks Options.Allow.
func (h *Handler) Routes() []web.Route {
	route := func(method string, need web.Need) web.Route {
		return web.Route{Method: method, Path: Path, Need: need, Serve: h.serve,
			Fail: func(w http.ResponseWriter, r *http.Request, err error) { h.begin(w, r).fail(err) }}
	}
	return []web.Route{
		route(http.MethodGet, web.Anywhere(web.Read)),
		route(http.MethodPost, web.Need{Right: web.Read, Of: web.Body}),
	}
}

// serve answers one message, errors included: they name what the message asked
// for.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	x := h.begin(w, r)
	err := x.serve()
	if err == nil {
		err = x.finish()
	}
	if err != nil {
		x.fail(err)
	}
	return nil
}

// An exchange is one message and the answer to it.
type exchange struct {
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request
	base   state.Base
	memory *buffers.Account // for what is kept of the message and of the answer

	typ     Type
	csid    string // as it was sent
	scope   string // "" if there is none
	view    view
	catalog *queuefs.Queue // once it was found
	in      *soif.Reader   // of a message that was posted

	out     *bufio.Writer // of the exchange itself, which sends the header
	status  int           // of the answer
	started bool          // the header is sent
}

func (h *Handler) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{h: h, w: w, r: r, base: state.NewBase(h.svc.Info().BaseURI), memory: buffers.Of(r.Context()), status: http.StatusOK}
	held := heldBack
	if x.memory.Take(held) != nil {
		held = leastHeld
	}
	x.out = bufio.NewWriterSize(x, held)
	w.Header().Set("Content-Type", MediaType)
	x.expires(0)
	return x
}

// Write begins the answer, and goes on with it.
func (x *exchange) Write(p []byte) (int, error) {
	if !x.started {
		x.started = true
		x.w.WriteHeader(x.status)
	}
	return x.w.Write(p)
}

// finish sends the rest of the answer.
func (x *exchange) finish() error {
	if !x.started {
		x.w.Header().Set("Content-Length", strconv.Itoa(x.out.Buffered()))
	}
	return x.out.Flush()
}

// answer sends the header of an answer, and the first part of its body.
func (x *exchange) answer(head *Header, body []byte) error {
	if head.Type == "" {
		head.Type = x.typ.reply()
	}
	head.Mended = x.mended()
	_, err := x.out.Write(append(head.append(nil), body...))
	return err
}

// expires says how long an answer holds.
func (x *exchange) expires(d time.Duration) {
	x.w.Header().Set("Expires", httpDate(x.h.o.Now().Add(d)))
}

// httpDate is a date as RDM has it (RFC 9110, 5.6.7), "" for the zero time.
func httpDate(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(http.TimeFormat)
}

// page returns a document of HTML 2.0 (Status Message). text is HTML.
func page(title, text string) string {
	title = html.EscapeString(title)
	return "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<HTML><HEAD><TITLE>" + title + "</TITLE></HEAD>\n<BODY><H1>" +
		title + "</H1>\n" + text + "</BODY></HTML>\n"
}

// serve reads the message and answers it.
func (x *exchange) serve() error {
	read := x.readQuery
	if x.r.Method == http.MethodPost {
		read = x.readMessage
	}
	if err := read(); err != nil {
		return err
	}
	switch x.typ {
	case RDRequest, RDRequestDeleted:
		return x.retrieve()
	case RDResponse, RDResponseDeleted:
		return x.submit()
	case SchemaRequest:
		return x.describeSchema()
	case ServerRequest:
		return x.describeServer()
	case TaxonomyRequest:
		return x.describeTaxonomy()
	}
	return x.describeStatus()
}

// shortNames are the keys of a request in a URL. The names of the attributes will do as well.
var shortNames = map[string]string{"type": nameType, "csid": nameCatalog, "ql": nameLanguage}

// readQuery reads a request in the URL (Using the GET method). Unknown keys are
// ignored.
func (x *exchange) readQuery() error {
	query, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return badRequest("query: %v", err)
	}
	values := map[string]string{}
	for key, all := range query {
		name := strings.ToLower(key)
		name = strings.ToLower(cmp.Or(shortNames[name], name))
		if _, twice := values[name]; twice || len(all) > 1 {
			return badRequest("key %.40q is repeated", key)
		}
		values[name] = strings.TrimSpace(all[0])
	}
	value := func(name string) string { return values[strings.ToLower(name)] }
	x.csid = value(nameCatalog)
	if value(nameType) == "" {
		return badRequest("no type is given, such as type=status-request")
	}
	if x.typ, err = ParseType(value(nameType)); err != nil {
		return badRequest("%v", err)
	}
	if !x.typ.IsRequest() {
		return badRequest("type %v is not asked for, but posted", x.typ)
	}
	return x.ask(value(nameLanguage), value)
}

// ask takes the values of a query.
func (x *exchange) ask(language string, value func(name string) string) (err error) {
	if want := languages[x.typ]; want != "" && language != "" && !strings.EqualFold(language, want) {
		return badRequest("unsupported query language: %.60s", strings.ToValidUTF8(language, "\ufffd"))
	}
	x.scope = strings.TrimSpace(value(nameScope))
	x.view, err = parseView(value(nameViewAttributes), value(nameViewOrder), value(nameViewHits))
	return err
}

// readMessage reads a request in the body (Using the POST method), or the header of a
// submission.
func (x *exchange) readMessage() error {
	if media := x.r.Header.Get("Content-Type"); media != "" {
		if media, _, err := mime.ParseMediaType(media); err != nil || !isMedia(media) {
			return web.Errorf(http.StatusUnsupportedMediaType, "a message is of the type %s", MediaType)
		}
	}
	if err := x.openMessage(); err != nil {
		return err
	}
	// What it asks for, and the right to it, are known after its header.
	x.in.Limit = maxHead
	o, err := x.in.Read()
	if err == io.EOF {
		return badRequest("message is empty")
	}
	if err != nil {
		return err
	}
	head, err := parseHeader(&o)
	x.typ, x.csid = head.Type, head.Catalog
	switch {
	case err != nil:
		return badRequest("%v", err)
	case x.typ == RDResponse || x.typ == RDResponseDeleted:
		x.in.Limit = 0
		return nil
	case !x.typ.IsRequest():
		return badRequest("a message of type %v is of no use here; %v and %v are taken", x.typ, RDResponse, RDResponseDeleted)
	}
	query, err := x.in.Read()
	if err == nil && !query.Is(queryObject) {
		return badRequest("%.40q follows the header, not %s", query.Type, queryObject)
	}
	if err == nil {
		if o, err = x.in.Read(); err == nil {
			return badRequest("%.40q follows the query, where the message ends", o.Type)
		}
	}
	if err != io.EOF {
		return err
	}
	return x.ask(head.Language, query.Value)
}

// mended says what was mended in the message, "" if nothing was.
func (x *exchange) mended() string {
	if x.in == nil {
		return ""
	}
	first, all := x.in.Mended()
	text := strings.Join(first, "; ")
	if all > len(first) {
		text += fmt.Sprintf("; and %d more", all-len(first))
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

// catalogID is the Catalog-Service-ID of a queue.
func catalogID(base state.Base, queue string) string {
	u, err := url.Parse(string(base))
	if err != nil {
		u = &url.URL{}
	}
	return catalogIDOf(u.Scheme, u.Host, queue)
}

// catalogIDOf is x-catalog://host:port/name, or x-catalogs where the server is
// reached by https.
func catalogIDOf(scheme, host, name string) string {
	catalog, port := "x-catalog", ":80"
	if scheme == "https" {
		catalog, port = "x-catalogs", ":443"
	}
	if (&url.URL{Host: host}).Port() == "" {
		host = strings.TrimSuffix(host, ":") + port
	}
	return state.Base(catalog + "://" + host).Ref(name)
}

// catalogName returns the queue of a Catalog-Service-ID (Catalog Service IDs). Host and
// port are those of this server: of its base URI, or as the client has reached it.
func (x *exchange) catalogName(csid string) (string, error) {
	u, err := url.Parse(csid)
	if err != nil || !strings.EqualFold(u.Scheme, "x-catalog") && !strings.EqualFold(u.Scheme, "x-catalogs") || u.Host == "" ||
		len(u.Path) < 2 || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", badRequest("%s %.80q is not x-catalog://host:port/name", nameCatalog, csid)
	}
	own := []string{x.r.Host}
	for _, base := range []state.Base{x.base, web.BaseOf(x.r, string(x.base))} {
		if b, err := url.Parse(string(base)); err == nil {
			own = append(own, b.Host)
		}
	}
	for _, host := range own {
		if sameHost(u.Host, host) {
			return strings.TrimPrefix(u.Path, "/"), nil
		}
	}
	return "", web.Errorf(http.StatusNotFound, "catalog not found: %.200s is of another server, the catalogs here are %s",
		strings.ToValidUTF8(csid, "\ufffd"), catalogID(x.base, "NAME"))
}

// sameHost compares hosts with their ports; the usual ports may be left out.
func sameHost(a, b string) bool {
	bare := func(host string) string { return strings.TrimSuffix(strings.TrimSuffix(host, ":80"), ":443") }
	return strings.EqualFold(bare(a), bare(b))
}

// open finds the catalog of the message, for a caller with the right. The default is the
// one in cutie-info.txt, or the first queue.
func (x *exchange) open(right web.Right) (err error) {
	name := x.h.svc.Info().DefaultCatalog
	if x.csid != "" {
		if name, err = x.catalogName(x.csid); err != nil {
			return err
		}
	} else if queues := x.h.svc.Queues(); name == "" && len(queues) > 0 {
		name = queues[0].ID()
	}
	q, err := x.h.svc.Ask(name)
	if err != nil {
		// The names of queues are for those with the right to see all.
		if err := x.allow(right, ""); err != nil {
			return err
		}
		if errors.Is(err, ledger.ErrNoQueue) || errors.Is(err, job.ErrBadName) {
			return web.Errorf(http.StatusNotFound, "catalog not found: %.200s", cmp.Or(name, "there is none"))
		}
		return err
	}
	x.catalog = q
	return x.allow(right, q.ID())
}

func (x *exchange) allow(right web.Right, queue string) error {
	return x.h.o.Allow(x.w.Header(), x.r, right, queue)
}

// may is allow for parts of an answer that can be left out.
func (x *exchange) may(right web.Right, queue string) bool {
	return x.h.o.Allow(http.Header{}, x.r, right, queue) == nil
}

// readable returns the queues with the right to read for the caller: all, or the one that
// the message names.
func (x *exchange) readable() (list []*queuefs.Queue, err error) {
	if x.csid != "" {
		err := x.open(web.Read)
		return []*queuefs.Queue{x.catalog}, err
	}
	for _, q := range x.h.svc.Queues() {
		if x.may(web.Read, q.ID()) {
			list = append(list, q)
		}
	}
	return list, nil
}

// answered is the Catalog-Service-ID of the answer: the catalog's, or the one
// in the request.
func (x *exchange) answered() string {
	if x.catalog != nil {
		return catalogID(x.base, x.catalog.ID())
	}
	return x.csid
}

func badRequest(format string, args ...any) error {
	return web.Errorf(http.StatusBadRequest, format, args...)
}

// errorOf maps an error to a status. The part that is not for the caller goes to the log.
func (x *exchange) errorOf(err error) *web.Error {
	e, hidden := web.ErrorOf(err)
	if _, ok := errors.AsType[*soif.ParseError](err); ok && hidden {
		status := http.StatusBadRequest
		if errors.Is(err, soif.ErrTooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		return &web.Error{Status: status, Message: err.Error()}
	}
	if hidden {
		x.h.o.Log(x.r, err)
	}
	return e
}

// fail answers with an error. An answer on its way is cut off, lest it pass for
// whole.
func (x *exchange) fail(err error) {
	if x.started {
		if x.r.Context().Err() == nil {
			x.h.o.Log(x.r, err)
		}
		panic(http.ErrAbortHandler)
	}
	e := x.errorOf(err)
	if e.Status == http.StatusRequestTimeout {
		x.w.Header().Set("Connection", "close")
	} else {
		web.GiveUp(x.w, x.r, web.BodyIdle)
	}
	x.out.Reset(x)
	x.status = e.Status
	x.answer(&Header{Catalog: x.answered(), Error: e.Error()}, nil)
	x.finish()
}
