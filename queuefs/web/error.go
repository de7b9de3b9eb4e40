package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"cutie/queuefs"

	"cutie/queuefs/state"
)

// An Error is a refused request: the answer of a handler, and the error of a
// client. With [errors.Is] it matches its error of package queuefs, such as
// [queuefs.ErrNoQueue].
type Error struct {
	Status  int    // of HTTP, 400 and above
	Message string // for the caller; "" if there is nothing to say but the status
	// After is the time until another try can succeed, in a client: the Retry-After of
	// the answer; 0 if there was none. A handler sets the header itself.
	After time.Duration
}

// Errorf returns an [*Error].
func Errorf(status int, format string, args ...any) error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%d %s", e.Status, strings.ToLower(http.StatusText(e.Status)))
	}
	return e.Message
}

// HTTPStatus is for packages that know the status of an error alone.
func (e *Error) HTTPStatus() int { return e.Status }

// Is reports whether the error stands for target.
func (e *Error) Is(target error) bool {
	for _, s := range statuses {
		if s.err == target && e.Status == s.status {
			return strings.Contains(e.Message, target.Error())
		}
	}
	return false
}

// statuses are the errors with a status of their own. From 500 on the caller is
// told the text of the error here and no more.
var statuses = []struct {
	err    error
	status int
}{
	{queuefs.ErrNoQueue, http.StatusNotFound},
	{queuefs.ErrNoJob, http.StatusNotFound},
	{queuefs.ErrNoResult, http.StatusNotFound},
	{queuefs.ErrNotPending, http.StatusConflict},
	{queuefs.ErrConflict, http.StatusConflict},
	{queuefs.ErrQueueExists, http.StatusConflict},
	{queuefs.ErrQueueExists, http.StatusPreconditionFailed},
	{queuefs.ErrNotEmpty, http.StatusConflict},
	{queuefs.ErrRefusing, http.StatusConflict},
	{queuefs.ErrNotLost, http.StatusConflict},
	{queuefs.ErrMirror, http.StatusConflict},
	{queuefs.ErrResultExists, http.StatusConflict},
	{queuefs.ErrLease, http.StatusGone},
	{queuefs.ErrBadName, http.StatusBadRequest},
	{queuefs.ErrDigest, http.StatusBadRequest},
	{queuefs.ErrSidecar, http.StatusBadRequest},
	{ErrPrecondition, http.StatusPreconditionFailed},
	{ErrRange, http.StatusRequestedRangeNotSatisfiable},
	{queuefs.ErrKeyUsed, http.StatusUnprocessableEntity},
	{queuefs.ErrKeyBusy, http.StatusConflict},
	{queuefs.ErrTooBig, http.StatusRequestEntityTooLarge},
	{state.ErrForm, http.StatusUnsupportedMediaType},
	{queuefs.ErrResultDamaged, http.StatusInternalServerError},
	{queuefs.ErrNoSpace, http.StatusInsufficientStorage},
	{queuefs.ErrUnread, http.StatusServiceUnavailable},
	{queuefs.ErrFailed, http.StatusServiceUnavailable},
	{queuefs.ErrClosed, http.StatusServiceUnavailable},
	{queuefs.ErrStandby, http.StatusServiceUnavailable},
}

// ErrorOf is the one mapping from errors to statuses. hidden is set if the
// caller is not told all.
func ErrorOf(err error) (e *Error, hidden bool) {
	if errors.As(err, &e) {
		return e, false
	}
	if own, ok := errors.AsType[interface {
		error
		HTTPStatus() int
	}](err); ok {
		return &Error{Status: own.HTTPStatus(), Message: own.Error()}, false
	}
	if shut, ok := errors.AsType[*queuefs.ShutError](err); ok { // the caller is told the way out
		return &Error{Status: http.StatusServiceUnavailable, Message: shut.Error()}, false
	}
	if lost, ok := errors.AsType[*queuefs.LostError](err); ok {
		return &Error{Status: http.StatusServiceUnavailable, Message: lost.Error()}, false
	}
	for _, s := range statuses {
		switch {
		case !errors.Is(err, s.err):
		case s.status >= 500:
			return &Error{Status: s.status, Message: s.err.Error()}, true
		default:
			return &Error{Status: s.status, Message: err.Error()}, false
		}
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &Error{Status: http.StatusInsufficientStorage, Message: queuefs.ErrNoSpace.Error()}, true
	case errors.Is(err, context.Canceled): // nobody is there to read the answer
		return &Error{Status: http.StatusBadRequest, Message: "request was given up"}, false
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Status: http.StatusServiceUnavailable, Message: "service is too busy"}, true
	}
	return &Error{Status: http.StatusInternalServerError}, true
}
