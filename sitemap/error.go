package sitemap

import "fmt"

// A ParseError describes an error in a document, and its place.
type ParseError struct {
	Line int // from 1; where the offending element or text ends
	Err  error
}

func (e *ParseError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns Err.
func (e *ParseError) Unwrap() error { return e.Err }
