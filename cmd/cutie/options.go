package main

import (
	"cmp"
	"os"
	"slices"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/output"
	"cutie/cmd/cutie/target"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// common is a set of options shared by verbs (Cutie 0.3, 4). A verb refuses the
// others.
type common uint8

const (
	atHome   common = 1 << iota // --home
	atURL                       // --url
	withForm                    // --response-form
	toOutput                    // --output
	verbose                     // --verbose
	toDebug                     // --debug

	atTarget = atHome | atURL | verbose | toDebug
)

// defaultHome is the home when nothing names one.
const defaultHome = "cutie_home"

// options are the values of the common options.
type options struct {
	target.Finder
	Out     output.Sink // where the result goes
	form    string      // response form as typed; empty for the verb's default
	verbose bool
	help    bool
	version bool
}

// environment returns the defaults from CUTIE_HOME and CUTIE_URL.
func environment(stdout *os.File) options {
	return options{
		Finder: target.Finder{Home: cmp.Or(os.Getenv("CUTIE_HOME"), defaultHome), URL: os.Getenv("CUTIE_URL")},
		Out:    output.Sink{Stdout: stdout},
	}
}

// bind adds the options in set to cmd. The current values are the defaults.
func (o *options) bind(cmd *cobra.Command, set common) {
	fs := cmd.Flags()
	fs.SortFlags = false
	if set&atURL != 0 {
		fs.StringVarP(&o.URL, "url", "u", o.URL, "base `URI` of a daemon (environment CUTIE_URL)")
		fs.Lookup("url").DefValue = ""
	}
	if set&atHome != 0 {
		fs.StringVarP(&o.Home, "home", "H", o.Home, "home `directory` (environment CUTIE_HOME)")
		fs.Lookup("home").DefValue = defaultHome
	}
	if set&withForm != 0 {
		fs.StringVarP(&o.form, "response-form", "t", o.form, "`form` of the answer, such as anvl or json")
	}
	if set&toOutput != 0 {
		fs.StringVarP(&o.Out.Name, "output", "o", o.Out.Name, "write the result to `file`")
	}
	if set&verbose != 0 {
		fs.BoolVarP(&o.verbose, "verbose", "v", o.verbose, "say more on standard error")
	}
	if set&toDebug != 0 {
		fs.IntVarP(&o.Debug, "debug", "D", o.Debug, "show requests on standard error; `level` 2 with their headers")
		fs.Lookup("debug").NoOptDefVal = "1"
	}
	fs.BoolVarP(&o.help, "help", "h", o.help, "explain the command")
	fs.BoolVarP(&o.version, "version", "V", o.version, "print the version")
}

// checkCommon refuses foreign options before the verb, and a home beside a URL.
func (c *call) checkCommon(takes common) error {
	before, after := c.cmd.Root().Flags(), c.cmd.Flags()
	foreign := ""
	before.Visit(func(f *pflag.Flag) {
		if after.Lookup(f.Name) == nil {
			foreign = f.Name
		}
	})
	if foreign != "" {
		return fault.Usagef("takes no --%s", foreign)
	}
	given := func(name string) bool { return before.Changed(name) || after.Changed(name) }
	if takes&atTarget == atTarget && given("home") {
		if given("url") {
			return fault.Usagef("one of --home and --url says where the queue is")
		}
		c.URL = "" // of the environment
	}
	return nil
}

// beforeVerb puts the arguments before the verb into the words of cobra. There a
// number after -D can only be its level, and -- has no meaning.
func beforeVerb(root *cobra.Command, args []string) []string {
	for i := 0; i+1 < len(args) && find(root, args[i]) == nil; i++ {
		switch before, after := slices.Clone(args[:i]), args[i+1:]; {
		case args[i] == "--":
			return append(before, after...)
		case (args[i] == "-D" || args[i] == "--debug") && slices.Contains([]string{"0", "1", "2"}, after[0]):
			return append(append(before, args[i]+"="+after[0]), after[1:]...)
		}
	}
	return args
}
