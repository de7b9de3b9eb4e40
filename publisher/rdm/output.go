package rdm

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"cutie/queuefs/buffers"
	"cutie/queuefs/state"
)

// An output is the body of an answer. It is held back up to 64 KiB, so short
// answers have a Content-Length, and errors a status.
type output struct {
	w       http.ResponseWriter
	head    bool // of the answer nothing but the header is wanted
	status  int
	held    []byte
	started bool
	coding  string // "" if it is sent as it is
	zip     *gzip.Writer
	memory  *buffers.Account
}

const (
	heldOctets = 64 << 10
	zipMemory  = 1 << 20 // bytes that a gzip.Writer takes, about
)

func newOutput(w http.ResponseWriter, r *http.Request, memory *buffers.Account) *output {
	return &output{w: w, head: r.Method == http.MethodHead, status: http.StatusOK, coding: accepted(r.Header.Values("Accept-Encoding")), memory: memory}
}

// accepted returns the content coding to send, under the name in the request.
func accepted(header []string) string {
	for part := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, params, _ := strings.Cut(part, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		if name != "gzip" && name != "x-gzip" {
			continue
		}
		if state.ParseAccept("content/coding;"+params).Quality("content/coding") > 0 {
			return name
		}
	}
	return ""
}

// errTaken ends a complete answer.
var errTaken = errors.New("answer is complete")

// write adds to the body. Without memory to compress it goes out as it is.
func (o *output) write(p []byte) error {
	if o.coding != "" && o.zip == nil && o.memory.Take(zipMemory) != nil {
		o.coding = ""
	}
	if o.coding == "" {
		_, err := o.Write(p)
		return err
	}
	if o.zip == nil {
		o.zip, _ = gzip.NewWriterLevel(o, gzip.BestSpeed)
	}
	_, err := o.zip.Write(p)
	return err
}

// Write takes octets to be sent unchanged.
func (o *output) Write(p []byte) (int, error) {
	if !o.started {
		if len(o.held)+len(p) <= heldOctets {
			o.held = append(o.held, p...)
			return len(p), nil
		}
		o.start()
		if o.head {
			return 0, errTaken
		}
		if _, err := o.w.Write(o.held); err != nil {
			return 0, err
		}
		o.held = nil
	}
	return o.w.Write(p)
}

func (o *output) start() {
	o.started = true
	if o.coding != "" {
		o.w.Header().Set("Content-Encoding", o.coding)
	}
	o.w.WriteHeader(o.status)
}

// finish sends the rest.
func (o *output) finish() error {
	if o.zip != nil {
		if err := o.zip.Close(); err != nil {
			return err
		}
	}
	if o.started {
		return nil
	}
	o.w.Header().Set("Content-Length", strconv.Itoa(len(o.held)))
	o.start()
	_, err := o.w.Write(o.held)
	return err
}

// reset begins anew; nothing was sent yet.
func (o *output) reset(status int) {
	o.held, o.zip, o.coding, o.status = o.held[:0], nil, "", status
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
