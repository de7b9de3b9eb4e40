// Package fault is how commands fail.
//
// Verbs return errors. Here they get the name of a queue or job, and a hint at a way
// out. The program ends with the exit code of the error, after one line on standard
// error, "cutie: verb: what: why" in lower case and without a full stop. A line
// "hint: …" follows if there is a hint.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"cutie/queuefs"
)

// ErrRefused is the error of a user without the right.
var ErrRefused = errors.New("refused")

// ErrDiffers is the error of a copy with differences.
var ErrDiffers = errors.New("the copy differs from its Source")

// ErrFaulty is the error of a Source with faults.
var ErrFaulty = errors.New("the Source is faulty")

// A usageError is an error in the command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// Usagef returns an error in the command line.
func Usagef(format string, a ...any) error { return usageError{fmt.Sprintf(format, a...)} }

// A hinted error has a way out.
type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

// Hint adds a way out to err.
func Hint(err error, hint string) error { return hinted{err, hint} }

// HintOf returns the way out of err, "" if none is known.
func HintOf(err error) string {
	var h hinted
	errors.As(err, &h)
	return h.hint
}

// About adds a name to an error, unless the error begins with it. An error for a
// missing queue or job has the same words for every target.
func About(name string, err error) error {
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

// AboutJob is [About] for a job of a queue.
func AboutJob(queue, job string, err error) error {
	if !errors.Is(err, queuefs.ErrNoQueue) {
		err = About(job, err)
	}
	return About(queue, err)
}

// An aboutError is an error with the name of a thing.
type aboutError struct {
	name string
	error
}

func (e aboutError) Error() string { return e.name + ": " + e.error.Error() }
func (e aboutError) Unwrap() error { return e.error }

// Report prints err and its hint for people. verb is "" if there is none.
func Report(w io.Writer, verb string, err error) {
	text, hint := Words(err)
	if verb != "" {
		text = verb + ": " + text
	}
	fmt.Fprintf(w, "cutie: %s\n", text)
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
}

// Words returns an error in one line, and its hint, "" without one.
func Words(err error) (text, hint string) {
	text = onOneLine(err)
	if errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	return text, HintOf(err)
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
