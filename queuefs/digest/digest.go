// Package digest knows the eight message digests of a submission (Cutie 5.5):
// Adler-32, CRC-32, MD2, MD5, SHA-1, SHA-256, SHA-384 and SHA-512.
//
// Names are read loosely, since clients spell them in many ways, and printed in
// two forms: as in the Cutie specification ("SHA-256") and as in the Atom link
// extensions and ResourceSync ("sha-256").
package digest

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"hash/crc32"
	"io"
	"strings"
)

// A Type is a digest algorithm. The zero Type is none.
type Type uint8

// The digest types of Cutie 5.5. Its "CDC-32" is CRC-32.
const (
	Adler32 Type = iota + 1 // RFC 1950
	CRC32                   // polynomial of IEEE 802.3
	MD2                     // RFC 1319
	MD5                     // RFC 1321
	SHA1                    // FIPS 180-4, as the rest
	SHA256
	SHA384
	SHA512
)

var types = [...]struct {
	name string
	size int
	new  func() hash.Hash
}{
	Adler32: {"Adler-32", adler32.Size, func() hash.Hash { return adler32.New() }},
	CRC32:   {"CRC-32", crc32.Size, func() hash.Hash { return crc32.NewIEEE() }},
	MD2:     {"MD2", md2Size, newMD2},
	MD5:     {"MD5", md5.Size, md5.New},
	SHA1:    {"SHA-1", sha1.Size, sha1.New},
	SHA256:  {"SHA-256", sha256.Size, sha256.New},
	SHA384:  {"SHA-384", sha512.Size384, sha512.New384},
	SHA512:  {"SHA-512", sha512.Size, sha512.New},
}

// Types returns the eight types in the order of Cutie 5.5.
func Types() []Type {
	return []Type{Adler32, CRC32, MD2, MD5, SHA1, SHA256, SHA384, SHA512}
}

// Parse returns the type of the given name. Case, hyphens and blanks do not
// count. "CDC-32", "Alder-32" and "SHA" are read as the types they were meant
// for.
func Parse(name string) (Type, error) {
	for t := Adler32; t.Valid(); t++ { // as it is written, nearly always
		if name == types[t].name {
			return t, nil
		}
	}
	switch plain := plainName(name); plain {
	case "cdc32":
		return CRC32, nil
	case "alder32":
		return Adler32, nil
	case "sha":
		return SHA1, nil
	default:
		for _, t := range Types() {
			if plain == plainName(t.String()) {
				return t, nil
			}
		}
		return 0, fmt.Errorf("unknown digest type %q", name)
	}
}

func plainName(name string) string { return ignored.Replace(strings.ToLower(name)) }

var ignored = strings.NewReplacer("-", "", " ", "", "\t", "")

// Valid reports whether t is one of the eight types. The other methods but
// String and Token panic if it is not.
func (t Type) Valid() bool { return t > 0 && int(t) < len(types) }

// String returns the name as the Cutie specification spells it, such as
// "SHA-256", or "" for the zero Type.
func (t Type) String() string {
	if t == 0 {
		return ""
	}
	if !t.Valid() {
		return fmt.Sprintf("Type(%d)", uint8(t))
	}
	return types[t].name
}

// Token returns the name as it stands in the hash attribute of the Atom link
// extensions (draft-snell-atompub-link-extensions-09) and of ResourceSync, such
// as "md5" or "sha-256".
func (t Type) Token() string { return strings.ToLower(t.String()) }

// Size returns the length of a digest in octets, half its hexadecimal length.
func (t Type) Size() int { return types[t].size }

// New returns a hash for digests of this type.
func (t Type) New() hash.Hash { return types[t].new() }

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
	var text [2 * sha512.Size]byte // of the longest one
	return Value{Type: t, Hex: string(hex.AppendEncode(text[:0], sum))}
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

// A Reader computes digests of the octets read through it.
type Reader struct {
	in     io.Reader
	expect []Value
	sums   []hash.Hash
}

// NewReader returns a Reader of in for the types of the expected digests.
func NewReader(in io.Reader, expect []Value) *Reader {
	r := &Reader{in: in, expect: expect}
	for _, v := range expect {
		r.sums = append(r.sums, v.Type.New())
	}
	return r
}

func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	for _, h := range r.sums {
		h.Write(p[:n])
	}
	return n, err
}

// Verify returns an [ErrMismatch] if a digest of the octets read so far is not
// the expected one.
func (r *Reader) Verify() error {
	for i, v := range r.expect {
		if err := v.Check(NewValue(v.Type, r.sums[i].Sum(nil))); err != nil {
			return err
		}
	}
	return nil
}

// A Set is a set of types. The zero Set is empty.
type Set uint16

// SetOf returns the set of the types.
func SetOf(types ...Type) (s Set) {
	for _, t := range types {
		s |= 1 << t
	}
	return s
}

