package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

var helpVerb = verb{
	name:  "help",
	args:  "[COMMAND]",
	max:   1,
	about: "explain a command, or list them all",
	setup: func(*pflag.FlagSet) action { return printHelp },
}

var versionVerb = verb{
	name:  "version",
	about: "print the version",
	setup: func(*pflag.FlagSet) action { return printVersion },
}

const helpTail = `
Where the queue is: --url (or CUTIE_URL) names a daemon. Otherwise --home (or
CUTIE_HOME, or ./cutie_home) names a directory; a daemon that runs on it is
asked through its socket, and without one the directory is opened itself.

Exit codes: 0 done, 1 error, 2 usage, 3 queue or job not found, 4 queue empty,
5 conflict, 6 refused, 7 digest verification failed.

cutie help COMMAND explains a command and its options.
`

func printHelp(_ context.Context, c *call) error {
	if len(c.args) == 0 {
		return listVerbs(c.stdout, c.verbs)
	}
	v, err := find(c.verbs, c.args[0])
	if err != nil {
		return err
	}
	return v.explain(c.stdout)
}

func listVerbs(w io.Writer, table []verb) error {
	var b strings.Builder
	b.WriteString("cutie keeps durable queues in a directory, serves them and publishes them.\n\n")
	b.WriteString("usage: cutie [OPTION…] COMMAND [ARGUMENT…]\n\ncommands:\n")
	for i := range table {
		v := &table[i]
		about := v.about
		if len(v.aliases) > 0 {
			about += " (" + strings.Join(v.aliases, ", ") + ")"
		}
		fmt.Fprintf(&b, "  %-16s %s\n", v.name, about)
	}
	b.WriteString(helpTail)
	_, err := io.WriteString(w, b.String())
	return err
}

// explain prints the manual of one verb.
func (v *verb) explain(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "cutie %s: %s\n\nusage: cutie %s\n", v.name, v.about, strings.TrimSpace(v.name+" [OPTION…] "+v.args))
	if len(v.aliases) > 0 {
		fmt.Fprintf(&b, "also:  %s\n", strings.Join(v.aliases, ", "))
	}
	if v.manual != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(v.manual))
	}
	o := environment()
	fs, _ := v.flags(&o)
	fmt.Fprintf(&b, "\noptions:\n%s", fs.FlagUsagesWrapped(80))
	_, err := io.WriteString(w, b.String())
	return err
}
