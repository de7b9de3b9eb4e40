package call

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/fault"
)

// An Option is a set of options shared by verbs (Cutie 0.3, 4). A verb refuses the
// others.
type Option uint8

const (
	Home    Option = 1 << iota // --home
	URL                        // --url
	Form                       // --response-form
	Output                     // --output
	Verbose                    // --verbose
	Debug                      // --debug

	Reads // of no option: the verb changes nothing, and opens a home for reading

	Target = Home | URL | Verbose | Debug
)

// defaultHome is the home when nothing names one.
const defaultHome = "cutie_home"

// Bind adds the options in set to cmd. The current values are the defaults.
func (c *Call) Bind(cmd *cobra.Command, set Option) {
	fs := cmd.Flags()
	fs.SortFlags = false
	if set&URL != 0 {
		fs.StringVarP(&c.URL, "url", "u", c.URL, "base `URI` of a daemon (environment CUTIE_URL)")
		fs.Lookup("url").DefValue = ""
	}
	if set&Home != 0 {
		fs.StringVarP(&c.Home, "home", "H", c.Home, "home `directory` (environment CUTIE_HOME)")
		fs.Lookup("home").DefValue = defaultHome
	}
	if set&Form != 0 {
		fs.StringVarP(&c.Form, "response-form", "t", c.Form, "`form` of the answer, such as anvl or json")
	}
	if set&Output != 0 {
		fs.StringVarP(&c.Out.Name, "output", "o", c.Out.Name, "write the result to `file`")
	}
	if set&Verbose != 0 {
		fs.BoolVarP(&c.Verbose, "verbose", "v", c.Verbose, "say more on standard error")
	}
	if set&Debug != 0 {
		fs.IntVarP(&c.Debug, "debug", "D", c.Debug, "show requests on standard error; `level` 2 with their headers")
		fs.Lookup("debug").NoOptDefVal = "1"
	}
	fs.BoolVarP(&c.help, "help", "h", c.help, "explain the command")
	fs.BoolVarP(&c.version, "version", "V", c.version, "print the version")
}

// checkOptions refuses foreign options before the verb, and a home beside a URL.
func (c *Call) checkOptions(takes Option) error {
	before, after := c.Cmd.Root().Flags(), c.Cmd.Flags()
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
	if takes&Target == Target && given("home") {
		if given("url") {
			return fault.Usagef("one of --home and --url says where the queue is")
		}
		c.URL = "" // of the environment
	}
	return nil
}
