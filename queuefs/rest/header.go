package rest

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// fieldKeys are the names of digests in Content-Digest and Repr-Digest (RFC
// 9530, 7.2). Other types have none.
var fieldKeys = map[digest.Type]string{
	digest.SHA256:  "sha-256",
	digest.SHA512:  "sha-512",
	digest.MD5:     "md5",
	digest.SHA1:    "sha",
	digest.Adler32: "adler",
}

// headerDigests returns the digests in headers for the content, which equals
// the representation since there is no content coding. Unknown types are left
// out (RFC 9530).
func headerDigests(header textproto.MIMEHeader) ([]digest.Value, error) {
	var digests []digest.Value
	for _, name := range []string{"Content-Digest", "Repr-Digest"} {
		for _, value := range header[name] {
			for member := range strings.SplitSeq(value, ",") {
				v, err := parseMember(strings.TrimSpace(member))
				if err != nil {
					return nil, badRequest("header %s: %v", name, err)
				}
				if v.Type.Valid() {
					digests = append(digests, v)
				}
			}
		}
	}
	s, err := single(header, "Content-Md5")
	if err != nil {
		return nil, err
	}
	if s != "" {
		sum, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(sum) != digest.MD5.Size() {
			return nil, badRequest("header Content-MD5 %.40q is not the base64 of 16 octets", s)
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
		return digest.Value{}, badRequest("%.80q is not of the form sha-256=:base64:", s)
	}
	sum, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return digest.Value{}, badRequest("%.80q: %v", s, err)
	}
	for t, k := range fieldKeys {
		if k != key {
			continue
		}
		if len(sum) != t.Size() {
			return digest.Value{}, badRequest("%s has %d octets instead of %d", key, len(sum), t.Size())
		}
		return digest.NewValue(t, sum), nil
	}
	return digest.Value{}, nil
}

// setDigests puts digests into headers. A digest without a name there is
// returned.
func setDigests(header textproto.MIMEHeader, digests []digest.Value) (rest digest.Value, err error) {
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

func pairQuery(v digest.Value) url.Values {
	query := url.Values{}
	if v.Type.Valid() {
		query.Set("digest-type", v.Type.String())
		query.Set("digest-value", v.Hex)
	}
	return query
}

// maxHeader is the most octets of a header of variable length: programs that
// read no more than 8 or 16 KiB of headers are common. A longer sidecar,
// percent-encoded, is announced in sidecarLength, and a Link of sidecarRelation leads to
// its octets.
const maxHeader = 4 << 10

// sidecarLength gives the octets of a sidecar missing in the answer.
const sidecarLength = "Cutie-Sidecar-Length"

// sidecarRelation leads from a payload to its sidecar.
const sidecarRelation = Relation + "sidecar"

func sidecarHeaders(header http.Header, base state.Base, j *queuefs.Job) {
	if !j.HasSidecar() {
		return
	}
	if s := appendEscaped(nil, j.Sidecar); len(s) <= maxHeader {
		header[sidecarHeader] = []string{string(s)}
		return
	}
	header[sidecarLength] = []string{strconv.Itoa(len(j.Sidecar))}
	header["Link"] = append(header["Link"], "<"+base.JobRef("content", j.Queue, j.ID)+`?part=sidecar>; rel="`+sidecarRelation+`"`)
}

// sendSidecar answers with the octets of a sidecar alone.
func sendSidecar(w http.ResponseWriter, j *queuefs.Job) error {
	if !j.HasSidecar() {
		return web.Errorf(http.StatusNotFound, "%s has no sidecar", j.ID)
	}
	header := w.Header()
	header["Content-Type"], header["Content-Length"] = []string{queuefs.DefaultMediaType}, []string{strconv.Itoa(len(j.Sidecar))}
	header["X-Content-Type-Options"] = noSniff
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, j.Sidecar) // nobody is left to be told
	return nil
}

// appendEscaped percent-encodes characters not allowed in a header, and blanks,
// since they would be lost at its ends.
func appendEscaped(dst []byte, s string) []byte {
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

// escapedLen returns how many octets appendEscaped appends.
func escapedLen(s string) int {
	n := len(s)
	for i := 0; i < len(s); i++ {
		if !isPlain(s[i]) {
			n += 2
		}
	}
	return n
}

// appendDisposition appends a Content-Disposition (RFC 6266). A file name
// beyond ASCII is in the extended notation, except in a form, where it stands
// as it is (RFC 7578, 4.2).
func appendDisposition(dst []byte, kind, name, filename string) []byte {
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

// sidecarHeader carries sidecar data, percent-encoded.
const sidecarHeader = "Cutie-Sidecar"

// notBeforeHeader is the time until which a job is submitted on hold (RFC 3339).
const notBeforeHeader = "Cutie-Not-Before"

// headerMeta reads the facts of a payload in headers of a request or a part.
func headerMeta(m *queuefs.Meta, header textproto.MIMEHeader) error {
	s, err := single(header, sidecarHeader)
	if err != nil {
		return err
	}
	if m.Sidecar, err = url.PathUnescape(s); err != nil {
		return badRequest("header %s: %v", sidecarHeader, err)
	}
	m.EmptySidecar = s == "" && header[sidecarHeader] != nil
	if s, err = single(header, notBeforeHeader); err != nil {
		return err
	}
	if s != "" {
		if m.NotBefore, err = parseTime(s); err != nil {
			return err
		}
	}
	m.Expect, err = headerDigests(header)
	return err
}

// mediaType checks a Content-Type. Without one it is "".
func mediaType(contentType string) (string, error) {
	if contentType == "" || contentType == queuefs.DefaultMediaType {
		return "", nil
	}
	if !web.IsMediaType(contentType) {
		return "", badRequest("Content-Type %.80q is not a media type", contentType)
	}
	return contentType, nil
}

// dispositionName returns the file name of a Content-Disposition.
func dispositionName(disposition string) (string, error) {
	if disposition == "" {
		return "", nil
	}
	_, params, err := mime.ParseMediaType(disposition)
	if err != nil {
		return "", badRequest("Content-Disposition: %v", err)
	}
	return params["filename"], nil
}

// identityCoding refuses a body with a content coding: the plain content is
// stored.
func identityCoding(header http.Header) error {
	codings := header["Content-Encoding"]
	for _, c := range codings {
		if c != "" && !strings.EqualFold(c, "identity") {
			return &web.Error{Status: http.StatusUnsupportedMediaType, Message: "content coding " + strings.Join(codings, ", ") + " is not supported"}
		}
	}
	return nil
}

// single returns a header that is no list, "" if there is none. Repeating it is
// an error of the sender (RFC 9110, 5.3): any of the values may be meant. name
// is in the form of [textproto.CanonicalMIMEHeaderKey].
func single(header map[string][]string, name string) (string, error) {
	switch v := header[name]; len(v) {
	case 0:
		return "", nil
	case 1:
		return v[0], nil
	}
	return "", badRequest("header %s is repeated", name)
}
