package output

import (
	"io"
	"os"
	"strings"
)

// A Sink is where a command writes its result.
type Sink struct {
	Name   string // of a file; "" for standard output
	Stdout *os.File
}

// Text writes text.
func (s *Sink) Text(write func(io.Writer) error) error { return s.write(Screen(s.Stdout), write) }

// Exact writes octets, which are exact on a terminal too.
func (s *Sink) Exact(write func(io.Writer) error) error { return s.write(s.Stdout, write) }

func (s *Sink) write(stdout io.Writer, write func(io.Writer) error) error {
	if s.Name == "" {
		return write(stdout)
	}
	return WriteFile(s.Name, write)
}

// Emit writes a whole text.
func (s *Sink) Emit(text []byte) error {
	return s.Text(func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// Lines writes each word on a line.
func (s *Sink) Lines(words []string) error {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(w + "\n")
	}
	return s.Emit([]byte(b.String()))
}
