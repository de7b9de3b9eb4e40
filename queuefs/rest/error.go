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

// notFound names what was looked for. A name that cannot be one is not found
// either; other errors stay as they are.
func notFound(err, missing error, name string) error {
	if errors.Is(err, missing) || errors.Is(err, queuefs.ErrBadName) {
		return web.Errorf(http.StatusNotFound, "%v: %.80s", missing, strings.ToValidUTF8(name, "\ufffd"))
	}
	return err
}

// log tells of an error that can no longer be answered.
func (h *Handler) log(r *request, err error) {
	if h.o.Log != nil && r.Context().Err() == nil {
		h.o.Log(r.Request, err)
	}
}
