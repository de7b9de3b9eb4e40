package soif

import (
	"errors"
	"fmt"
	"strings"
)

// ErrTooLarge is within the error for an object larger than its reader allows.
var ErrTooLarge = errors.New("object too large")

// A ParseError says what is wrong with SOIF, and where.
type ParseError struct {
	Line      int    // from 1
	Offset    int64  // octets before the place
	Attribute string // whose value, name or size it is; "" outside of attributes
	Size      int64  // octets that the attribute is said to have; -1 if that is not known
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
