package job

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// MaxKey is the most characters of a key.
const MaxKey = 255

// CheckKey refuses a key with characters other than visible ASCII, and one without or
// with more than MaxKey of them. The error is [ErrBadName].
func CheckKey(key string) error {
	bad := key == "" || len(key) > MaxKey
	for i := 0; i < len(key) && !bad; i++ {
		bad = key[i] <= ' ' || key[i] >= 0x7f
	}
	if bad {
		return fmt.Errorf("%w: key %.40q is not 1 to %d visible ASCII characters", ErrBadName, key, MaxKey)
	}
	return nil
}

// PartKey returns the key of job n, from 1 on, of a submission of several jobs with one
// key.
func PartKey(key string, n int) string { return key + "#" + strconv.Itoa(n) }

// A KeySum stands for the key of a submission and its user in the index: the first octets of
// their SHA-256. 0 is no key. Two keys may have one sum; the job file has user and key.
type KeySum uint64

// SumOfKey returns the sum of a key, 0 for "". Each user has keys of his own; those without a
// name, "", have them in common.
func SumOfKey(user, key string) KeySum {
	if key == "" {
		return 0
	}
	if user != "" {
		key = user + "\x00" + key
	}
	sum := sha256.Sum256([]byte(key))
	return KeySum(max(binary.LittleEndian.Uint64(sum[:]), 1))
}

// ConsumerKey returns the part of a consumer's key kept in the job file: the SHA-256 of
// user and key, in hexadecimal.
func ConsumerKey(user, key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(user + "\x00" + key))
	return hex.EncodeToString(sum[:])
}

// TokenFor returns the proof of the lease of a job taken with a key, in its present
// attempt: between two attempts a job is requeued. It is the same each
// time, so that no file has to keep it, and as hard to guess as the key.
func TokenFor(user, key, queue string, id ID, requeues int) string {
	mac := hmac.New(sha256.New, []byte(user+"\x00"+key))
	fmt.Fprintf(mac, "lease %s %v %d", queue, id, requeues)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
