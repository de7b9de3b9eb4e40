package job

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"time"
)

// A Lease is the time of a consumer for a job.
type Lease struct {
	Ends time.Time // zero: there is no lease; a key alone is of one that was aborted
	Key  string    // SHA-256, in hexadecimal, of the token of the consumer
}

// NewToken returns the proof of a lease for its consumer: 128 random bits. The job
// file, which is public, has only its digest.
func NewToken() string {
	var b [16]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// LeaseKey returns the part of a token kept in the job file.
func LeaseKey(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Opens reports whether the token is the one of the lease, and the lease not over.
func (l Lease) Opens(token string, now time.Time) bool {
	return l.isKeyOf(token) && now.Before(l.Ends)
}

func (l Lease) isKeyOf(token string) bool {
	return subtle.ConstantTimeCompare([]byte(LeaseKey(token)), []byte(l.Key)) == 1
}
