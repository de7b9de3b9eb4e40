package rdm

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"cutie/queuefs/buffers"
	"cutie/queuefs/state"
)

// An output is the body of an answer. It is held back up to 64 KiB, so short
// answers have a Content-Length, and errors a status; without memory, up to 4 KiB.
type output struct {
	w       http.ResponseWriter
	head    bool // of the answer nothing but the header is wanted
	status  int
	held    []byte
	room    int // bytes that may be held back; 0: that is to be asked
	memory  *buffers.Account
	started bool
}

const (
	heldOctets  = 64 << 10
	leastOctets = 4 << 10
)

// errTaken ends a complete answer.
var errTaken = errors.New("answer is complete")

// write adds to the body.
func (o *output) write(p []byte) error {
	if o.room == 0 { // what is taken later is given back with a description
		if o.room = heldOctets; o.memory.Take(heldOctets) != nil {
			o.room = leastOctets
		}
	}
	if !o.started && len(o.held)+len(p) <= o.room {
		o.held = append(o.held, p...)
		return nil
	}
	if !o.started {
		o.started = true
		o.w.WriteHeader(o.status)
		if o.head {
			return errTaken
		}
		if _, err := o.w.Write(o.held); err != nil {
			return err
		}
		o.held = nil
	}
	_, err := o.w.Write(p)
	return err
}

// finish sends the rest.
func (o *output) finish() error {
	if o.started {
		return nil
	}
	o.started = true
	o.w.Header().Set("Content-Length", strconv.Itoa(len(o.held)))
	o.w.WriteHeader(o.status)
	_, err := o.w.Write(o.held)
	return err
}

// answer sends the header of an answer, and the first part of its body.
func (x *exchange) answer(head *Header, body []byte) error {
	head.Mended = x.mendedText()
	return x.out.write(append(head.append(nil), body...))
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

func number(n int64) string { return strconv.FormatInt(n, 10) }

// wantsPage tells whether the caller would rather have HTML than a message.
func (x *exchange) wantsPage() bool {
	header := x.r.Header.Get("Accept")
	if header == "" {
		return false
	}
	a := state.ParseAccept(header)
	return a.Quality("text/html") > max(a.Quality(MediaType), a.Quality("application/rdm"))
}

const pageType = "text/html; charset=utf-8"
