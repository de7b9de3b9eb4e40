package rdm

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"

	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

func badRequest(format string, args ...any) error {
	return web.Errorf(http.StatusBadRequest, format, args...)
}

// errorOf maps an error to a status. hidden is set if the caller is not told
// all.
func errorOf(err error) (e *web.Error, hidden bool) {
	e, hidden = web.ErrorOf(err)
	if !hidden {
		return e, false
	}
	var at *soif.ParseError
	switch {
	case errors.Is(err, soif.ErrTooLarge):
		return &web.Error{Status: http.StatusRequestEntityTooLarge, Message: err.Error()}, false
	case errors.As(err, &at):
		return &web.Error{Status: http.StatusBadRequest, Message: err.Error()}, false
	}
	return e, true
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
	e, hidden := errorOf(err)
	if x.h.o.Refuse != nil && x.wantsPage() && !errors.Is(err, errNoType) {
		if !hidden {
			err = e
		}
		x.h.o.Refuse(x.w, x.r, err)
		return
	}
	if hidden {
		x.h.log(x.r, err)
	}
	if e.Status == http.StatusRequestTimeout {
		x.w.Header().Set("Connection", "close")
	} else {
		web.GiveUp(x.w, x.r, x.h.o.BodyIdle)
	}
	x.out.held, x.out.status = x.out.held[:0], e.Status
	if errors.Is(err, errNoType) && x.wantsPage() {
		x.w.Header().Set("Content-Type", pageType)
		x.out.write(x.page("RDM", helpText()))
	} else {
		head := Header{Type: x.typ.reply(), Catalog: x.answered(), Error: e.Error(), Mended: x.mendedText()}
		b := head.append(nil)
		if errors.Is(err, errNoType) {
			b = appendStatus(b, x.base.Ref("help"), nil, page("RDM", helpText()))
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

// errNoType is the error for a request that does not say what it wants.
var errNoType = fmt.Errorf("%w", web.Errorf(http.StatusBadRequest, "no type is given, such as type=status-request"))

// page returns a document of HTML 2.0 (Status Message). text is HTML.
func page(title, text string) string {
	title = html.EscapeString(title)
	return "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<HTML><HEAD><TITLE>" + title + "</TITLE></HEAD>\n<BODY><H1>" +
		title + "</H1>\n" + text + "</BODY></HTML>\n"
}

// page returns a page for the caller, a person.
func (x *exchange) page(title, text string) []byte {
	if x.h.o.Page != nil {
		return x.h.o.Page(x.r, title, text)
	}
	return []byte(page(title, text))
}

// helpText is HTML.
func helpText() string {
	var b strings.Builder
	b.WriteString("<p>Messages are posted here as " + MediaType + ", or asked for with the keys type, ql, csid, scope, view-attributes, view-order and view-hits:</p>\n<ul>\n")
	for _, ask := range []string{"type=status-request", "type=rd-request&scope=all&view-hits=1..10", "type=rd-request-deleted&scope=all",
		"type=schema-description-request", "type=taxonomy-description-request&scope=descendant+ROOT", "type=server-description-request"} {
		ask = html.EscapeString(ask)
		b.WriteString(`<li><a href="?` + ask + `">` + ask + "</a></li>\n")
	}
	b.WriteString("</ul>\n")
	return b.String()
}
