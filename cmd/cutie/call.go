package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
)

// A call is one call of the program, with all that a verb stands on: its command, the
// options that verbs share (Cutie 0.3, 4), its target, and ways to answer.
//
// A verb is a function from a call to a command. It adds options of its own and gets the
// rest by [call.Verb]:
//
//	func versionVerb(c *call) *cobra.Command {
//		cmd := &cobra.Command{Use: "version", Short: "print the version"}
//		return c.Verb(cmd, optForm, func(ctx context.Context) error { … })
//	}
type call struct {
	finder
	Out     sink   // where the result goes
	Form    string // response form as typed; "" for the default of the verb
	Verbose bool
	Cmd     *cobra.Command // the verb
	Args    []string       // as many as its usage line says
	Stdin   io.Reader
	Stderr  *os.File

	help, version bool // are flags; cobra acts on them
}

// newCall returns a call with the defaults of the environment: CUTIE_HOME and CUTIE_URL.
func newCall(stdin io.Reader, stdout, stderr *os.File) *call {
	c := &call{Out: sink{Stdout: stdout}, Stdin: stdin, Stderr: stderr}
	c.finder = finder{Home: cmp.Or(os.Getenv("CUTIE_HOME"), defaultHome), URL: os.Getenv("CUTIE_URL"),
		Warn: c.Warnf, Say: c.Sayf, Trace: onScreen(stderr)}
	return c
}

// At finds the target, calls do with it, and closes it.
func (c *call) At(ctx context.Context, do func(t *target) error) (err error) {
	t, err := c.Find(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return do(t)
}

// AtQueue is [call.At] for the queue of the first argument. Its errors name the queue.
func (c *call) AtQueue(ctx context.Context, do func(t *target, queue string) error) error {
	queue, err := c.QueueArg()
	if err != nil {
		return err
	}
	return c.At(ctx, func(t *target) error { return nameError(queue, do(t, queue)) })
}

// QueueArg is the queue of the first argument. Names impossible in a URL are not
// found.
func (c *call) QueueArg() (string, error) {
	switch q := c.Args[0]; q {
	case "", ".", "..":
		return q, nameError(q, ledger.ErrNoQueue)
	default:
		return q, nil
	}
}

// Word is the name or alias of this call of the verb, in lower case.
func (c *call) Word() string { return strings.ToLower(c.Cmd.CalledAs()) }

// calledAs is the name or alias as it was typed, for people who read an error.
func calledAs(cmd *cobra.Command) string {
	name := cmp.Or(cmd.CalledAs(), cmd.Name())
	if cmd.HasParent() && cmd.Parent().HasParent() {
		return pathOf(cmd.Parent()) + " " + name
	}
	return name
}

// Warnf prints a line on standard error and goes on.
func (c *call) Warnf(format string, a ...any) {
	fmt.Fprintf(onScreen(c.Stderr), "cutie: %s: %s\n", calledAs(c.Cmd), fmt.Sprintf(format, a...))
}

// Sayf is Warnf with -v only.
func (c *call) Sayf(format string, a ...any) {
	if c.Verbose {
		c.Warnf(format, a...)
	}
}

// Facts prints what a command has found, in the form of -t: JSON or ANVL. A list is an
// array, or records separated by empty lines.
func (c *call) Facts(list bool, facts ...state.Document) error {
	form, err := c.factsForm()
	if err != nil {
		return err
	}
	var texts []string
	for i := range facts {
		texts = append(texts, string(form.Append(nil, &facts[i])))
	}
	if !list || form != state.JSON {
		return c.Out.Emit([]byte(strings.Join(texts, "\n")))
	}
	b := []byte("[")
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, "\n"+strings.TrimSuffix(text, "\n")...)
	}
	return c.Out.Emit(append(b, "\n]\n"...))
}

// noLines keeps a finding on its line, whatever the names of files are.
var noLines = strings.NewReplacer("\n", `\n`, "\r", `\r`)

// Findings prints the findings of a verb and a sum, each on a line, with the cure below. In
// the form of -t they are a list, and sum is its last element, as facts.
func (c *call) Findings(all []durable.Finding, sum string, facts *state.Document) error {
	if c.Form != "" {
		var list []state.Document
		for _, f := range all {
			list = append(list, state.OfFacts(state.FindingClass, f.Level.String(), f.Path, f.Text, f.Cure))
		}
		if facts != nil {
			list = append(list, *facts)
		}
		return c.Facts(true, list...)
	}
	var b strings.Builder
	writeFindings(&b, all)
	if sum != "" {
		b.WriteString(sum + "\n")
	}
	_, err := io.WriteString(onScreen(c.Out.Stdout), b.String())
	return err
}

