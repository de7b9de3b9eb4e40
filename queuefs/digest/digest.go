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
	"fmt"
	"hash"
	"hash/adler32"
	"hash/crc32"
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
