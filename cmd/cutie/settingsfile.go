package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"cutie/cmd/cutie/fault"
)

// maxFile is the most octets of a file.
const maxFile = 1 << 20

// settings are the values of a file.
type settings struct {
	name   string
	values map[string]any
	lines  map[string]int // of each name, the first is 1
}

// place says where a setting stands, as FILE:LINE.
func (s *settings) place(key string) string {
	if line := s.lines[key]; line > 0 {
		return fmt.Sprintf("%s:%d", s.name, line)
	}
	return s.name
}

// read reads a file.
func read(name string) (settings, error) {
	s := settings{name: name}
	file, err := os.Open(name)
	if err != nil {
		return s, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return s, err
	}
	if len(text) > maxFile {
		return s, fault.Usagef("%s has more than %d octets", name, maxFile)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // of editors on other systems
	err = toml.Unmarshal(text, &s.values)
	var syntax *toml.DecodeError
	if errors.As(err, &syntax) {
		line, column := syntax.Position()
		return s, fault.Usagef("%s:%d:%d: %v", name, line, column, strings.TrimPrefix(syntax.Error(), "toml: "))
	}
	s.lines = lines(text)
	return s, err
}

// lines returns the line of each name in a valid file, for errors to name it.
func lines(text []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		key := p.Expression().Key()
		if !key.Next() {
			continue
		}
		n := key.Node()
		if name := string(n.Data); lines[name] == 0 {
			lines[name] = p.Shape(n.Raw).Start.Line
		}
	}
	return lines
}