// writeFindings writes findings, each on a line, with the cure below.
func writeFindings(w io.Writer, all []durable.Finding) {
	for _, f := range all {
		fmt.Fprintf(w, "%s: %s\n", f.Level, noLines.Replace(f.String()))
		if f.Cure != "" {
			fmt.Fprintf(w, "    cure: %s\n", noLines.Replace(f.Cure))
		}
	}
}

func (c *call) factsForm() (state.Form, error) {
	form, err := c.ResponseForm()
	if err == nil && form != state.JSON && form != state.ANVL {
		err = withHint(usagef("this has no response form %.40q", c.Form), "-t json or anvl")
	}
	return form, err
}

// ResponseForm is the form of -t (Cutie 0.3, 4), ANVL without -t.
func (c *call) ResponseForm() (state.Form, error) {
	if c.Form == "" {
		return state.ANVL, nil
	}
	f, err := state.ParseForm(c.Form)
	if err != nil {
		return 0, withHint(usagef("response form %.40q is not known", c.Form), "-t anvl, json, turtle, xhtml, xml or soif")
	}
	return f, nil
}

// Verb completes a command with the common options in takes, its checks, its
// completions and its action. The usage line checks its arguments, unless the
// command has another check.
func (c *call) Verb(cmd *cobra.Command, takes optionSet, do func(context.Context) error) *cobra.Command {
	c.Bind(cmd, takes)
	cmd.DisableFlagsInUseLine, cmd.DisableAutoGenTag, cmd.Version = true, true, home.Version
	cmd.Long = strings.TrimSpace(cmd.Long)
	if len(cmd.Aliases) > 0 {
		cmd.Long = strings.TrimSpace(cmd.Long + "\n\nAlso: " + strings.Join(cmd.Aliases, ", "))
	}
	if cmd.Args == nil {
		cmd.Args = byUsage
	}
	cmd.ValidArgsFunction = c.completeArgument
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.Cmd, c.Args = cmd, args
		if err := c.checkOptions(takes); err != nil {
			return withHint(err, "cutie help "+pathOf(cmd))
		}
		c.Reads = takes&optReads != 0
		return do(cmd.Context())
	}
	return cmd
}

// Group completes a verb that has verbs of its own. What they share may also be said before
// their names, like the options of the program.
func (c *call) Group(cmd *cobra.Command, takes optionSet, verbs ...*cobra.Command) *cobra.Command {
	c.Verb(cmd, takes, func(context.Context) error {
		var names []string
		for _, v := range cmd.Commands() {
			names = append(names, v.Name())
		}
		words := strings.Join(names, ", ")
		if len(c.Args) > 0 {
			return withHint(usagef("%.40q is none of %s", c.Args[0], words), "cutie help "+pathOf(cmd))
		}
		return withHint(usagef("one of %s must follow", words), "cutie help "+pathOf(cmd))
	})
	cmd.Args, cmd.ValidArgsFunction = cobra.ArbitraryArgs, nil
	cmd.Flags().SetInterspersed(false)
	cmd.AddCommand(verbs...)
	return cmd
}

// pathOf is the name of a verb, with those of the verbs that it is of.
func pathOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// operands are the arguments in the usage line of a verb.
func operands(cmd *cobra.Command) []string {
	return slices.DeleteFunc(strings.Fields(cmd.Use)[1:], func(s string) bool { return s == "--" })
}

// byUsage checks the number of arguments against the usage line: those in
// brackets may be missing, and … stands for more.
func byUsage(cmd *cobra.Command, args []string) error {
	least, most := 0, 0
	for _, word := range operands(cmd) {
		if !strings.HasPrefix(word, "[") {
			least++
		}
		most++
	}
	if strings.Contains(cmd.Use, "…") {
		most = -1
	}
	return between(least, most)(cmd, args)
}

// between checks for least to most arguments; most is -1 for any number.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) (err error) {
		switch {
		case len(args) < least:
			err = usagef("too few arguments, usage: %s", cmd.UseLine())
		case most >= 0 && len(args) > most:
			err = usagef("too many arguments: %.60q", args[most])
		default:
			return nil
		}
		return withHint(err, "cutie help "+pathOf(cmd))
	}
}

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
		return usagef("takes no --%s", foreign)
	}
	given := func(name string) bool { return before.Changed(name) || after.Changed(name) }
	if takes&optTarget == optTarget && given("home") {
		if given("url") {
			return usagef("one of --home and --url says where the queue is")
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