// Has reports whether t is in the set.
func (s Set) Has(t Type) bool { return s>>t&1 != 0 }

// Types returns the types of the set in the order of Cutie 5.5.
func (s Set) Types() []Type {
	if s == 0 {
		return nil
	}
	var types []Type
	for _, t := range Types() {
		if s.Has(t) {
			types = append(types, t)
		}
	}
	return types
}

// String returns the names of the types with a blank between them, such as
// "MD5 SHA-256", and "" for the empty set.
func (s Set) String() string {
	var names []string
	for _, t := range s.Types() {
		names = append(names, t.String())
	}
	return strings.Join(names, " ")
}

// ParseSet reads names of types, as [Parse] does, with blanks or commas between
// them.
func ParseSet(names string) (s Set, err error) {
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return strings.ContainsRune(" ,\t\r\n", r) }) {
		t, err := Parse(name)
		if err != nil {
			return 0, fmt.Errorf("digests %.80q: %w", names, err)
		}
		s |= 1 << t
	}
	return s, nil
}

const (
	md2Size  = 16
	md2Block = 16
)

// md2 is the MD2 message digest (RFC 1319); the standard library lacks it.
// Repositories of the time of the specification still hold such digests;
// nothing should rely on it for security.
type md2 struct {
	state    [48]byte // X; its first 16 octets are the digest (RFC 1319, 3.4)
	checksum [md2Block]byte
	block    [md2Block]byte
	n        int // octets waiting in block
}

func newMD2() hash.Hash { return new(md2) }

func (d *md2) Size() int      { return md2Size }
func (d *md2) BlockSize() int { return md2Block }
func (d *md2) Reset()         { *d = md2{} }

func (d *md2) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		n := copy(d.block[d.n:], p)
		p = p[n:]
		if d.n += n; d.n == md2Block {
			d.mix(true)
			d.n = 0
		}
	}
	return written, nil
}

// Sum pads a copy, so the caller can go on writing.
func (d *md2) Sum(b []byte) []byte {
	c := *d
	for i := c.n; i < md2Block; i++ {
		c.block[i] = byte(md2Block - c.n)
	}
	c.mix(true)
	c.block = c.checksum
	c.mix(false)
	return append(b, c.state[:md2Size]...)
}

// mix takes the block into the state, and into the checksum unless the block
// is the checksum itself.
func (d *md2) mix(checksum bool) {
	last := d.checksum[md2Block-1]
	for i, c := range d.block {
		if checksum {
			d.checksum[i] ^= md2Table[c^last]
			last = d.checksum[i]
		}
		d.state[16+i] = c
		d.state[32+i] = c ^ d.state[i]
	}
	var t byte
	for round := range 18 {
		for i := range d.state {
			d.state[i] ^= md2Table[t]
			t = d.state[i]
		}
		t += byte(round)
	}
}

// md2Table is a permutation made from the digits of pi (RFC 1319, appendix A.3).
var md2Table = [256]byte{
	41, 46, 67, 201, 162, 216, 124, 1, 61, 54, 84, 161, 236, 240, 6, 19,
	98, 167, 5, 243, 192, 199, 115, 140, 152, 147, 43, 217, 188, 76, 130, 202,
	30, 155, 87, 60, 253, 212, 224, 22, 103, 66, 111, 24, 138, 23, 229, 18,
	190, 78, 196, 214, 218, 158, 222, 73, 160, 251, 245, 142, 187, 47, 238, 122,
	169, 104, 121, 145, 21, 178, 7, 63, 148, 194, 16, 137, 11, 34, 95, 33,
	128, 127, 93, 154, 90, 144, 50, 39, 53, 62, 204, 231, 191, 247, 151, 3,
	255, 25, 48, 179, 72, 165, 181, 209, 215, 94, 146, 42, 172, 86, 170, 198,
	79, 184, 56, 210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4, 241,
	69, 157, 112, 89, 100, 113, 135, 32, 134, 91, 207, 101, 230, 45, 168, 2,
	27, 96, 37, 173, 174, 176, 185, 246, 28, 70, 97, 105, 52, 64, 126, 15,
	85, 71, 163, 35, 221, 81, 175, 58, 195, 92, 249, 206, 186, 197, 234, 38,
	44, 83, 13, 110, 133, 40, 132, 9, 211, 223, 205, 244, 65, 129, 77, 82,
	106, 220, 55, 200, 108, 193, 171, 250, 36, 225, 123, 8, 12, 189, 177, 74,
	120, 136, 149, 139, 227, 99, 232, 109, 233, 203, 213, 254, 59, 0, 29, 57,
	242, 239, 183, 14, 102, 88, 208, 228, 166, 119, 114, 248, 235, 117, 75, 10,
	49, 68, 80, 180, 143, 237, 31, 26, 219, 153, 141, 51, 159, 17, 131, 20,
}
