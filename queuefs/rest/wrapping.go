package rest

import (
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// A wrapping is how a job is handed out.
type wrapping uint8

const (
	formData wrapping = iota // as Cutie 5.6 shows it
	mixed
	bare
)

// wrapped returns the wrapping in the parameter t, and whether there is one. t
// may also name a form of state, for errors.
func (r *request) wrapped() (kind wrapping, ok bool, err error) {
	t, _, err := r.param("t")
	switch {
	case err != nil || t == "":
		return 0, false, err
	case strings.EqualFold(t, "multipart") || strings.EqualFold(t, "multipart/form-data"):
		return formData, true, nil
	case strings.EqualFold(t, "multipart/mixed"):
		return mixed, true, nil
	case strings.EqualFold(t, queuefs.DefaultMediaType):
		return bare, true, nil
	}
	_, err = state.ParseForm(t)
	return 0, false, err
}

// wrap returns the wrapping that Accept prefers for a payload of the given
// type. Without any of ours the payload is sent bare: there is no status for
// this case, and the job may be consumed already.
func wrap(accept, mediaType string) wrapping {
	switch accept {
	case "", "*/*":
		return formData
	case queuefs.DefaultMediaType:
		return bare
	}
	a := state.ParseAccept(accept)
	own, _, _ := strings.Cut(mediaType, ";")
	best, most := bare, 0.0
	for i, q := range [...]float64{
		formData: a.Quality("multipart/form-data"),
		mixed:    a.Quality("multipart/mixed"),
		bare:     max(a.Quality(queuefs.DefaultMediaType), a.Quality(own)),
	} {
		if q > most {
			best, most = wrapping(i), q
		}
	}
	return best
}
