package web

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

var (
	// ErrPrecondition is answered with 412 (RFC 9110, 15.5.13).
	ErrPrecondition = errors.New("it is not in the state that If-Match or If-Unmodified-Since asks for")
	// ErrRange is answered with 416 (RFC 9110, 15.5.17). Content-Range is in the
	// header then.
	ErrRange = errors.New("invalid range: failed to overlap")
)

// Serve is [http.ServeContent] for content with its type already in the header.
// It answers with the whole, with ranges (RFC 9110, 14), or with 304 (13); the header Range
// is read less strictly than there, all lines of a list are read, and 412 has a body.
// A zero modified gives no date. If a precondition of the request does not
// hold, nothing is written and the error is [ErrPrecondition].
//
// A Range is ignored with HEAD and in a unit other than bytes (RFC 9110, 14.2),
// or if it is malformed or repeated. Positions may be of any size, and a suffix
// of no octets cannot be satisfied (14.1.2).
func Serve(w http.ResponseWriter, r *http.Request, modified time.Time, in io.ReadSeeker) error {
	c := checked{ResponseWriter: w}
	http.ServeContent(&c, listed(ranged(r)), "", modified, in)
	return c.err
}

// A checked answer keeps an error from being written.
type checked struct {
	http.ResponseWriter
	err error
}

func (c *checked) WriteHeader(status int) {
	switch status {
	case http.StatusPreconditionFailed:
		c.err = ErrPrecondition
	case http.StatusRequestedRangeNotSatisfiable:
		c.err = ErrRange
	default:
		c.ResponseWriter.WriteHeader(status)
	}
}

func (c *checked) Write(p []byte) (int, error) {
	if c.err != nil {
		return len(p), nil
	}
	return c.ResponseWriter.Write(p)
}

// ReadFrom lets what is below have a file as such.
func (c *checked) ReadFrom(src io.Reader) (int64, error) { return io.Copy(c.ResponseWriter, src) }

// Unwrap lets [http.ResponseController] through.
func (c *checked) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// listed returns the request with If-Match and If-None-Match in one line each.
// They are lists and may come in several lines (RFC 9110, 5.3), but net/http
// reads the first line only.
func listed(r *http.Request) *http.Request {
	of := r
	for _, name := range [...]string{"If-Match", "If-None-Match"} {
		lines := r.Header[name]
		if len(lines) < 2 {
			continue
		}
		if of == r {
			c := *r
			c.Header = maps.Clone(r.Header)
			of = &c
		}
		of.Header[name] = []string{strings.Join(lines, ", ")}
	}
	return of
}

// ranged returns the request with a Range in the spelling of net/http, or
// without a Range.
func ranged(r *http.Request) *http.Request {
	lines := r.Header["Range"]
	if len(lines) == 0 {
		return r
	}
	want := ""
	if len(lines) == 1 && r.Method == http.MethodGet {
		want = plain(lines[0])
	}
	if want == lines[0] && want != "" {
		return r
	}
	c := *r
	c.Header = maps.Clone(r.Header)
	if delete(c.Header, "Range"); want != "" {
		c.Header["Range"] = []string{want}
	}
	return &c
}

// most is the largest position there is, and more than content has.
const most = "9223372036854775807"

// plain returns a Range with the unit in lower case and positions of 64 bits, ""
// if it is to be ignored.
func plain(header string) string {
	unit, set, ok := strings.Cut(header, "=")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return ""
	}
	var specs []string
	for spec := range strings.SplitSeq(set, ",") {
		if spec = strings.Trim(spec, " \t"); spec == "" {
			continue // of a list (5.6.1)
		}
		first, last, ok := strings.Cut(spec, "-")
		first, ok1 := position(first)
		last, ok2 := position(last)
		switch {
		case !ok || !ok1 || !ok2 || first == "" && last == "" || first != "" && last != "" && below(last, first):
			return ""
		case first == "" && last == "0":
			first, last = most, ""
		}
		specs = append(specs, first+"-"+last)
	}
	if len(specs) == 0 {
		return ""
	}
	return "bytes=" + strings.Join(specs, ",")
}

// position returns digits without zeros before them. Numbers above 64 bits
// become [most]; a text without digits is returned unchanged.
func position(s string) (string, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return "", false
		}
	}
	if s == "" {
		return "", true
	}
	if s = strings.TrimLeft(s, "0"); s == "" {
		return "0", true
	}
	if below(most, s) {
		return most, true
	}
	return s, true
}

// below tells whether a is less than b, both without zeros before them.
func below(a, b string) bool {
	return len(a) < len(b) || len(a) == len(b) && a < b
}

// Matches reports whether the lines of If-None-Match name the tag (RFC 9110,
// 13.1.2).
func Matches(ifNoneMatch []string, tag string) bool {
	return AnyTag(ifNoneMatch, func(t string) bool { return strings.TrimPrefix(t, "W/") == tag })
}

// AnyTag reports whether the lines of a header have a matching tag, or are "*".
func AnyTag(lines []string, is func(tag string) bool) bool {
	for _, line := range lines {
		for t := range strings.SplitSeq(line, ",") {
			if t = strings.TrimSpace(t); t == "*" || t != "" && is(t) {
				return true
			}
		}
	}
	return false
}
