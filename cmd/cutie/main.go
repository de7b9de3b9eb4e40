// Command cutie is a durable queue in a directory, and the daemon that serves
// and publishes it (Cutie 0.3, 4 and 5).
//
// The same words work against a daemon by its URL, against a daemon that runs
// on the home, through its socket, and on the home itself when no daemon does.
// Every verb is one file; the table of them is in verb.go.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run does what the arguments ask and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr *os.File) int {
	c := &call{options: environment(), verbs: verbs, stdin: stdin, stdout: stdout, stderr: stderr}
	act, err := c.parse(args)
	if err == nil {
		err = act(ctx, c)
	}
	// Finding nothing is an answer; the exit code says it, and -v in words.
	if code := exitCode(err); err == nil || code == exitEmpty && !c.verbose {
		return code
	}
	name := ""
	if c.verb != nil {
		name = c.verb.name
	}
	report(screenOf(stderr), name, err)
	return exitCode(err)
}

// parse reads the command line into c and returns what is to be done. Common
// options may stand before the verb or after it.
func (c *call) parse(args []string) (action, error) {
	before := pflag.NewFlagSet("cutie", pflag.ContinueOnError)
	before.SetInterspersed(false)
	c.bind(before, ^common(0))
	rest, err := parseBefore(before, args)
	if err != nil {
		return nil, withHint(err, "cutie help lists commands and options")
	}
	switch {
	case c.version:
		return printVersion, nil
	case c.help:
		c.args = rest[:min(len(rest), 1)]
		return printHelp, nil
	case len(rest) == 0:
		return nil, withHint(usagef("no command given"), "cutie help lists the commands")
	}

	v, err := find(c.verbs, rest[0])
	if err != nil {
		return nil, err
	}
	c.verb, c.word = v, strings.ToLower(rest[0])
	hint := "cutie help " + v.name
	if unknown := foreign(before, v.takes); unknown != "" {
		return nil, withHint(usagef("takes no --%s", unknown), hint)
	}
	fs, act := v.flags(&c.options)
	if err := parseFlags(fs, rest[1:]); err != nil {
		return nil, withHint(err, hint)
	}
	c.args = fs.Args()
	given := func(name string) bool { return before.Changed(name) || fs.Changed(name) }
	if v.takes&atTarget == atTarget && given("home") {
		if given("url") {
			return nil, withHint(usagef("one of --home and --url says where the queue is"), hint)
		}
		c.url = "" // that of the environment
	}
	switch n := len(c.args); {
	case c.version:
		return printVersion, nil
	case c.help:
		c.args = []string{v.name}
		return printHelp, nil
	case n < v.min:
		return nil, withHint(usagef("too few arguments, usage: cutie %s %s", v.name, v.args), hint)
	case v.max >= 0 && n > v.max:
		return nil, withHint(usagef("too many arguments: %.60q", c.args[v.max]), hint)
	}
	return act, nil
}

// parseBefore reads the options before the verb and returns what follows them.
// A number there behind --debug can be nothing but its level, where behind the
// verb it may be a queue.
func parseBefore(fs *pflag.FlagSet, args []string) (rest []string, err error) {
	for len(args) > 0 {
		if err := parseFlags(fs, args); err != nil {
			return nil, err
		}
		rest = fs.Args()
		last := args[max(0, len(args)-len(rest)-1)]
		if len(rest) == 0 || last != "-D" && last != "--debug" || !slices.Contains([]string{"0", "1", "2"}, rest[0]) {
			return rest, nil
		}
		if err := fs.Set("debug", rest[0]); err != nil {
			return nil, err
		}
		args = rest[1:]
	}
	return nil, nil
}

// flags returns the options of v, bound to o and to the action.
func (v *verb) flags(o *options) (*pflag.FlagSet, action) {
	fs := pflag.NewFlagSet(v.name, pflag.ContinueOnError)
	fs.SortFlags = false
	act := v.setup(fs)
	o.bind(fs, v.takes)
	return fs, act
}

// parseFlags makes usage errors of what pflag finds and keeps it from
// printing.
func parseFlags(fs *pflag.FlagSet, args []string) error {
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	err := fs.Parse(args)
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	return usageError{err.Error()}
}

// foreign names an option that was given before a verb that does not take it.
func foreign(before *pflag.FlagSet, takes common) (name string) {
	after := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(options).bind(after, takes)
	before.Visit(func(f *pflag.Flag) {
		if after.Lookup(f.Name) == nil {
			name = f.Name
		}
	})
	return name
}
