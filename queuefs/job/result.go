package job

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// errorType is the written form of Job.Transient, by the words of UWS.
func errorType(transient bool) string {
	if transient {
		return "transient"
	}
	return "fatal"
}

func parseErrorType(s string) (transient bool, err error) {
	if s != "transient" && s != "fatal" {
		err = fmt.Errorf("%.40q is neither transient nor fatal", s)
	}
	return s == "transient", err
}

// MaxResults is how many results a job may have, and MaxResultName bounds the octets of
// the name of one.
const (
	MaxResults    = 100
	MaxResultName = 64
)

// A Result is a file from the consumer of a job: result/JOB/NAME below the
// directory of the queue.
type Result struct {
	Name      string // 1 to 64 of A-Z a-z 0-9 . _ -, and no dot first
	MediaType string // "" if none was given
	Size      int64  // octets
	SHA256    [32]byte
}

// String returns the result as it stands in a job file: name, octets, SHA-256
// and, unless it has none, the media type.
func (r Result) String() string {
	s := r.Name + " " + strconv.FormatInt(r.Size, 10) + " " + hex.EncodeToString(r.SHA256[:])
	if r.MediaType != "" {
		s += " " + r.MediaType
	}
	return s
}

// CheckResultName refuses malformed names of results, with [ErrBadName].
func CheckResultName(name string) error {
	ok := len(name) >= 1 && len(name) <= MaxResultName && name[0] != '.'
	for i := 0; i < len(name) && ok; i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
	}
	if !ok {
		return fmt.Errorf("%w: result %.80q: 1 to 64 letters, digits and . _ -, and no dot first", ErrBadName, name)
	}
	return nil
}

func parseResult(s string) (r Result, err error) {
	f := strings.SplitN(s, " ", 4)
	if len(f) < 3 {
		return r, fmt.Errorf("%.80q is not name, size and digest of a result", s)
	}
	if len(f) == 4 {
		r.MediaType = f[3]
	}
	r.Name = f[0]
	if err := CheckResultName(r.Name); err != nil {
		return r, err
	}
	if r.Size, err = strconv.ParseInt(f[1], 10, 64); err != nil || r.Size < 0 {
		return r, fmt.Errorf("%.40q is not a size", f[1])
	}
	b, err := hex.DecodeString(f[2])
	if err != nil || len(b) != len(r.SHA256) {
		return r, fmt.Errorf("%.80q is not a SHA-256", f[2])
	}
	copy(r.SHA256[:], b)
	return r, nil
}

// ErrorDetail returns the result in which the consumer of a failed or aborted job
// says more than a message can: the first one named error, or error.vot and the like.
func (j *Job) ErrorDetail() (Result, bool) {
	if j.Outcome == Failed || j.Outcome == Aborted {
		for _, r := range j.Results {
			if IsErrorDetail(r.Name) {
				return r, true
			}
		}
	}
	return Result{}, false
}

// IsErrorDetail reports whether a result of this name is the detail of an error.
func IsErrorDetail(name string) bool { return name == "error" || strings.HasPrefix(name, "error.") }
