// Package field reads and writes the header fields of messages of the REST interface:
// digests, names of files, sidecars, keys and leases. The service (package rest) and its
// client (package client) share it.
package field

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/digest"
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
func SetSidecar(header http.Header, j *job.Job) (long bool) {
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
func Meta(m *job.Meta, header textproto.MIMEHeader) error {
	s, err := Single(header, Sidecar)
	if err != nil {
		return err
	}
	if m.Sidecar, err = url.PathUnescape(s); err != nil {
		return web.BadRequest("header %s: %v", Sidecar, err)
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
	if contentType == "" || contentType == job.DefaultMediaType {
		return "", nil
	}
	if !web.IsMediaType(contentType) {
		return "", web.BadRequest("Content-Type %.80q is not a media type", contentType)
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
		return "", web.BadRequest("Content-Disposition: %v", err)
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
	return "", web.BadRequest("header %s is repeated", name)
}

// ParseTime reads a time (RFC 3339), with or without seconds (W3CDTF).
func ParseTime(s string) (time.Time, error) {
	t, err := job.ParseTime(s)
	if err != nil {
		t, err = time.Parse("2006-01-02T15:04Z07:00", s)
	}
	if err != nil {
		err = web.BadRequest("%.40q is not a time such as 2026-11-25T08:00Z", s)
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

// fieldKeys are the names of digests in Content-Digest and Repr-Digest (RFC
// 9530, 7.2). Other types have none.
var fieldKeys = map[digest.Type]string{
	digest.SHA256:  "sha-256",
	digest.SHA512:  "sha-512",
	digest.MD5:     "md5",
	digest.SHA1:    "sha",
	digest.Adler32: "adler",
}

// Digests returns the digests in headers for the content, which equals
// the representation since there is no content coding. Unknown types are left
// out (RFC 9530).
func Digests(header textproto.MIMEHeader) ([]digest.Value, error) {
	var digests []digest.Value
	for _, name := range []string{"Content-Digest", "Repr-Digest"} {
		for _, value := range header[name] {
			for member := range strings.SplitSeq(value, ",") {
				v, err := parseMember(strings.TrimSpace(member))
				if err != nil {
					return nil, web.BadRequest("header %s: %v", name, err)
				}
				if v.Type.Valid() {
					digests = append(digests, v)
				}
			}
		}
	}
	s, err := Single(header, "Content-Md5")
	if err != nil {
		return nil, err
	}
	if s != "" {
		sum, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(sum) != digest.MD5.Size() {
			return nil, web.BadRequest("header Content-MD5 %.40q is not the base64 of 16 octets", s)
		}
		digests = append(digests, digest.NewValue(digest.MD5, sum))
	}
	return digests, nil
}

// parseMember reads one "key=:base64:"; its parameters have no meaning. For an
// unknown type the value is zero.
func parseMember(s string) (digest.Value, error) {
	key, rest, ok := strings.Cut(s, "=:")
	text, _, closed := strings.Cut(rest, ":")
	if !ok || !closed {
		return digest.Value{}, web.BadRequest("%.80q is not of the form sha-256=:base64:", s)
	}
	sum, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return digest.Value{}, web.BadRequest("%.80q: %v", s, err)
	}
	for t, k := range fieldKeys {
		if k != key {
			continue
		}
		if len(sum) != t.Size() {
			return digest.Value{}, web.BadRequest("%s has %d octets instead of %d", key, len(sum), t.Size())
		}
		return digest.NewValue(t, sum), nil
	}
	return digest.Value{}, nil
}

// SHA256 returns a digest as the value of Repr-Digest.
func SHA256(sum [32]byte) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// SetDigests puts digests into headers. A digest without a name there is
// returned.
func SetDigests(header textproto.MIMEHeader, digests []digest.Value) (rest digest.Value, err error) {
	var members []string
	for _, v := range digests {
		key, ok := fieldKeys[v.Type]
		switch {
		case ok:
			sum, err := hex.DecodeString(v.Hex)
			if err != nil {
				return rest, fmt.Errorf("digest %s: %w", v, err)
			}
			members = append(members, key+"=:"+base64.StdEncoding.EncodeToString(sum)+":")
		case rest.Type.Valid():
			return rest, fmt.Errorf("%s and %s cannot be verified together", rest.Type, v.Type)
		default:
			rest = v
		}
	}
	if len(members) > 0 {
		header.Set("Repr-Digest", strings.Join(members, ", "))
	}
	return rest, nil
}

// PairQuery returns a digest as the parameters digest-type and digest-value, none for the zero
// Value.
func PairQuery(v digest.Value) url.Values {
	query := url.Values{}
	if v.Type.Valid() {
		query.Set("digest-type", v.Type.String())
		query.Set("digest-value", v.Hex)
	}
	return query
}

// Headers of requests that may be sent again (draft-ietf-httpapi-idempotency-key-header).
const (
	KeyName  = "Idempotency-Key"
	Replayed = "Idempotency-Replayed" // true: the answer is that of an earlier request
)

// Key returns the key of a request, or of a part: a string in quotes as the draft has
// it, or bare as most clients send it. It is "" if there is none.
func Key(header map[string][]string) (string, error) {
	values := header[KeyName]
	if len(values) == 0 {
		return "", nil
	}
	s, err := Single(header, KeyName)
	if err != nil {
		return "", err
	}
	key := s
	if text, quoted := strings.CutPrefix(s, `"`); quoted {
		if key, quoted = strings.CutSuffix(text, `"`); !quoted {
			return "", web.BadRequest("header %s: %.40q has no end", KeyName, s)
		}
		if strings.ContainsAny(strings.NewReplacer(`\\`, "", `\"`, "").Replace(key), `\"`) {
			return "", web.BadRequest("header %s: %.40q is not a string", KeyName, s)
		}
		key = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(key)
	}
	if err := job.CheckKey(key); err != nil {
		return "", web.BadRequest("header %s: %v", KeyName, err)
	}
	return key, nil
}

// SetKey puts a key into a header, as a string in quotes.
func SetKey(header map[string][]string, key string) {
	if key != "" {
		header[KeyName] = []string{`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`}
	}
}

// Headers of a job handed out with a lease.
const (
	Lease        = "Cutie-Lease"         // token; also in the requests of its holder
	LeaseExpires = "Cutie-Lease-Expires" // W3CDTF
	Attempt      = "Cutie-Attempt"       // how often the job was handed out, this time included
)

// Fields of W3C Trace Context, in submissions and in answers to consumers.
const (
	TraceParent = "Traceparent"
	TraceState  = "Tracestate"
)

// Trace puts the trace in a header into the description of a job. As that specification
// asks, malformed fields count as none.
func Trace(m *job.Meta, header textproto.MIMEHeader) {
	if parents := header[TraceParent]; len(parents) == 1 {
		states := ""
		for i, s := range header[TraceState] {
			if i > 0 {
				states += ","
			}
			states += s
		}
		if r := job.TraceElements(parents[0], states); r != nil {
			m.Extra = r
		}
	}
}
