package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/daemon"
)

func configVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config default | show | check",
		Short: "print or check the settings of the daemon",
		Args:  between(1, 1),
		Long: `
Write a file with every setting, what it means, its cost and its default:
    cutie config default >cutie.toml

Each setting is in a comment: take the sign # away before those to change. The file is in
TOML, and has a line for each option of cutie serve: listen = "127.0.0.1:80".

Look for mistakes before a start, in files and addresses too:
    cutie config check --config cutie.toml

It also names the variables CUTIE_… in the environment that set nothing. One much like
that of a setting is a mistake, and the daemon logs it at its start.

See the settings in force, and whether each is from an option, the environment, the file or
the default:
    cutie config show --config cutie.toml

The environment variable of a setting is its name in capitals after CUTIE_, with _ for
-: CUTIE_MAX_CONNS=2000. Lists have commas there. An option of the command line is
taken before the environment, and the environment before the file.`,
		Example: `cutie config default > cutie.toml
cutie config check --config cutie.toml
cutie serve --config cutie.toml`,
	}
	s := newSettings(cmd.Flags(), &c.Home)
	return c.Verb(cmd, optHome, func(context.Context) error {
		word := c.Args[0]
		switch word {
		case "default":
			return s.writeDefault(c.Out.Stdout)
		case "show", "check":
			if err := s.fill(typed(c), os.Getenv); err != nil {
				return err
			}
			if word == "show" {
				return s.write(c.Out.Stdout)
			}
		default:
			return usagef("%.40q is not default, show or check", word)
		}
		for _, v := range s.strays(os.Environ()) {
			if v.near != "" {
				return withHint(usagef("the variable %s sets nothing: there is no such setting", v.variable), "did you mean "+v.near+"?")
			}
			c.Warnf("the variable %s sets nothing: there is no such setting", v.variable)
		}
		s.Log = zerolog.Nop()
		if err := s.check(); err != nil {
			return err
		}
		_, err := fmt.Fprintln(c.Out.Stdout, "ok")
		return err
	})
}

// typed returns whether an option stands on the command line of a call, before the verb or
// after it.
func typed(c *call) func(option string) bool {
	before, own := c.Cmd.Root().Flags(), c.Cmd.Flags()
	return func(name string) bool { return own.Changed(name) || before.Changed(name) }
}

// writeDefault writes a file with all settings, each in a comment with its default.
func (s *settings) writeDefault(w io.Writer) error {
	var b strings.Builder
	for _, e := range s.all {
		o := s.option(e)
		_, usage := pflag.UnquoteUsage(o)
		why := e.why
		if e.use&live != 0 {
			why += " A reload (SIGHUP) takes it."
		}
		lines := slices.Concat(fold(usage, 76), fold(why, 76))
		fmt.Fprintf(&b, "# %s\n#%s\n\n", strings.Join(lines, "\n# "), e.toml(o, o.DefValue))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write writes all settings with their values, and where they are from.
func (s *settings) write(w io.Writer) error {
	var b strings.Builder
	for _, e := range s.all {
		fmt.Fprintf(&b, "%s # %s\n", e.toml(s.option(e), e.text), e.from)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// toml is a line of the file with a value of the setting, whose option is o.
func (e *setting) toml(o *pflag.Flag, value string) string {
	if many, ok := o.Value.(pflag.SliceValue); ok {
		var texts []string
		for _, text := range many.GetSlice() {
			texts = append(texts, quoteTOML(text))
		}
		value = "[" + strings.Join(texts, ", ") + "]"
	} else if kind := o.Value.Type(); kind != "bool" && kind != "int" {
		value = quoteTOML(value)
	}
	return e.name + " = " + value
}

// quoteTOML returns a basic string of TOML, whose escapes are those of JSON.
func quoteTOML(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // it cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// fold divides a text into lines of up to n bytes where words end.
func fold(text string, n int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > n {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// liveNames lists the settings that a running daemon takes, in lines of help.
func (s *settings) liveNames() string {
	var names []string
	for _, e := range s.all {
		if e.use&live != 0 {
			names = append(names, e.name)
		}
	}
	return strings.Join(fold("These take effect at once: "+strings.Join(names, ", ")+".", 88), "\n")
}

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
		if near := near(key, names); near != "" {
			hint = "did you mean " + near + "? " + hint
		}
		return withHint(usagef("%s: there is no setting %.40q", s.file.place(key), key), hint)
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
			return usagef("%s%s", s.place(e), inOption(err))
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
		near := near(name, names)
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
		return f, usagef("%s has more than %d bytes", name, maxSettings)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // of editors on other systems
	err = toml.Unmarshal(text, &f.values)
	var syntax *toml.DecodeError
	if errors.As(err, &syntax) {
		line, column := syntax.Position()
		return f, usagef("%s:%d:%d: %v", name, line, column, strings.TrimPrefix(syntax.Error(), "toml: "))
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
