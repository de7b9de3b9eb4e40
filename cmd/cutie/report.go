package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"cutie/cmd/cutie/access"
	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/web"
)

// Results go to standard output, and nothing else does. Everything else goes to
// standard error as one line "cutie: verb: what: why", in lower case and without
// a full stop. A second line "hint: …" names a way out.

// Exit codes.
const (
	exitDone     = 0
	exitError    = 1 // input, output, or the service failed
	exitUsage    = 2 // the request makes no sense
	exitNotFound = 3 // no queue or job of this name
	exitEmpty    = 4 // nothing is pending: an answer, not a failure
	exitConflict = 5 // not in this state
	exitRefused  = 6 // not allowed
	exitDigest   = 7 // octets differ from their digest
)

// exitTexts explain the codes.
var exitTexts = [...]string{
	exitDone:     "done",
	exitError:    "error: input, output, or the service failed",
	exitUsage:    "usage: the request makes no sense",
	exitNotFound: "queue, job or result not found",
	exitEmpty:    "queue empty: an answer, not a failure, so silent without -v",
	exitConflict: "conflict: not in this state",
	exitRefused:  "refused: not allowed",
	exitDigest:   "digest verification failed",
}

// exitCodes are the exit codes of errors whose status does not tell it.
var exitCodes = []struct {
	err  error
	code int
}{
	{context.Canceled, exitError},
	{queuefs.ErrEmpty, exitEmpty},
	{queuefs.ErrLease, exitConflict},
	{queuefs.ErrQueueExists, exitConflict},
	{queuefs.ErrDigest, exitDigest},
	{digest.ErrMismatch, exitDigest},
	{fs.ErrExist, exitConflict},
	{access.ErrExists, exitConflict},
	{access.ErrMissing, exitNotFound},
	{errRefused, exitRefused},
}

// errRefused is the error when this user has not the right.
var errRefused = errors.New("refused")

// A usageError is an error in the command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, a ...any) error { return usageError{fmt.Sprintf(format, a...)} }

// A hinted error has a way out.
type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

// withHint adds a way out to err.
func withHint(err error, hint string) error { return hinted{err, hint} }

// about adds a name to an error, unless the error begins with it. An error for a
// missing queue or job has the same words for every target.
func about(name string, err error) error {
	if err == nil {
		return nil
	}
	for _, missing := range []error{queuefs.ErrNoQueue, queuefs.ErrNoJob} {
		var deeper aboutError
		if errors.Is(err, missing) && !errors.As(err, &deeper) {
			err = missing
		}
	}
	if strings.HasPrefix(err.Error(), name+": ") {
		return err
	}
	return aboutError{name, err}
}

// aboutJob is about for a job of a queue.
func aboutJob(queue, job string, err error) error {
	if !errors.Is(err, queuefs.ErrNoQueue) {
		err = about(job, err)
	}
	return about(queue, err)
}

// An aboutError is an error with the name of a thing.
type aboutError struct {
	name string
	error
}

func (e aboutError) Error() string { return e.name + ": " + e.error.Error() }
func (e aboutError) Unwrap() error { return e.error }

// exitCode is the exit code for err.
func exitCode(err error) int {
	var usage usageError
	var locked *queuefs.LockedError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &locked):
		return exitConflict
	}
	for _, e := range exitCodes {
		if errors.Is(err, e.err) {
			return e.code
		}
	}
	answer, _ := web.ErrorOf(err)
	switch answer.Status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		return exitUsage
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitRefused
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusConflict:
		return exitConflict
	}
	return exitError
}

// onOneLine joins the lines of an error. It drops a line if another ends with it: a
// verb and its Close often return the same error.
func onOneLine(err error) string {
	var said []string
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		again := func(s string) bool { return s == line || strings.HasSuffix(s, ": "+line) }
		if !slices.ContainsFunc(said, again) {
			said = append(said, line)
		}
	}
	return strings.Join(said, "; ")
}

// report prints err for people.
func report(w io.Writer, verb string, err error) {
	text := onOneLine(err)
	if errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	if verb != "" {
		text = verb + ": " + text
	}
	fmt.Fprintf(w, "cutie: %s\n", text)
	var h hinted
	if errors.As(err, &h) {
		fmt.Fprintf(w, "hint: %s\n", h.hint)
	}
}
