package uws

import (
	"errors"
	"fmt"
	"strconv"

	"cutie/queuefs"
)

// Check returns why the elements of UWS in a job file make no sense, nil if they
// do. The phase of a job with a damaged or lost job file is UNKNOWN: its
// elements cannot be believed, and clients ask again until an operator has
// mended it. Nobody gets its parameters and results here meanwhile, since its
// owner is not known for sure.
func Check(cut *queuefs.Job) error {
	if cut.Lost() {
		return errors.New("the job file is lost, and the elements of UWS with it")
	}
	for _, e := range cut.Extra {
		var err error
		switch e.Name {
		case elemID:
			if nameless(cut) {
				err = errors.New("no identifier of a job")
			}
		case elemCreated, elemDestroyed, elemArchived:
			_, err = parseTime(e.Value)
		case elemDuration:
			if n, e := strconv.ParseInt(e.Value, 10, 32); e != nil || n < 0 {
				err = errors.New("no number of seconds")
			}
		case elemPart:
			if p, ok := parsePart(e.Value); !ok || p.at+p.head+p.size > cut.Size {
				err = errors.New("no part of the payload")
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %.60q: %w", e.Name, e.Value, err)
		}
	}
	return nil
}

// nameless reports whether a damaged job file has lost the identifier of a job.
func nameless(cut *queuefs.Job) bool {
	id := cut.Extra.Value(elemID)
	_, err := queuefs.ParseJobID(id)
	return cut.Lost() || id != "" && err != nil && !isMade(id)
}
