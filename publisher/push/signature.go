package push

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// A Method is a way to sign a body.
type Method string

// The methods of WebSub (8). SHA1 is for receivers of PubSubHubbub, which know
// no other.
const (
	SHA1   Method = "sha1"
	SHA256 Method = "sha256"
	SHA384 Method = "sha384"
	SHA512 Method = "sha512"
)

var methods = map[Method]func() hash.Hash{SHA1: sha1.New, SHA256: sha256.New, SHA384: sha512.New384, SHA512: sha512.New}

// Known reports whether the method is one of the four.
func (m Method) Known() bool { return methods[m] != nil }

// HMAC returns the hexadecimal HMAC of a text that is given in parts. The
// method must be known.
func (m Method) HMAC(secret string, parts ...[]byte) string {
	mac := hmac.New(methods[m], []byte(secret))
	for _, p := range parts {
		mac.Write(p)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// Sign returns the signature of a body: the method, an equals sign, the HMAC.
func (m Method) Sign(secret string, body []byte) string {
	return string(m) + "=" + m.HMAC(secret, body)
}

// ErrSignature says that a body is not from the owner of the secret.
var ErrSignature = errors.New("signature does not match")

// Verify compares a signature by any known method with a body. If it is wrong
// the error is an [ErrSignature].
func Verify(signature, secret string, body []byte) error {
	name, digest, _ := strings.Cut(signature, "=")
	m := Method(name)
	if !m.Known() {
		return fmt.Errorf("%w: it begins with none of sha1=, sha256=, sha384=, sha512=", ErrSignature)
	}
	if !hmac.Equal([]byte(strings.ToLower(digest)), []byte(m.HMAC(secret, body))) {
		return ErrSignature
	}
	return nil
}
