package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/fault"
)

// An origin says where the value of a setting is from.
type origin string

// The origins, each before the next.
const (
	fromOption      origin = "option"
	fromEnvironment origin = "environment"
	fromFile        origin = "file"
	fromDefault     origin = "default"
)

// variable returns the environment variable of an option.
func variable(option string) string {
	return "CUTIE_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// fill gives each setting its value: that of the option, for which typed reports whether it
// stands on the command line, else of the environment, else of the file in TOML, else the
// default. An error names the variable or the line.
func (s *settings) fill(typed func(option string) bool, getenv func(string) string) (err error) {
	s.config = cmp.Or(s.config, getenv(variable("config")))
	if s.file, err = readSettings(s.config); err != nil {
		return err
	}
	var names []string
	for _, e := range s.all {
		names = append(names, e.name)
	}
	for _, key := range s.file.names() {
		if slices.Contains(names, key) {
			continue
		}
		hint := "cutie config default lists them"
		if near := fault.Near(key, names); near != "" {
			hint = "did you mean " + near + "? " + hint
		}
		return fault.Hint(fault.Usagef("%s: there is no setting %.40q", s.file.place(key), key), hint)
	}
	for _, e := range s.all {
		value, inFile := s.file.values[e.name]
		e.from = fromDefault
		switch variable := getenv(variable(e.name)); {
		case typed(e.name):
			e.from = fromOption
		case variable != "":
			e.from, err = fromEnvironment, s.options.Set(e.name, variable)
		case inFile:
			e.from, err = fromFile, s.setTOML(e, value)
		}
		if e.text = s.option(e).Value.String(); err != nil {
			return fault.Usagef("%s%s", s.place(e), fault.InOption(err))
		}
	}
	return nil
}

// place names where the value of a setting stands unless it is an option.
func (s *settings) place(e *setting) string {
	switch e.from {
	case fromEnvironment:
		return variable(e.name) + ": "
	case fromFile:
		return s.file.place(e.name) + ": "
	}
	return ""
}

// setTOML gives a setting a value of TOML.
func (s *settings) setTOML(e *setting, value any) error {
	list, isList := s.option(e).Value.(pflag.SliceValue)
	values, many := value.([]any)
	switch {
	case many && !isList:
		return fmt.Errorf("%s takes one value, not a list", e.name)
	case !many:
		values = []any{value}
	}
	texts := make([]string, len(values))
	for i, v := range values {
		switch v.(type) {
		case string, int64, bool:
			texts[i] = fmt.Sprint(v)
		default:
			return fmt.Errorf("%s: %v is neither a string, a whole number, true nor false", e.name, v)
		}
	}
	if !isList {
		return s.options.Set(e.name, texts[0])
	}
	if err := list.Replace(texts); err != nil {
		return fmt.Errorf("--%s: %w", e.name, err)
	}
	return nil
}

// reread reads the settings again: options stay, and file and environment are read as at
// the start. later are the names of settings that have changed and need a restart.
func (s *settings) reread() (now *daemon.Options, later []string, err error) {
	home, fs := *s.home, pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.StringVar(&home, "home", home, "")
	next := newSettings(fs, &home)
	next.config, next.Log = s.config, zerolog.Nop()
	typed := map[string]bool{}
	for _, e := range s.all {
		if e.from == fromOption {
			typed[e.name] = true
			err = errors.Join(err, fs.Set(e.name, e.text))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if err := next.fill(func(option string) bool { return typed[option] }, os.Getenv); err != nil {
		return nil, nil, err
	}
	for i, e := range s.all {
		if e.use&live == 0 && next.all[i].text != e.text {
			later = append(later, e.name)
		}
	}
	if err = next.check(); err == nil {
		next.Source.KeepOctets, err = next.keepSize.on(home)
	}
	return &next.Options, later, err
}

// A stray is a variable with the name of no setting, though it begins like one.
type stray struct {
	variable string
	near     string // the variables that may be meant, joined by "or"; "" without one
}

// elsewhere are variables of other commands, and of commands run by a worker.
var elsewhere = []string{"ATTEMPT", "CONFIG", "FILENAME", "HOME", "JOB", "LEASE", "MEDIA_TYPE", "PAYLOAD", "QUEUE", "RESULTS",
	"SIDECAR", "TOKEN", "UPLOADS", "URL", "USERS"}

// strays returns the strays of an environment, as of [os.Environ].
func (s *settings) strays(environ []string) (strays []stray) {
	prefix, names := variable(""), slices.Clone(elsewhere)
	for _, e := range s.all {
		names = append(names, strings.TrimPrefix(variable(e.name), prefix))
	}
	for _, v := range environ {
		whole, value, _ := strings.Cut(v, "=")
		name, ours := strings.CutPrefix(whole, prefix)
		if !ours || value == "" || slices.Contains(names, name) {
			continue
		}
		near := fault.Near(name, names)
		if near != "" {
			near = prefix + strings.ReplaceAll(near, " or ", " or "+prefix)
		}
		strays = append(strays, stray{whole, near})
	}
	slices.SortFunc(strays, func(a, b stray) int { return strings.Compare(a.variable, b.variable) })
	return strays
}

// maxSettings is the size of the largest file of settings, in bytes.
const maxSettings = 1 << 20

// A tomlFile is what stands in a file of settings. Without a file it is empty.
type tomlFile struct {
	name   string
	values map[string]any
	lines  map[string]int // of each name, the first is 1
}

// readSettings reads a file; name may be "".
func readSettings(name string) (f tomlFile, err error) {
	if name == "" {
		return f, nil
	}
	f.name = name
	file, err := os.Open(name)
	if err != nil {
		return f, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSettings+1))
	if err != nil {
		return f, err
	}
	if len(text) > maxSettings {
		return f, fault.Usagef("%s has more than %d bytes", name, maxSettings)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // of editors on other systems
	err = toml.Unmarshal(text, &f.values)
	var syntax *toml.DecodeError
	if errors.As(err, &syntax) {
		line, column := syntax.Position()
		return f, fault.Usagef("%s:%d:%d: %v", name, line, column, strings.TrimPrefix(syntax.Error(), "toml: "))
	}
	f.lines = map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		key := p.Expression().Key()
		if !key.Next() {
			continue
		}
		n := key.Node()
		if name := string(n.Data); f.lines[name] == 0 {
			f.lines[name] = p.Shape(n.Raw).Start.Line
		}
	}
	return f, err
}

// names are those in the file, in the order of its lines.
func (f *tomlFile) names() (names []string) {
	for name := range f.values {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return f.lines[a] - f.lines[b] })
	return names
}

// place says where a setting stands, as FILE:LINE.
func (f *tomlFile) place(name string) string {
	if line := f.lines[name]; line > 0 {
		return fmt.Sprintf("%s:%d", f.name, line)
	}
	return f.name
}
