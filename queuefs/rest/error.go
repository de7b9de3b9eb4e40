package rest

import (
	"errors"
	"net/http"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

func badRequest(format string, args ...any) error {
	return web.Errorf(http.StatusBadRequest, format, args...)
}

func tooLarge(format string, args ...any) error {
	return web.Errorf(http.StatusRequestEntityTooLarge, format, args...)
}

// notFound is the error for a missing thing with its name. A name that is not
// valid is not found either; other errors stay as they are.
func notFound(err, missing error, name string) error {
	if errors.Is(err, missing) || errors.Is(err, queuefs.ErrBadName) {
		return web.Errorf(http.StatusNotFound, "%v: %.80s", missing, strings.ToValidUTF8(name, "\ufffd"))
	}
	return err
}

// log records an error too late for an answer.
func (h *Handler) log(r *request, err error) {
	if h.o.Log != nil && r.Context().Err() == nil {
		h.o.Log(r.Request, err)
	}
}
