package state

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
)

// ServiceClass is the class of the state of a service (Cutie 3.1). The
// properties from description on are additions.
var ServiceClass = class("cut", "cutieServiceState", "service",
	"name identifier serviceVersion queueStates:ref[queueState]! created:date lastModified:date "+
		"serviceScheme "+ // Cutie/0.3/<serviceVersion>
		"baseURI:ref supportURI:ref description sourceDescription:ref "+
		// Queues whose queue-info.txt cannot be read now, and those whose directories are lost.
		"shutQueues:ref[shutQueue] lostQueues:ref[lostQueue] "+
		// Of a home in an object store: who owns it, the last batch known here, and until when a
		// standby has all changes.
		"role homeOwner ownerURI:ref journalBatch:int upToDate:date "+
		// The changes of culling; see Changes.
		"culledJobs[culledJob] keptJobs[keptJob] moreJobs:bool")

// MaxQueues is how many queues the state of the service names at most, and without a
// limit.
const MaxQueues = 1000

// Service is the state of a service.
type Service struct {
	home.ServiceInfo
	Base    Base     // begins references; "": the BaseURI does
	Queues  []string // cleaned identifiers, in order
	Shut    []string // those of Queues that are shut
	Lost    []string // cleaned identifiers of queues that are not served: their directories are lost
	Node    Node     // of a home in an object store
	Changes Changes  // its Culled and More
}

// A Node is one of the processes with a home in an object store.
type Node struct {
	Role     string // "owner" or "standby"; "": the home is in a directory
	Owner    string // name of the owner
	OwnerURI string // where it answers
	Batch    int64  // the last one of the journal that is known
	UpToDate time.Time
}

// NodeOf returns the node of a service.
func NodeOf(svc *queuefs.Service) (n Node) {
	st, ok := svc.Standing()
	if !ok {
		return n
	}
	n = Node{Role: "owner", Owner: st.Owner.Name, OwnerURI: st.Owner.URL, Batch: int64(st.Batch), UpToDate: st.As}
	if st.Standby {
		n.Role = "standby"
	}
	return n
}

// OfService returns the state of a service.
func OfService(s *Service) Document {
	base := cmp.Or(s.Base, NewBase(s.BaseURI))
	b := newBuilder(ServiceClass)
	b.service(base, s)
	d := b.document()
	d.Subject, d.Base = base.Ref("state"), base
	return d
}

// Service returns the service in the state d, of class [ServiceClass]; its changes are those
// of [Document.Changes].
func (d *Document) Service() (s Service) {
	reader(d).service("", &s)
	return s
}

// service goes over the fields of a service.
func (b *builder) service(base Base, s *Service) {
	b.always("name", &s.Name)
	b.always("identifier", &s.Identifier)
	if b.from == nil {
		b.text("serviceVersion", s.version())
	}
	b.queues("queueStates", base, &s.Queues)
	if b.from == nil && s.Created.IsZero() { // of a home that others made
		b.date("created", s.Modified)
	} else {
		b.at("created", &s.Created)
	}
	b.at("lastModified", &s.Modified)
	b.always("serviceScheme", &s.Scheme)
	b.always("baseURI", &s.BaseURI)
	b.always("supportURI", &s.SupportURI)
	b.str("description", &s.Description, "")
	b.ref("sourceDescription", base, ".well-known", "resourcesync")
	b.queues("shutQueues", base, &s.Shut)
	b.queues("lostQueues", base, &s.Lost)
	if n := &s.Node; b.from != nil || n.Role != "" {
		b.always("role", &n.Role)
		b.always("homeOwner", &n.Owner)
		b.str("ownerURI", &n.OwnerURI, "")
		num(b, "journalBatch", &n.Batch)
		b.at("upToDate", &n.UpToDate)
	}
	b.culled(&s.Changes)
}

// queues are references to queues.
func (b *builder) queues(name string, base Base, ids *[]string) {
	items(b, name, ids, func(id string) string { return base.Ref("state", id) }, func(ref string) (string, error) {
		_, id, ok := CutLast(ref)
		if !ok {
			return "", fmt.Errorf("%w: %.80q is no reference to a queue", job.ErrBadName, ref)
		}
		return id, nil
	})
}

// version returns the implementation version: the third part of the scheme, or that of
// this program.
func (s *Service) version() string {
	if parts := strings.SplitN(s.Scheme, "/", 3); len(parts) == 3 {
		return parts[2]
	}
	return home.Version
}

// BatchClass is the class of the state of a batch: a manifest with files for
// the service to fetch and submit as jobs (Cutie 5.5). The specification names
// no elements for it; these follow those of the other classes.
var BatchClass = class("bat", "batchState", "batch",
	"identifier queueState:ref status created:date finished:date numLines:int numFetched:int octets:int "+
		"batch detail errors[error] submittedJobStates:ref[submittedJobState]")

// A BatchStatus says how far a batch is.
type BatchStatus string

