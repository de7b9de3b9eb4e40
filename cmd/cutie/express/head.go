package express

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A head is that of a plain request. The next one of the same client is often
// the same, octet for octet; then it is known already.
type head struct {
	text   []byte // the octets read, with the empty line
	target string
	url    url.URL
	host   string
	header http.Header
	length int64
}

// fields are those that a plain request may have, each once. None but
// Content-Length says where the request ends, or asks for something that a
// server has to do.
var fields = map[string]bool{
	"Accept":              true,
	"Accept-Encoding":     true,
	"Accept-Language":     true,
	"Authorization":       true,
	"Content-Disposition": true,
	"Content-Length":      true,
	"Content-Md5":         true,
	"Content-Type":        true,
	"Cutie-Sidecar":       true,
	"Host":                true,
	"User-Agent":          true,
}

// read parses the head at the beginning of ahead, and reports whether it is the
// one that was read before, and whether it is whole and plain. If not, h holds
// nothing of it.
func (h *head) read(ahead []byte) (known, ok bool) {
	if n := len(h.text); n > 0 && len(ahead) >= n && bytes.Equal(ahead[:n], h.text) {
		return true, true
	}
	end := bytes.Index(ahead, []byte("\r\n\r\n"))
	if end < 0 {
		return false, false
	}
	next := head{text: bytes.Clone(ahead[:end+4]), header: make(http.Header, 8)}
	lines := string(ahead[:end])
	line, lines, _ := strings.Cut(lines, "\r\n")
	if !next.first(line) {
		return false, false
	}
	for lines != "" {
		line, lines, _ = strings.Cut(lines, "\r\n")
		if !next.field(line) {
			return false, false
		}
	}
	if next.host == "" {
		return false, false
	}
	*h = next
	return false, true
}

// first reads the request line: POST, a path without a query or an escape, and
// HTTP/1.1.
func (h *head) first(line string) bool {
	target, post := strings.CutPrefix(line, "POST ")
	target, current := strings.CutSuffix(target, " HTTP/1.1")
	if !post || !current || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		return false
	}
	for _, c := range []byte(target) {
		if !isPath(c) {
			return false
		}
	}
	h.target, h.url.Path = target, target
	return true
}

// field reads a field line with a value in ASCII.
func (h *head) field(line string) bool {
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return false
	}
	if name = http.CanonicalHeaderKey(name); !fields[name] || h.header[name] != nil {
		return false
	}
	for _, c := range []byte(value) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	value = strings.Trim(value, " ")
	switch name {
	case "Host":
		if h.host != "" || value == "" {
			return false
		}
		for _, c := range []byte(value) {
			if !isHost(c) {
				return false
			}
		}
		h.host = value
		return true // the server has it in Request.Host only
	case "Content-Length":
		// Signs, which the parser takes, are no digits.
		if value == "" || value[0] < '0' || value[0] > '9' {
			return false
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return false
		}
		h.length = n
	}
	h.header[name] = []string{value}
	return true
}

// isPath tells whether c may stand in a path and means itself there.
func isPath(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("/-._~", c) >= 0
}

// isHost tells whether c may stand in a name, an address or a port.
func isHost(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("-._:[]", c) >= 0
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// request makes a request of the head, for one handler to do with as it likes.
func (h *head) request(ctx context.Context, from string) *http.Request {
	u := h.url
	r := http.Request{
		Method: http.MethodPost, URL: &u, RequestURI: h.target,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: maps.Clone(h.header), Host: h.host, ContentLength: h.length, RemoteAddr: from,
	}
	return r.WithContext(ctx)
}
