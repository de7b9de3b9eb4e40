package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"cutie/queuefs/state"
)

var helpVerb = verb{
	name:  "help",
	args:  "[COMMAND]",
	max:   1,
	about: "explain a command, or list them all",
	manual: `
Prints text; with -t a help document (Cutie 0.3, 5.1), and with --man the manual
page, which "man -l -" shows. With -q only the names of the commands are listed.`,
	examples: `cutie help getNextJob
cutie help -t json put
cutie help --man submitJob -o submitJob.1`,
	takes: withForm | toOutput,
	setup: func(fs *pflag.FlagSet) action {
		var o helpOptions
		fs.BoolVar(&o.man, "man", false, "print the manual page (roff)")
		fs.BoolVarP(&o.quiet, "quiet", "q", false, "list the names of the commands only")
		return func(_ context.Context, c *call) error { return c.explain(o) }
	},
}

type helpOptions struct{ man, quiet bool }

var versionVerb = verb{
	name:  "version",
	about: "print the version",
	setup: func(*pflag.FlagSet) action { return printVersion },
}

const (
	summary = "cutie keeps durable queues in a directory, serves them and publishes them."
	where   = `Where the queue is: --url names a daemon, --home a directory. With neither it is
CUTIE_URL, or else CUTIE_HOME, or ./cutie_home. A daemon that runs on a directory
is asked through its socket, and without one the directory is opened itself. The
answers are the same. CUTIE_TOKEN holds the token for a daemon that wants one.`
)

// printHelp is what --help asks for.
func printHelp(_ context.Context, c *call) error { return c.explain(helpOptions{}) }

func (c *call) explain(o helpOptions) error {
	var v *verb
	if len(c.args) > 0 {
		var err error
		if v, err = find(c.verbs, c.args[0]); err != nil {
			return err
		}
	}
	switch {
	case o.quiet && (v != nil || o.man || c.form != ""), o.man && c.form != "":
		return usagef("--quiet, --man and --response-form exclude each other, and --quiet lists all commands")
	case o.quiet:
		var names []string
		for i := range c.verbs {
			names = append(names, c.verbs[i].name)
		}
		return c.emit(lines(names))
	case o.man && v != nil:
		return c.emit(v.page())
	case o.man:
		return c.emit(overviewPage(c.verbs))
	case c.form != "":
		form, err := c.responseForm()
		if err != nil {
			return err
		}
		d := state.OfHelp(document(c.verbs, v))
		return c.emit(form.Append(nil, &d))
	case v != nil:
		return c.emit([]byte(v.text()))
	}
	return c.emit([]byte(overview(c.verbs)))
}

// document is help as a state (Cutie 0.3, 5.1).
func document(table []verb, v *verb) state.Help {
	if v != nil {
		return state.Help{Method: v.name, Summary: v.about, Request: v.usage(), Text: v.text()}
	}
	h := state.Help{Summary: summary, Request: "cutie [OPTION…] COMMAND [ARGUMENT…]", Text: overview(table)}
	for i := range table {
		h.Methods = append(h.Methods, table[i].name)
	}
	return h
}

func overview(table []verb) string {
	var b strings.Builder
	b.WriteString(summary + "\n\nusage: cutie [OPTION…] COMMAND [ARGUMENT…]\n\ncommands:\n")
	for i := range table {
		v := &table[i]
		about := v.about
		if len(v.aliases) > 0 {
			about += " (" + strings.Join(v.aliases, ", ") + ")"
		}
		fmt.Fprintf(&b, "  %-16s %s\n", v.name, about)
	}
	b.WriteString("\n" + where + "\n\nexit codes:\n")
	for code, text := range exitTexts {
		fmt.Fprintf(&b, "  %d  %s\n", code, text)
	}
	b.WriteString("\ncutie help COMMAND explains a command and its options.\n")
	return b.String()
}

func (v *verb) usage() string { return "cutie " + strings.TrimSpace(v.name+" [OPTION…] "+v.args) }

// text is the manual of one verb.
func (v *verb) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cutie %s: %s\n\nusage: %s\n", v.name, v.about, v.usage())
	if len(v.aliases) > 0 {
		fmt.Fprintf(&b, "also:  %s\n", strings.Join(v.aliases, ", "))
	}
	if v.manual != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(v.manual))
	}
	o := environment()
	fs, _ := v.flags(&o)
	fmt.Fprintf(&b, "\noptions:\n%s", fs.FlagUsagesWrapped(80))
	if v.examples != "" {
		b.WriteString("\nexamples:\n")
		for line := range strings.SplitSeq(v.examples, "\n") {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}
