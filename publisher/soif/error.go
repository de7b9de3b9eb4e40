package soif

import (
	"errors"
	"fmt"
	"strings"
)

// ErrTooLarge is within the error for an object larger than its reader allows.
var ErrTooLarge = errors.New("object too large")

// A ParseError describes an error in SOIF, and its place.
type ParseError struct {
	Line      int    // from 1
	Offset    int64  // octets before the place
	Attribute string // with the wrong value, name or size; "" outside of attributes
	Size      int64  // octets of the attribute by its braces; -1 if unknown
	Follows   string // the next octets at the place, some of them
	Err       error
}

func (e *ParseError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "line %d, octet %d: ", e.Line, e.Offset)
	if e.Attribute != "" {
		fmt.Fprintf(&b, "attribute %.60q", e.Attribute)
		if e.Size >= 0 {
			fmt.Fprintf(&b, " of %d octets", e.Size)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Err.Error())
	if e.Follows != "" {
		fmt.Fprintf(&b, ", there is %q", e.Follows)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *ParseError) Unwrap() error { return e.Err }
