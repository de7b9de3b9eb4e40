package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/listen"
	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/ledger"
	"cutie/queuefs/objects"
	"cutie/queuefs/stored"
	"cutie/queuefs/web"
)

// Verbs return errors. Here they get the name of a queue or job, and a hint at a way out. The
// program ends with the exit code of the error, after one line on standard error, "cutie: verb:
// what: why" in lower case and without a full stop. A line "hint: …" follows if there is a hint.

// errRefused is the error of a user without the right.
var errRefused = errors.New("refused")

// errDiffers is the error of a copy with differences.
var errDiffers = errors.New("the copy differs from its Source")

// errFaulty is the error of a Source with faults.
var errFaulty = errors.New("the Source is faulty")

// A usageError is an error in the command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// usagef returns an error in the command line.
func usagef(format string, a ...any) error { return usageError{fmt.Sprintf(format, a...)} }

// A hintedError has a way out.
type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }

// withHint adds a way out to err.
func withHint(err error, hint string) error { return hintedError{err, hint} }

// hintOf returns the way out of err, "" if none is known.
func hintOf(err error) string {
	var h hintedError
	errors.As(err, &h)
	return h.hint
}

// nameError adds a name to an error, unless the error begins with it. An error for a
// missing queue or job has the same words for every target.
func nameError(name string, err error) error {
	if err == nil {
		return nil
	}
	for _, missing := range []error{ledger.ErrNoQueue, ledger.ErrNoJob} {
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

// jobError is [nameError] for a job of a queue.
func jobError(queue, job string, err error) error {
	if !errors.Is(err, ledger.ErrNoQueue) {
		err = nameError(job, err)
	}
	return nameError(queue, err)
}

// An aboutError is an error with the name of a thing.
type aboutError struct {
	name string
	error
}

func (e aboutError) Error() string { return e.name + ": " + e.error.Error() }
func (e aboutError) Unwrap() error { return e.error }

// reportError prints err and its hint for people. verb is "" if there is none.
func reportError(w io.Writer, verb string, err error) {
	text, hint := wordsOf(err)
	if verb != "" {
		text = verb + ": " + text
	}
	fmt.Fprintf(w, "cutie: %s\n", text)
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
}

// wordsOf returns an error in one line, and its hint, "" without one.
func wordsOf(err error) (text, hint string) {
	text = onOneLine(err)
	if errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	return text, hintOf(err)
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

// Exit codes; [exitTexts] explains them.
const (
	exitDone = iota
	exitError
	exitUsage
	exitNotFound
	exitEmpty
	exitConflict
	exitRefused
	ExitDigest
	exitDifferent
)

// exitTexts explain the exit codes.
var exitTexts = [...]string{
	exitDone:      "done",
	exitError:     "error: input, output, or the service failed",
	exitUsage:     "usage: the request makes no sense",
	exitNotFound:  "queue, job or result not found",
	exitEmpty:     "queue empty: an answer, not a failure, so silent without -v",
	exitConflict:  "conflict: not in this state",
	exitRefused:   "refused: not allowed",
	ExitDigest:    "digest verification failed",
	exitDifferent: "a copy differs from its Source, or a Source or a store is faulty",
}

// A kind is a kind of errors.
type kind struct {
	is   func(error) bool
	code int    // exit code; 0: by the status with which a daemon answers
	hint string // HOME is the directory of the home; "" for none
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// kinds are all kinds of errors with an exit code or a hint of their own. The first that
// fits has it.
var kinds = []kind{
	{is(context.Canceled), exitError, ""},
	{as[usageError], exitUsage, ""},
	{is(ledger.ErrEmpty), exitEmpty, ""},
	{is(queuefs.ErrLease), exitConflict, ""},
	{is(queuefs.ErrQueueExists), exitConflict, ""},
	{is(queuefs.ErrKeyUsed), exitConflict, ""},
	{is(digest.ErrMismatch), ExitDigest, ""},
	{is(digest.ErrMismatch), ExitDigest, ""},
	{is(access.ErrExists), exitConflict, ""},
	{is(access.ErrMissing), exitNotFound, ""},
	{is(errRefused), exitRefused, ""},
	{is(errDiffers), exitDifferent, ""},
	{is(errFaulty), exitDifferent, ""},
	{is(listen.ErrPortInUse), 0, "--listen 127.0.0.1:0 takes a free port"},

	// A home in an object store.
	{coming, exitConflict, "cutie store push goes on, from that directory"},
	{as[*bucket.MovedError], exitConflict, "serve it from there, or move it with cutie store push; if that directory is lost, --takeover takes the home as it was when it left the store"},
	{is(stored.ErrHere), exitConflict, "cutie serve without --store serves it"},
	{is(bucket.ErrThere), exitConflict, "take another prefix, for example s3://BUCKET/PREFIX2"},
	{is(stored.ErrArrived), exitConflict, ""},
	{as[*stored.OwnedError], exitConflict, "stop that daemon; if it is lost, --takeover takes the home from it, with all it has acknowledged"},
	{is(journal.ErrFenced), exitConflict, "nothing was acknowledged after that; start this daemon again when the other one has stopped"},
	{is(stored.ErrUnstored), exitConflict, "cutie store push DIR URL moves it into the store; an empty directory with another one is a cache"},
	{is(stored.ErrFaults), exitDifferent, ""},
	{stored.Damaged, 0, "cutie store check names all that is damaged in the store; start a daemon on the directory of the last owner, which may have it"},
	{is(objects.ErrNotExist), exitNotFound, ""},
	{is(objects.ErrUnconditional), 0, "cutie needs a store with conditional writes, such as Amazon S3, MinIO, Ceph or R2 of today"},
	{is(objects.ErrDenied), 0, "the credentials of AWS_ACCESS_KEY_ID, of ~/.aws/credentials or of the machine need the rights to get, put, list and delete below the prefix"},
	{is(objects.ErrNoBucket), 0, "make the bucket first; --store and --store-endpoint name it and its service"},
	{is(objects.ErrClock), 0, "run a time service, such as chrony or systemd-timesyncd"},
	{is(objects.ErrRegion), 0, "AWS_REGION is the region of the bucket, us-east-1 without it"},
	{as[*tls.CertificateVerificationError], 0, "--store-endpoint, or AWS_ENDPOINT_URL, has a name that is in the certificate; SSL_CERT_FILE names a file with the authorities to be trusted"},
	{unreached, 0, "--store-endpoint, or AWS_ENDPOINT_URL, is the URL of the service with the bucket, as this machine reaches it; without both it is that of Amazon S3"},

	// A home in a directory.
	{as[*home.ForeignError], 0, "cutie import HOME --home NEW copies it, with a table of old and new identifiers"},
	{as[*home.VersionError], 0, "install the version of cutie that made it, or a later one: cutie help operating"},
	{as[*home.LockedError], exitConflict, "stop that process, or use another home with --home DIR"},
	{is(home.ErrMaking), 0, "cutie failover copy HOME goes on"},
	{is(stored.ErrStored), exitConflict, "cutie serve --home HOME --store s3://BUCKET/PREFIX serves it; the other commands reach that daemon"},
	{is(queuefs.ErrJournalLost), 0, "bring log/journal back from a copy; without one, cutie check --repair --accept-loss HOME goes on with the files there are"},
	{is(queuefs.ErrInfo), 0, "cutie check --rebuild HOME sets the file aside and makes one with defaults"},
	{is(home.ErrNoHome), 0, "cutie init HOME makes a home of this directory, cutie check --rebuild HOME one of copied queues"},
	{is(fs.ErrExist), exitConflict, ""},
	{is(fs.ErrNotExist), 0, "cutie init HOME makes a home, cutie serve --home HOME makes and serves one"},
}

func coming(err error) bool {
	moved, ok := errors.AsType[*bucket.MovedError](err)
	return ok && moved.Coming
}

// unreached reports whether nobody answered as a store does.
func unreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, objects.ErrForeign) || errors.Is(err, http.ErrSchemeMismatch) || ok && op.Op == "dial"
}

// explainHome adds the hint of its kind to an error of opening a home in the directory dir; "":
// of reaching one in a store.
func explainHome(err error, dir string) error {
	if dir != "" && errors.Is(err, home.ErrNoHome) && home.Untagged(dir) {
		return withHint(err, "cutie check --rebuild "+dir+" makes the tag again, and leaves the rest as it is")
	}
	for _, k := range kinds {
		if k.hint != "" && (dir != "" || !strings.Contains(k.hint, "HOME")) && k.is(err) {
			return withHint(err, strings.ReplaceAll(k.hint, "HOME", dir))
		}
	}
	return err
}

// exitCode returns the exit code for err.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	for _, k := range kinds {
		if k.code != 0 && k.is(err) {
			return k.code
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
	case http.StatusConflict, http.StatusUnprocessableEntity: // another state, or a key that was used
		return exitConflict
	}
	return exitError
}

// maxNear is the most names in a hint; more are no help.
const maxNear = 3

// near returns the names that may be meant by word, joined by "or"; "" if there are
// none, or too many to help.
func near(word string, names []string) string {
	var near []string
	for _, name := range names {
		if isNear(word, name) {
			near = append(near, name)
		}
	}
	if len(near) > maxNear {
		return ""
	}
	return strings.Join(near, " or ")
}

// maxWord is longer than the names of all verbs.
const maxWord = 30

// isNear reports whether a name may be meant by word: word begins it, or is a slip
// of the fingers away from it, or two in a word of 8 letters.
func isNear(word, name string) bool {
	word, name = strings.ToLower(word), strings.ToLower(name)
	if len(word) < 3 || len(word) > maxWord {
		return len(word) == 2 && strings.HasPrefix(name, word)
	}
	return strings.HasPrefix(name, word) || slips(word, name) <= 1+len(word)/8
}

// slips is how many letters are missing, added, wrong or changed over with the next
// one (the distance of optimal string alignment).
func slips(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
		for j := 1; j <= len(b); j++ {
			if i == 0 {
				d[i][j] = j
				continue
			}
			wrong := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				wrong++
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

// inOption is an error in an option, without the words of the library.
func inOption(err error) string {
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) {
		return err.Error()
	}
	f := value.GetFlag()
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	why := "is no " + f.Value.Type()
	switch f.Value.Type() {
	case "int", "int64", "uint", "uint16", "uint64":
		why = "is not a whole number in range"
	case "duration":
		why = "is not a time such as 30s, 10m or 24h"
	case "bool":
		why = "is neither true nor false"
	case "octets", "text":
		return name + ": " + value.Unwrap().Error()
	}
	return fmt.Sprintf("%s %.40q %s", name, value.GetValue(), why)
}
