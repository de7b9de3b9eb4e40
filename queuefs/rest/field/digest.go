package field

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/textproto"
	"net/url"
	"strings"

	"cutie/queuefs/digest"
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
					return nil, bad("header %s: %v", name, err)
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
			return nil, bad("header Content-MD5 %.40q is not the base64 of 16 octets", s)
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
		return digest.Value{}, bad("%.80q is not of the form sha-256=:base64:", s)
	}
	sum, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return digest.Value{}, bad("%.80q: %v", s, err)
	}
	for t, k := range fieldKeys {
		if k != key {
			continue
		}
		if len(sum) != t.Size() {
			return digest.Value{}, bad("%s has %d octets instead of %d", key, len(sum), t.Size())
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
