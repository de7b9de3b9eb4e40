package field

import (
	"strings"

	"cutie/queuefs"
)

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
			return "", bad("header %s: %.40q has no end", KeyName, s)
		}
		if strings.ContainsAny(strings.NewReplacer(`\\`, "", `\"`, "").Replace(key), `\"`) {
			return "", bad("header %s: %.40q is not a string", KeyName, s)
		}
		key = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(key)
	}
	if err := queuefs.CheckKey(key); err != nil {
		return "", bad("header %s: %v", KeyName, err)
	}
	return key, nil
}

// SetKey puts a key into a header, as a string in quotes.
func SetKey(header map[string][]string, key string) {
	if key != "" {
		header[KeyName] = []string{`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`}
	}
}
