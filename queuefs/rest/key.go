package rest

import (
	"errors"
	"net/http"
	"strings"

	"cutie/queuefs"
)

// Headers of requests that may be sent again (draft-ietf-httpapi-idempotency-key-header).
const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed" // true: the answer is that of an earlier request
)

// headerKey returns the key of a request, or of a part: a string in quotes as the draft has
// it, or bare as most clients send it. It is "" if there is none.
func headerKey(header map[string][]string) (string, error) {
	values := header[keyHeader]
	if len(values) == 0 {
		return "", nil
	}
	s, err := single(header, keyHeader)
	if err != nil {
		return "", err
	}
	key := s
	if text, quoted := strings.CutPrefix(s, `"`); quoted {
		if key, quoted = strings.CutSuffix(text, `"`); !quoted {
			return "", badRequest("header %s: %.40q has no end", keyHeader, s)
		}
		if strings.ContainsAny(strings.NewReplacer(`\\`, "", `\"`, "").Replace(key), `\"`) {
			return "", badRequest("header %s: %.40q is not a string", keyHeader, s)
		}
		key = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(key)
	}
	if err := queuefs.CheckKey(key); err != nil {
		return "", badRequest("header %s: %v", keyHeader, err)
	}
	return key, nil
}

// setKey puts a key into a header, as a string in quotes.
func setKey(header map[string][]string, key string) {
	if key != "" {
		header[keyHeader] = []string{`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`}
	}
}

// replayed says in the answer that nothing was stored, or taken, for the request, and
// returns its status.
func replayed(w http.ResponseWriter, again bool, status int) int {
	if !again {
		return status
	}
	w.Header()[replayedHeader] = []string{"true"}
	return http.StatusOK
}

// keyBusy lets the client of a busy key ask again.
func keyBusy(w http.ResponseWriter, err error) error {
	if errors.Is(err, queuefs.ErrKeyBusy) {
		w.Header()["Retry-After"] = []string{"1"}
	}
	return err
}
