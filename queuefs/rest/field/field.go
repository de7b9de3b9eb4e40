// Package field reads and writes the header fields of messages of the REST interface:
// digests, names of files, sidecars, keys and leases. The service (package rest) and its
// client (package client) share it.
package field

import (
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/web"
)

// MaxLength is the most octets of a header of variable length: programs that
// read no more than 8 or 16 KiB of headers are common. A longer sidecar,
// percent-encoded, is announced in SidecarLength and stands in the job state.
const MaxLength = 4 << 10

// SidecarLength gives the octets of a sidecar missing in the answer.
const SidecarLength = "Cutie-Sidecar-Length"

// SetSidecar adds the sidecar of a job. The result is true if it is too long for a field;
// then a Link should lead to its octets.
func SetSidecar(header http.Header, j *queuefs.Job) (long bool) {
	if !j.HasSidecar() {
		return false
	}
	if s := AppendEscaped(nil, j.Sidecar); len(s) <= MaxLength {
		header[Sidecar] = []string{string(s)}
		return false
	}
	header[SidecarLength] = []string{strconv.Itoa(len(j.Sidecar))}
	return true
}

// AppendEscaped percent-encodes characters not allowed in a header, and blanks,
// since they would be lost at its ends.
func AppendEscaped(dst []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		if c := s[i]; isPlain(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

func isPlain(c byte) bool { return c > ' ' && c < 0x7f && c != '%' }

// EscapedLen returns how many octets AppendEscaped appends.
func EscapedLen(s string) int {
	n := len(s)
	for i := 0; i < len(s); i++ {
		if !isPlain(s[i]) {
			n += 2
		}
	}
	return n
}

// AppendDisposition appends a Content-Disposition (RFC 6266). A file name
// beyond ASCII is in the extended notation, except in a form, where it stands
// as it is (RFC 7578, 4.2).
func AppendDisposition(dst []byte, kind, name, filename string) []byte {
	dst = append(dst, kind...)
	if name != "" {
		dst = append(append(append(dst, `; name="`...), name...), '"')
	}
	if filename == "" {
		return dst
	}
	if kind != "form-data" && !isASCII(filename) {
		dst = append(dst, "; filename*=UTF-8''"...)
		for i := 0; i < len(filename); i++ {
			c := filename[i]
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
				dst = append(dst, c)
			} else {
				dst = append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
			}
		}
		return dst
	}
	dst = append(dst, `; filename="`...)
	for i := 0; i < len(filename); i++ {
		switch c := filename[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f: // no label has them
			dst = append(dst, '?')
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// Sidecar carries sidecar data, percent-encoded.
const Sidecar = "Cutie-Sidecar"

// NotBefore is the time until which a job is submitted on hold (RFC 3339).
const NotBefore = "Cutie-Not-Before"

// Meta reads the facts of a payload in headers of a request or a part.
func Meta(m *queuefs.Meta, header textproto.MIMEHeader) error {
	s, err := Single(header, Sidecar)
	if err != nil {
		return err
	}
	if m.Sidecar, err = url.PathUnescape(s); err != nil {
		return bad("header %s: %v", Sidecar, err)
	}
	m.EmptySidecar = s == "" && header[Sidecar] != nil
	if s, err = Single(header, NotBefore); err != nil {
		return err
	}
	if s != "" {
		if m.NotBefore, err = ParseTime(s); err != nil {
			return err
		}
	}
	m.Expect, err = Digests(header)
	return err
}

// MediaType checks a Content-Type. Without one it is "".
func MediaType(contentType string) (string, error) {
	if contentType == "" || contentType == queuefs.DefaultMediaType {
		return "", nil
	}
	if !web.IsMediaType(contentType) {
		return "", bad("Content-Type %.80q is not a media type", contentType)
	}
	return contentType, nil
}

// Filename returns the file name of a Content-Disposition.
func Filename(disposition string) (string, error) {
	if disposition == "" {
		return "", nil
	}
	_, params, err := mime.ParseMediaType(disposition)
	if err != nil {
		return "", bad("Content-Disposition: %v", err)
	}
	return params["filename"], nil
}

// Identity refuses a body with a content coding: the plain content is
// stored.
func Identity(header http.Header) error {
	codings := header["Content-Encoding"]
	for _, c := range codings {
		if c != "" && !strings.EqualFold(c, "identity") {
			return &web.Error{Status: http.StatusUnsupportedMediaType, Message: "content coding " + strings.Join(codings, ", ") + " is not supported"}
		}
	}
	return nil
}

// Single returns a header that is no list, "" if there is none. Repeating it is
// an error of the sender (RFC 9110, 5.3): any of the values may be meant. name
// is in the form of [textproto.CanonicalMIMEHeaderKey].
func Single(header map[string][]string, name string) (string, error) {
	switch v := header[name]; len(v) {
	case 0:
		return "", nil
	case 1:
		return v[0], nil
	}
	return "", bad("header %s is repeated", name)
}

// ParseTime reads a time (RFC 3339), with or without seconds (W3CDTF).
func ParseTime(s string) (time.Time, error) {
	t, err := job.ParseTime(s)
	if err != nil {
		t, err = time.Parse("2006-01-02T15:04Z07:00", s)
	}
	if err != nil {
		err = bad("%.40q is not a time such as 2026-11-25T08:00Z", s)
	}
	return t, err
}

// IsForm reports whether a Content-Type is multipart/form-data.
func IsForm(contentType string) bool {
	const form = "multipart/form-data"
	return len(contentType) >= len(form) && strings.EqualFold(contentType[:len(form)], form)
}

// IsCheckm reports whether a file of the media type is a manifest, unless its type is
// said to be another.
func IsCheckm(mediaType string) bool {
	media, _, _ := strings.Cut(mediaType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "text/checkm" || media == "text/x-checkm"
}

func bad(format string, args ...any) error {
	return web.Errorf(http.StatusBadRequest, format, args...)
}
