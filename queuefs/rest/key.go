package rest

import (
	"errors"
	"net/http"

	"cutie/queuefs"
	"cutie/queuefs/rest/field"
)

// replayed says in the answer that nothing was stored, or taken, for the request, and
// returns its status.
func replayed(w http.ResponseWriter, again bool, status int) int {
	if !again {
		return status
	}
	w.Header()[field.Replayed] = []string{"true"}
	return http.StatusOK
}

// keyBusy lets the client of a busy key ask again.
func keyBusy(w http.ResponseWriter, err error) error {
	if errors.Is(err, queuefs.ErrKeyBusy) {
		w.Header()["Retry-After"] = []string{"1"}
	}
	return err
}
