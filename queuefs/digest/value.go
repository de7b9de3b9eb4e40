package digest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrMismatch is the error for data with an unexpected digest. Its text is the
// reason in the Cutie specification for the answer 400.
var ErrMismatch = errors.New("digest verification failed")

// A Value is the digest of some data. Values made by this package are canonical
// and may be compared with ==. The zero Value is no digest.
type Value struct {
	Type Type
	Hex  string // lower case, twice Type.Size() characters
}

// NewValue returns the digest with the octets sum, as a [hash.Hash] gives them.
func NewValue(t Type, sum []byte) Value {
	return Value{Type: t, Hex: hex.EncodeToString(sum)}
}

// Sum returns the digest of data.
func Sum(t Type, data []byte) Value {
	h := t.New()
	h.Write(data)
	return NewValue(t, h.Sum(nil))
}

// ParseValue reads a hexadecimal digest in upper or lower case. Digests of
// Adler-32 and CRC-32 may lack leading zeros. A digest of the wrong length is
// refused.
func ParseValue(t Type, digits string) (Value, error) {
	if !t.Valid() {
		return Value{}, errors.New("digest value without digest type")
	}
	if len(digits) == 2*t.Size() && isHex(digits) { // as it is written, nearly always
		return Value{Type: t, Hex: digits}, nil
	}
	v := Value{Type: t, Hex: canonical(t, digits)}
	if !isHex(v.Hex) || len(v.Hex) != 2*t.Size() || digits == "" {
		return Value{}, fmt.Errorf("%s value %q is not %d hexadecimal digits", t, digits, 2*t.Size())
	}
	return v, nil
}

// isHex reports whether s is hexadecimal digits in lower case.
func isHex(s string) bool {
	for i := 0; i < len(s); i++ {
		if !hexDigits[s[i]] {
			return false
		}
	}
	return true
}

var hexDigits = func() (is [256]bool) {
	for _, c := range "0123456789abcdef" {
		is[c] = true
	}
	return is
}()

// ParsePair reads a type and a value with a colon between them, such as
// "md5:b1946ac92492d2347c6235b4d2611184".
func ParsePair(s string) (Value, error) {
	name, digits, ok := strings.Cut(s, ":")
	if !ok {
		return Value{}, fmt.Errorf("digest %q is not type:value", s)
	}
	t, err := Parse(name)
	if err != nil {
		return Value{}, err
	}
	return ParseValue(t, digits)
}

// String returns v as [ParsePair] reads it and ResourceSync writes it, with the
// [Type.Token] in front. The zero Value gives "".
func (v Value) String() string {
	if v == (Value{}) {
		return ""
	}
	return v.Type.Token() + ":" + v.Hex
}

// Equal reports whether v and w are the same digest, also if their digits
// differ in case or in the leading zeros of an Adler-32 or CRC-32.
func (v Value) Equal(w Value) bool {
	return v.Type == w.Type && canonical(v.Type, v.Hex) == canonical(w.Type, w.Hex)
}

// Check returns nil if got, the digest of the data at hand, equals v, and else
// an [ErrMismatch].
func (v Value) Check(got Value) error {
	if v.Equal(got) {
		return nil
	}
	return fmt.Errorf("%w: expected %s, got %s", ErrMismatch, v, got)
}

// canonical returns digits in lower case, for a 32-bit checksum with leading
// zeros: Merritt prints these without.
func canonical(t Type, digits string) string {
	if t == Adler32 || t == CRC32 {
		digits = strings.Repeat("0", max(0, 8-len(digits))) + digits
	}
	return strings.ToLower(digits)
}
