package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"cutie/cmd/cutie/fault"
)

// A sink is where a command writes its result: a file, which appears whole or not at all,
// or standard output. Text from outside may hold control characters, or may reverse text
// on a screen. A terminal gets these characters escaped; files and pipes get exact text.
// Payloads and results of jobs are exact everywhere.
type sink struct {
	Name   string // of a file; "" for standard output
	Stdout *os.File
}

// Text writes text.
func (s *sink) Text(write func(io.Writer) error) error { return s.write(onScreen(s.Stdout), write) }

// Exact writes octets, which are exact on a terminal too.
func (s *sink) Exact(write func(io.Writer) error) error { return s.write(s.Stdout, write) }

func (s *sink) write(stdout io.Writer, write func(io.Writer) error) error {
	if s.Name == "" {
		return write(stdout)
	}
	return writeFile(s.Name, write)
}

// Emit writes a whole text.
func (s *sink) Emit(text []byte) error {
	return s.Text(func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// Lines writes each word on a line.
func (s *sink) Lines(words []string) error {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(w + "\n")
	}
	return s.Emit([]byte(b.String()))
}

// Terminal reports whether f is one.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Screen returns a writer of text to f. On a terminal an incomplete character at the
// end waits for the rest.
func onScreen(f *os.File) io.Writer {
	if isTerminal(f) {
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

// A File is an output file being written. It appears whole at Commit, or not at all. An
// existing device, pipe or symbolic link is written to instead.
type outFile struct {
	*os.File
	name string
	temp string // "" when written in place
}

// Create begins a file. It fails now, and not at Commit, if the directory cannot be
// written to.
func createFile(name string) (*outFile, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fault.Usagef("%s is a directory, an output file is wanted", name)
	}
	switch info, err := os.Lstat(name); {
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return nil, err
		}
		return &outFile{f, name, ""}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	dir := filepath.Dir(name)
	temp := filepath.Join(dir, ".cutie-"+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		var why *fs.PathError // with the temporary name
		if errors.As(err, &why) {
			err = fmt.Errorf("%s: directory %s: %w", name, dir, why.Err)
		}
		return nil, err
	}
	return &outFile{f, name, temp}, nil
}

// Commit gives the file its name. It is on stable storage then.
func (r *outFile) Commit() error {
	if r.temp == "" {
		return r.Close()
	}
	err := errors.Join(r.Sync(), r.Close())
	if err == nil {
		err = os.Rename(r.temp, r.name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(r.temp))
	}
	return nil
}

// Discard removes a file before Commit, and does nothing after it.
func (r *outFile) Discard() {
	r.Close()
	if r.temp != "" {
		os.Remove(r.temp)
	}
}

// writeFile writes a file as a whole.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := createFile(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Discard()
		return err
	}
	return f.Commit()
}
