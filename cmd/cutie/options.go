package main

import (
	"os"

	"github.com/spf13/pflag"
)

// common names the options that several verbs share (Cutie 0.3, 4). A verb
// lists those that mean something to it; the others are refused.
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

// defaultHome is where a home is looked for when nothing names one.
const defaultHome = "cutie_home"

// options are the values of the common options.
type options struct {
	home    string // directory; never empty
	url     string // base URI of a daemon; empty for the home
	form    string // response form as typed; empty for the verb's default
	output  string // file for the result; empty for standard output
	verbose bool
	debug   int // 0 to 2
	help    bool
	version bool
}

// environment holds the defaults that CUTIE_HOME and CUTIE_URL set.
func environment() options {
	o := options{home: os.Getenv("CUTIE_HOME"), url: os.Getenv("CUTIE_URL")}
	if o.home == "" {
		o.home = defaultHome
	}
	return o
}

// bind adds the options in set to fs. Values that o holds already, from the
// environment or from before the verb, are the defaults.
func (o *options) bind(fs *pflag.FlagSet, set common) {
	if set&atURL != 0 {
		fs.StringVarP(&o.url, "url", "u", o.url, "base `URI` of a daemon (environment CUTIE_URL)")
	}
	if set&atHome != 0 {
		fs.StringVarP(&o.home, "home", "H", o.home, "home `directory` (environment CUTIE_HOME)")
	}
	if set&withForm != 0 {
		fs.StringVarP(&o.form, "response-form", "t", o.form, "`form` of the answer, such as anvl or json")
	}
	if set&toOutput != 0 {
		fs.StringVarP(&o.output, "output", "o", o.output, "write the result to `file`")
	}
	if set&verbose != 0 {
		fs.BoolVarP(&o.verbose, "verbose", "v", o.verbose, "say more on standard error")
	}
	if set&toDebug != 0 {
		fs.IntVarP(&o.debug, "debug", "D", o.debug, "show requests on standard error; `level` 2 with their headers")
		fs.Lookup("debug").NoOptDefVal = "1"
	}
	fs.BoolVarP(&o.help, "help", "h", o.help, "explain the command")
	fs.BoolVarP(&o.version, "version", "V", o.version, "print the version")
}
