package sitemap

import "fmt"

// A ParseError says what is wrong with a document, and where.
type ParseError struct {
	Line int // from 1; where the offending element or text ends
	Err  error
}

func (e *ParseError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns Err.
func (e *ParseError) Unwrap() error { return e.Err }
