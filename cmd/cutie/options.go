package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/fault"
)

// An Option is a set of options shared by verbs (Cutie 0.3, 4). A verb refuses the
// others.
type optionSet uint8

const (
	optHome    optionSet = 1 << iota // --home
	optURL                           // --url
	optForm                          // --response-form
	optOutput                        // --output
	optVerbose                       // --verbose
	optDebug                         // --debug

	optReads // of no option: the verb changes nothing, and opens a home for reading

	optTarget = optHome | optURL | optVerbose | optDebug
)

// defaultHome is the home when nothing names one.
const defaultHome = "cutie_home"

// Bind adds the options in set to cmd. The current values are the defaults.
func (c *call) Bind(cmd *cobra.Command, set optionSet) {
	fs := cmd.Flags()
	fs.SortFlags = false
	if set&optURL != 0 {
		fs.StringVarP(&c.URL, "url", "u", c.URL, "base `URI` of a daemon (environment CUTIE_URL)")
		fs.Lookup("url").DefValue = ""
	}
	if set&optHome != 0 {
		fs.StringVarP(&c.Home, "home", "H", c.Home, "home `directory` (environment CUTIE_HOME)")
		fs.Lookup("home").DefValue = defaultHome
	}
	if set&optForm != 0 {
		fs.StringVarP(&c.Form, "response-form", "t", c.Form, "`form` of the answer, such as anvl or json")
	}
	if set&optOutput != 0 {
		fs.StringVarP(&c.Out.Name, "output", "o", c.Out.Name, "write the result to `file`")
	}
	if set&optVerbose != 0 {
		fs.BoolVarP(&c.Verbose, "verbose", "v", c.Verbose, "say more on standard error")
	}
	if set&optDebug != 0 {
		fs.IntVarP(&c.Debug, "debug", "D", c.Debug, "show requests on standard error; `level` 2 with their headers")
		fs.Lookup("debug").NoOptDefVal = "1"
	}
	fs.BoolVarP(&c.help, "help", "h", c.help, "explain the command")
	fs.BoolVarP(&c.version, "version", "V", c.version, "print the version")
}

// checkOptions refuses foreign options before the verb, and a home beside a URL.
func (c *call) checkOptions(takes optionSet) error {
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
	if takes&optTarget == optTarget && given("home") {
		if given("url") {
			return fault.Usagef("one of --home and --url says where the queue is")
		}
		c.URL = "" // of the environment
	}
	return nil
}

// octets is an option for a number of octets, written with or without one of
// the units K, M, G and T, powers of 1,024.
type octets int64

const octetUnits = "KMGT"

func (o *octets) String() string {
	n, unit := int64(*o), ""
	for i := 0; i < len(octetUnits) && n != 0 && n%1024 == 0; i++ {
		n, unit = n/1024, octetUnits[i:i+1]
	}
	return strconv.FormatInt(n, 10) + unit
}

// Set reads a number with or without a unit.
func (o *octets) Set(text string) error {
	number, shift := text, 0
	if i := strings.IndexAny(text, octetUnits); i >= 0 && i == len(text)-1 {
		number, shift = text[:i], 10*(1+strings.IndexByte(octetUnits, text[i]))
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("%.40q is no number of octets such as 512, 64K or 16G", text)
	}
	*o = octets(n << shift)
	return nil
}

// Type is the name of the type in help.
func (o *octets) Type() string { return "octets" }

// Secret returns an option, or the first line of the file it names: command lines
// can be read by everybody.
func secretOf(option string) (string, error) {
	name, ok := strings.CutPrefix(option, "@")
	if !ok {
		return option, nil
	}
	text, err := os.ReadFile(name)
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line), err
}
