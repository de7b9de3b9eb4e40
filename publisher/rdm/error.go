package rdm

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"

	"cutie/publisher/soif"
	"cutie/queuefs"
)

// An Error is a failed message: the answer of a [Handler], and the error of a
// [Client].
type Error struct {
	Status  int    // of HTTP, 400 and above
	Message string // RDM-Error-Message
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%d %s", e.Status, strings.ToLower(http.StatusText(e.Status)))
	}
	return e.Message
}

func badRequest(format string, args ...any) error {
	return &Error{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// sentinels are the errors with a status of their own. From 500 on the caller
// is told nothing but their text.
var sentinels = []struct {
	err    error
	status int
}{
	{queuefs.ErrNoQueue, http.StatusNotFound},
	{queuefs.ErrNoJob, http.StatusNotFound},
	{queuefs.ErrNotPending, http.StatusConflict},
	{queuefs.ErrConflict, http.StatusConflict},
	{queuefs.ErrRefusing, http.StatusConflict},
	{queuefs.ErrBadName, http.StatusBadRequest},
	{queuefs.ErrDigest, http.StatusBadRequest},
	{queuefs.ErrSidecar, http.StatusBadRequest},
	{queuefs.ErrTooBig, http.StatusRequestEntityTooLarge},
	{soif.ErrTooLarge, http.StatusRequestEntityTooLarge},
	{queuefs.ErrNoSpace, http.StatusInsufficientStorage},
	{queuefs.ErrFailed, http.StatusServiceUnavailable},
	{queuefs.ErrClosed, http.StatusServiceUnavailable},
}

// answerTo is the one place where errors become statuses. hidden is set if the
// caller is not told all.
func answerTo(err error) (e *Error, hidden bool) {
	if errors.As(err, &e) {
		return e, false
	}
	for _, s := range sentinels {
		switch {
		case !errors.Is(err, s.err):
		case s.status >= 500:
			return &Error{s.status, s.err.Error()}, true
		default:
			return &Error{s.status, err.Error()}, false
		}
	}
	var at *soif.ParseError
	switch {
	case errors.As(err, &at):
		return &Error{http.StatusBadRequest, err.Error()}, false
	case errors.Is(err, context.Canceled): // nobody is there to read the answer
		return &Error{http.StatusBadRequest, "request was given up"}, false
	}
	return &Error{Status: http.StatusInternalServerError}, true
}

// fail answers with an error. An answer on its way is cut off, lest it pass for
// whole.
func (x *exchange) fail(err error) {
	if x.out.started {
		if x.r.Context().Err() == nil && !errors.Is(err, errTaken) {
			x.h.log(x.r, err)
		}
		if !errors.Is(err, errTaken) {
			panic(http.ErrAbortHandler)
		}
		return
	}
	e, hidden := answerTo(err)
	if hidden {
		x.h.log(x.r, err)
	}
	x.out.reset(e.Status)
	if errors.Is(err, errNoType) && x.wantsPage() {
		x.w.Header().Set("Content-Type", pageType)
		x.out.write([]byte(helpPage()))
	} else {
		head := Header{Type: x.typ.reply(), Catalog: x.answered(), Error: e.Error()}
		b := head.append(nil)
		if errors.Is(err, errNoType) {
			b = appendStatus(b, x.base.Ref("help"), nil, helpPage())
		}
		x.out.write(b)
	}
	x.out.finish()
}

func (h *Handler) log(r *http.Request, err error) {
	if h.o.Log != nil {
		h.o.Log(r, err)
	}
}

// errNoType is the error for a request without a type.
var errNoType = fmt.Errorf("%w", &Error{http.StatusBadRequest, "no type is given, such as type=status-request"})

// page returns a document of HTML 2.0 (Status Message). body is HTML.
func page(title, body string) string {
	title = html.EscapeString(title)
	return "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<HTML><HEAD><TITLE>" + title + "</TITLE></HEAD>\n<BODY><H1>" +
		title + "</H1>\n" + body + "</BODY></HTML>\n"
}

func helpPage() string {
	var b strings.Builder
	b.WriteString("<P>Messages are posted here as " + MediaType + ", or asked for with the keys type, ql, csid, scope, view-attributes, view-order and view-hits:\n<UL>\n")
	for _, ask := range []string{"type=status-request", "type=rd-request&scope=all&view-hits=1..10", "type=rd-request-deleted&scope=all",
		"type=schema-description-request", "type=taxonomy-description-request&scope=descendant+ROOT", "type=server-description-request"} {
		ask = html.EscapeString(ask)
		b.WriteString(`<LI><A HREF="?` + ask + `">` + ask + "</A>\n")
	}
	b.WriteString("</UL>\n")
	return page("RDM", b.String())
}