const (
	BatchFetching BatchStatus = "fetching"
	BatchDone     BatchStatus = "done"   // all its jobs are submitted
	BatchFailed   BatchStatus = "failed" // none is
)

// Batch is the state of a batch.
type Batch struct {
	ID       string // unique within its queue
	Queue    string // cleaned identifier
	Status   BatchStatus
	Created  time.Time
	Finished time.Time // zero as long as it is fetching
	Lines    int64     // of the manifest, with a file each
	Fetched  int64     // files, so far
	Octets   int64     // fetched so far
	Name     string    // Batch of its jobs; "" before they are submitted
	Detail   string    // its subject, or its outcome; "" for nothing
	Errors   []string  // such as "line 3: md5 without value"
	// Submitted are its jobs, once it is done.
	Submitted []job.ID
}

// OfBatch returns the state of a batch, at "<base>/batch/Q/ID".
func OfBatch(base Base, s *Batch) Document {
	b := newBuilder(BatchClass)
	b.batch(base, s)
	d := b.document()
	d.Subject, d.Base = base.Ref("batch", s.Queue, s.ID), base
	return d
}

// Batch returns the batch in the state d, of class [BatchClass].
func (d *Document) Batch() (s Batch, err error) {
	b := reader(d)
	b.batch("", &s)
	switch s.Status {
	case BatchFetching, BatchDone, BatchFailed:
	default:
		b.fail(fmt.Errorf("status %.40q is none of fetching, done, failed", s.Status))
	}
	if b.err != nil {
		return Batch{}, fmt.Errorf("state of batch %.60q: %w", s.ID, b.err)
	}
	return s, nil
}

// batch goes over the fields of a batch.
func (b *builder) batch(base Base, s *Batch) {
	b.always("identifier", &s.ID)
	b.queue(base, &s.Queue)
	b.always("status", (*string)(&s.Status))
	b.at("created", &s.Created)
	b.at("finished", &s.Finished)
	num(b, "numLines", &s.Lines)
	num(b, "numFetched", &s.Fetched)
	num(b, "octets", &s.Octets)
	b.str("batch", &s.Name, "")
	b.str("detail", &s.Detail, "")
	b.texts("errors", &s.Errors)
	b.jobs("submittedJobStates", base, s.Queue, &s.Submitted)
}

// ExceptionClass is the class of the state in answers to failed requests. The
// names are those of Merritt's exceptions, without the details of the program.
var ExceptionClass = class("exc", "exceptionState", "exception",
	"status hTTPResponse:int description detail") // description of the status, detail of this case

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

// details find the detail of an exception in a form, and undo its escapes.
var details = map[Form]struct {
	at   *regexp.Regexp
	text func(string) string
}{
	JSON:   {regexp.MustCompile(`"detail":("(?:[^"\\]|\\.)*")`), unquoted},
	Turtle: {regexp.MustCompile(`exc:detail ("(?:[^"\\]|\\.)*")`), unquoted},
	XML:    {regexp.MustCompile(`<exc:detail>([^<]*)<`), html.UnescapeString},
	XHTML:  {regexp.MustCompile(`<th scope="row">detail</th><td>([^<]*)<`), html.UnescapeString},
	SOIF: {regexp.MustCompile(`(?s)\ndetail\{(\d+\}:\t.*)`), func(rest string) string {
		size, value, _ := strings.Cut(rest, "}:\t")
		n, _ := strconv.Atoi(size)
		return value[:min(n, len(value))]
	}},
}

func unquoted(text string) string {
	text, _ = strconv.Unquote(text)
	return text
}

// DetailOf returns the detail of an exception written in form f, "" if it has
// none or is no exception.
func DetailOf(f Form, data []byte) string {
	if f == ANVL {
		d, _ := Decode(ExceptionClass, data)
		return d.Text("detail")
	}
	if f == HTML {
		f = XHTML
	}
	found := details[f]
	if found.at == nil || !bytes.Contains(data, []byte(ExceptionClass.Root)) {
		return ""
	}
	m := found.at.FindSubmatch(data)
	if m == nil {
		return ""
	}
	return found.text(string(m[1]))
}

// HelpClass is the class of help about the service or one of its methods (Cutie
// 5.1). The specification names no elements for it.
var HelpClass = class("hlp", "helpState", "help", "method summary request text methods[methodName]")

// Help is help about a method, or about the service if Method is "".
type Help struct {
	Method  string   // such as "Submit-job"
	Summary string   // one line
	Request string   // method and path of the HTTP request
	Text    string   // the rest, in lines
	Methods []string // names of the methods there is help about
}

// OfHelp returns help as a document.
func OfHelp(h Help) Document {
	b := newBuilder(HelpClass)
	b.optional("method", h.Method)
	b.text("summary", h.Summary)
	b.optional("request", h.Request)
	b.text("text", h.Text)
	b.list("methods", h.Methods)
	return b.document()
}
