package output

import (
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Terminal reports whether f is one.
func Terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Screen returns a writer of text to f. On a terminal an incomplete character at the
// end waits for the rest.
func Screen(f *os.File) io.Writer {
	if Terminal(f) {
		return &screen{w: f}
	}
	return f
}

// A screen escapes text.
type screen struct {
	w   io.Writer
	buf []byte // beginning of a character
}

func (s *screen) Write(p []byte) (int, error) {
	var out []byte
	text := append(s.buf, p...)
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case r != '\n' && r != '\t':
			out = appendPrintable(out, r)
		default:
			out = append(out, text[0])
		}
		text = text[size:]
	}
	s.buf = text
	if _, err := s.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// printable escapes s for one line of a terminal.
func printable(s string) string {
	var out []byte
	for _, r := range s {
		out = appendPrintable(out, r)
	}
	return string(out)
}

// appendPrintable appends r, or its escape in JSON.
func appendPrintable(dst []byte, r rune) []byte {
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
		return fmt.Appendf(dst, `\u%04x`, r)
	}
	return utf8.AppendRune(dst, r)
}
