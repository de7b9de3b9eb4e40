package main

import (
	"context"
	"fmt"
	"os"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
)

// unset are options of one call of serve, and no settings of a file: a person decides
// each time.
var unset = []string{"config", "yes", "accept-loss", "takeover", "help", "version"}

// filler gives the options of a call the values of environment and file.
func filler(c *call) *Filler {
	before, own := c.Cmd.Root().Flags(), c.Cmd.Flags()
	return &Filler{Options: own, Not: unset, Getenv: os.Getenv,
		Typed: func(name string) bool { return own.Changed(name) || before.Changed(name) }}
}

// configVerb shows and checks the settings of the daemon.
func configVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config default | show | check",
		Short: "print or check the settings of the daemon",
		Args:  between(1, 1),
		Long: `
default prints a file with every setting, its meaning and its default, each in a
comment: take the signs # away before those to change. It says of each whether a running
daemon takes it by a reload; the others need a restart. show prints the settings in
force with where they are from: an option, the environment, the file, or the default.
check looks for mistakes, in files and addresses too, and starts nothing. It names the
variables CUTIE_… in the environment that set nothing; one much like that of a setting
is a mistake, and the daemon logs it at its start.

The file is in TOML, a line for each option of cutie serve: listen = "127.0.0.1:80".
The environment variable of an option is its name in capitals after CUTIE_, with _ for
-: CUTIE_MAX_CONNS=2000. Lists have commas there. An option of the command line is
taken before the environment, and the environment before the file.`,
		Example: `cutie config default > cutie.toml
cutie config check --config cutie.toml
cutie serve --config cutie.toml`,
	}
	var o serveOptions
	o.bind(cmd.Flags())
	return c.Verb(cmd, optHome, func(context.Context) error {
		f := filler(c)
		switch word := c.Args[0]; word {
		case "default":
			return f.WriteDefault(c.Out.Stdout, live, "Taken by a reload (SIGHUP).")
		case "show", "check":
			if err := f.Fill(o.config); err != nil {
				return err
			}
			if word == "show" {
				return f.Write(c.Out.Stdout)
			}
		default:
			return fault.Usagef("%.40q is not default, show or check", word)
		}
		if err := strays(c, f); err != nil {
			return err
		}
		if _, err := newLog(c.Stderr, o.logLevel, o.logFormat); err != nil {
			return err
		}
		o.Log = zerolog.Nop()
		if err := o.check(); err != nil {
			return err
		}
		defer o.Fetch.Close()
		_, err := fmt.Fprintln(c.Out.Stdout, "ok")
		return err
	})
}

// strays names variables without effect. One much like that of a setting is an error.
func strays(c *call, f *Filler) error {
	var failed error
	for _, s := range f.Strays(os.Environ()) {
		if s.Near == "" {
			c.Warnf("the variable %s sets nothing: there is no such setting", s.Variable)
		} else if failed == nil {
			failed = fault.Hint(fault.Usagef("the variable %s sets nothing: there is no such setting", s.Variable), "did you mean "+s.Near+"?")
		}
	}
	return failed
}
