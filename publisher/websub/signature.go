package websub

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

// A Method is a way to sign content (8).
type Method string

// The methods that are registered. SHA1 is for subscribers of PubSubHubbub,
// which know no other.
const (
	SHA1   Method = "sha1"
	SHA256 Method = "sha256"
	SHA384 Method = "sha384"
	SHA512 Method = "sha512"
)

var methods = map[Method]func() hash.Hash{SHA1: sha1.New, SHA256: sha256.New, SHA384: sha512.New384, SHA512: sha512.New}

// ErrSignature says that content is not from who shares the secret.
var ErrSignature = errors.New("signature does not match")

const signatureField = "X-Hub-Signature"

// Sign returns the X-Hub-Signature of a body. The method must be registered.
func Sign(m Method, secret string, body []byte) string {
	mac := hmac.New(methods[m], []byte(secret))
	mac.Write(body)
	return string(m) + "=" + hex.EncodeToString(mac.Sum(nil))
}

// Verify compares an X-Hub-Signature of any registered method with a body. If
// it is not right the error is an [ErrSignature].
func Verify(signature, secret string, body []byte) error {
	m, digest, _ := strings.Cut(signature, "=")
	if methods[Method(m)] == nil {
		return fmt.Errorf("%w: it begins with none of sha1=, sha256=, sha384=, sha512=", ErrSignature)
	}
	_, want, _ := strings.Cut(Sign(Method(m), secret, body), "=")
	if !hmac.Equal([]byte(strings.ToLower(digest)), []byte(want)) {
		return ErrSignature
	}
	return nil
}
