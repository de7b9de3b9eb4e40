package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/fault"
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
			return fault.Usagef("%.40q is not default, show or check", word)
		}
		for _, v := range s.strays(os.Environ()) {
			if v.near != "" {
				return fault.Hint(fault.Usagef("the variable %s sets nothing: there is no such setting", v.variable), "did you mean "+v.near+"?")
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
