package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/topics"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/state"
)

type verbs []func(*call) *cobra.Command

// firstDay is the title of the group of verbs that the overview explains.
const firstDay = "first day"

// groups are the verbs by use, in the order of the help text.
var groups = []struct {
	title string
	verbs verbs
}{
	{firstDay, verbs{initVerb, serveVerb, createQueueVerb, putVerb, lsVerb, getVerb, reportVerb, workVerb}},
	{"queues", verbs{statusVerb, setQueueVerb, cullVerb, removeQueueVerb}},
	{"jobs", verbs{showVerb, peekVerb, resultVerb, batchVerb, holdVerb, releaseVerb, requeueVerb, abortVerb, removeVerb}},
	{"workers", verbs{extendVerb, attachVerb, uwsVerb}},
	{"publishing", verbs{watchVerb, publishVerb, exportVerb, rdmVerb}},
	{"copies", verbs{syncVerb, auditVerb, backupVerb, restoreVerb, failoverVerb}},
	{"operation", verbs{userVerb, configVerb, doctorVerb, checkVerb, storeVerb, importVerb, completionVerb, versionVerb, helpVerb}},
}

// former are names of before for what is a part of another verb now. They work, and
// no list shows them.
var former = verbs{tokenVerb, soifVerb, promoteVerb, takeoverVerb, handoverVerb}

// newRoot returns the tree of commands. Options common to all verbs may stand before
// the verb or after it; both are bound to c. An error of a help text goes to failed;
// cobra has no way to return one.
func newRoot(c *call, failed *error) *cobra.Command {
	cobra.EnableCaseInsensitive = true
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use:               "cutie [OPTION…] COMMAND [ARGUMENT…]",
		Short:             "durable queues in a directory, served and published",
		Version:           home.Version,
		TraverseChildren:  true,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeAlias,
	}
	root.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return withHint(usagef("no command given"), "cutie help lists the commands")
		}
		return unknown(root, args[0])
	}
	c.Bind(root, ^optionSet(0))
	root.DisableFlagsInUseLine, root.DisableAutoGenTag = true, true
	root.Flags().SetInterspersed(false)
	root.SetOut(c.Out.Stdout)
	root.SetErr(c.Stderr)
	cobra.AddTemplateFunc("versionLine", versionLine)
	root.SetVersionTemplate("{{versionLine}}\n")
	root.SetFlagErrorFunc(misuse)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		root.Long = manualOf()
		*failed = explain(c, cmd)
	})
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, verb := range g.verbs {
			cmd := verb(c)
			cmd.GroupID = g.title
			if cmd.Name() == "help" {
				root.SetHelpCommand(cmd)
			}
			root.AddCommand(cmd)
		}
	}
	for _, verb := range former {
		cmd := verb(c)
		cmd.Hidden = true
		root.AddCommand(cmd)
	}
	return root
}

// misuse makes a usage error of an error in an option.
func misuse(cmd *cobra.Command, err error) error {
	hint := "cutie help lists commands and options"
	if cmd.HasParent() {
		hint = "cutie help " + pathOf(cmd)
	}
	return withHint(usagef("%s", inOption(err)), hint)
}

// find returns the verb with these names or aliases.
func find(root *cobra.Command, words ...string) *cobra.Command {
	cmd, rest, err := root.Find(words)
	if err != nil || cmd == root || len(rest) > 0 {
		return nil
	}
	return cmd
}

// unknown is the error for an unknown verb. Its hint is the nearest name.
func unknown(root *cobra.Command, word string) error {
	var names []string
	for _, cmd := range root.Commands() {
		names = append(append(names, cmd.Name()), cmd.Aliases...)
	}
	hint := "cutie help lists the commands"
	if near := near(word, names); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return withHint(usagef("unknown command %.40q", word), hint)
}

// spelled puts arguments into the spelling of the library. Cutie 0.3, 4 has "-D [level]"
// and "--debug [level]": a number after them is the level, anywhere on the line. The
// library wants it in the same word.
func spelled(args []string) (words []string) {
	if len(args) > 0 && args[0] == "--" { // without a meaning before the verb
		args = args[1:]
	}
	for i, word := range args {
		last := ""
		if i > 0 {
			last = args[i-1]
		}
		switch debug := last == "--debug" || len(last) > 1 && last[0] == '-' && last[1] != '-' && last[len(last)-1] == 'D'; {
		case word == "--":
			return append(words, args[i:]...)
		case debug && word != "" && strings.Trim(word, "0123456789") == "":
			words[len(words)-1] += "=" + word
		default:
			words = append(words, word)
		}
	}
	return words
}

func completionVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "print the completions of a shell",
		Long: `
Prints a script for the shell. It completes commands, options, their values,
files, and the names of queues; a daemon has half a second to send those. That of
bash needs the package bash-completion.

    bash  in ~/.bashrc:             source <(cutie completion bash)
    zsh   in a directory of fpath:  cutie completion zsh > _cutie
    fish  in its configuration:     cutie completion fish | source`,
		Example: `cutie completion bash`,
	}
	return c.Verb(cmd, 0, func(context.Context) error {
		root, out := cmd.Root(), c.Out.Stdout
		switch strings.ToLower(c.Args[0]) {
		case "bash":
			return root.GenBashCompletionV2(out, true)
		case "zsh":
			return root.GenZshCompletion(out)
		case "fish":
			return root.GenFishCompletion(out, true)
		case "powershell":
			return root.GenPowerShellCompletionWithDesc(out)
		}
		return withHint(usagef("shell %.40q is not known", c.Args[0]), "the shells are bash, zsh, fish and powershell")
	})
}

// completeAlias completes aliases once a letter is typed; cobra leaves them out.
func completeAlias(root *cobra.Command, args []string, typed string) (all []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 && typed != "" {
		for _, cmd := range root.Commands() {
			for _, name := range cmd.Aliases {
				all = append(all, cobra.CompletionWithDesc(name, cmd.Short))
			}
		}
	}
	return startingWith(all, typed), cobra.ShellCompDirectiveNoFileComp
}

// CompleteOptions lets all verbs complete the values of options, by their names in the
// help text. It takes a while, so it is for calls by a shell alone.
func completeAllOptions(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		completeOptions(cmd)
	}
}

func completeOptions(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name, _ := pflag.UnquoteUsage(f)
		var words []string
		switch {
		case name == "file":
			return // the shell's own
		case name == "directory":
			cmd.MarkFlagDirname(f.Name)
			return
		case strings.Contains(name, "|"):
			words = strings.Split(name, "|")
		case name == "form":
			for form := state.ANVL; form <= state.SOIF; form++ {
				words = append(words, cobra.CompletionWithDesc(form.String(), form.MediaType()))
			}
		case f.Name == "kind":
			for k := job.Submit; k < job.Phase; k++ {
				words = append(words, k.String())
			}
		}
		cmd.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return startingWith(words, typed), cobra.ShellCompDirectiveNoFileComp
		})
	})
}

// completeArgument completes the next argument of a verb by its usage line.
func (c *call) completeArgument(cmd *cobra.Command, args []string, typed string) (all []string, _ cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	n, wanted := len(args), operands(cmd)
	if slices.Contains(wanted, "|") { // words with arguments of their own: add NAME | rm NAME
		if n > 0 {
			return nil, none
		}
		_, line, _ := strings.Cut(cmd.Use, " ")
		for part := range strings.SplitSeq(line, " | ") {
			word, what, _ := strings.Cut(part, " ")
			for w := range strings.SplitSeq(word, "|") {
				all = append(all, cobra.CompletionWithDesc(w, what))
			}
		}
		return startingWith(all, typed), none
	}
	if n >= len(wanted) && !strings.Contains(cmd.Use, "…") || len(wanted) == 0 {
		return nil, none
	}
	switch name := strings.Trim(wanted[min(n, len(wanted)-1)], "[]"); {
	case strings.HasPrefix(name, "FILE"), strings.HasPrefix(name, "DIR"), name == "HOME":
		return nil, cobra.ShellCompDirectiveDefault
	case strings.HasPrefix(name, "QUEUE"):
		if c.Cmd = cmd; c.checkOptions(optTarget) == nil {
			all = c.QueueNames(cmd.Context())
		}
	case strings.Contains(name, "|") && strings.ToLower(name) == name:
		all = strings.Split(name, "|")
	}
	return startingWith(all, typed), none
}

// startingWith returns the words with the prefix typed, in any case.
func startingWith(all []string, typed string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool {
		return len(s) < len(typed) || !strings.EqualFold(s[:len(typed)], typed)
	})
}

// manual prints the manual page of a command.
func manual(c *call, cmd *cobra.Command) error {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		f.Usage, f.DefValue = usage, value
	})
	var page bytes.Buffer
	head := &doc.GenManHeader{Section: "1", Date: new(time.Time), Source: "cutie " + home.Version, Manual: "Cutie 0.3"}
	if err := doc.GenMan(cmd, head, &page); err != nil {
		return err
	}
	text := strings.Replace(page.String(), head.Date.Format("Jan 2006"), buildSetting("vcs.time", 10), 1)
	text = strings.NewReplacer("[=]\n", "\n", "=\n", "\n").Replace(text)
	text = pageOption.ReplaceAllString(text, ".TP\n$1$2\n")
	return c.Out.Emit([]byte(nonASCII.ReplaceAllStringFunc(text, func(s string) string {
		return fmt.Sprintf(`\[u%04X]`, []rune(s)[0])
	})))
}

// pageOption is an option in the pages of cobra, with a tab before its text. troff
// wants a paragraph with a tag.
var (
	pageOption = regexp.MustCompile(`(?m)^(?:\.PP\n)?(\\fB-.*\\fP)(.*)\n\t`)
	nonASCII   = regexp.MustCompile(`[^\x00-\x7f]`)
)

// overview is the first screen of help: what a person needs on the first day, and the names
// of all other commands.
func overview(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cutie: %s\n\nusage: %s\n\n%s:\n", root.Short, root.UseLine(), firstDay)
	names := map[string]string{}
	for _, v := range root.Commands() {
		if names[v.GroupID] += " " + v.Name(); v.GroupID == firstDay {
			fmt.Fprintf(&b, "  %-10s  %s\n", v.Name(), v.Short)
		}
	}
	b.WriteString("\nmore commands:\n")
	for _, g := range root.Groups()[1:] {
		fmt.Fprintf(&b, "  %-10s %s\n", g.Title, names[g.ID])
	}
	return b.String() + `
cutie help tour is a first queue. cutie help COMMAND explains a command.
cutie help all lists all commands, options, exit codes and topics.
`
}

// manualOf is the description of the program. To make it takes a thirtieth of a start, so
// only help does.
func manualOf() string {
	var b strings.Builder
	b.WriteString(`Where the queue is: --url names a daemon, --home a directory. Without either it
is CUTIE_URL, then CUTIE_HOME, then ./cutie_home. A daemon on that directory is
asked through its socket; if there is none, the command opens the directory
itself. The answers are the same. CUTIE_TOKEN holds the token for a daemon that
wants one.

Exit codes:

`)
	for code, text := range exitTexts {
		fmt.Fprintf(&b, "    %d  %s\n", code, text)
	}
	b.WriteString("\nTopics:\n\n")
	for _, t := range topics.All() {
		fmt.Fprintf(&b, "    %-11s %s\n", t.Name, t.Summary)
	}
	return b.String() + "\ncutie help COMMAND explains a command and its options, cutie help TOPIC a topic."
}

func helpVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "help [COMMAND…|TOPIC]",
		Short: "explain a command or a topic, or list them all",
		Long: `
Prints text. With -t it prints a help document (Cutie 0.3, 5.1), and with --man
the manual page, for "man -l -". With -q it lists only the names of the commands.
Without a name it prints what one needs on the first day; all prints everything.`,
		Example: `cutie help get
cutie help user token
cutie help all
cutie help -t json put
cutie help --man put -o put.1`,
	}
	man := cmd.Flags().Bool("man", false, "print the manual page (roff)")
	quiet := cmd.Flags().BoolP("quiet", "q", false, "list the names of the commands only")
	c.Verb(cmd, optForm|optOutput, func(context.Context) error {
		about := cmd.Root()
		about.Long = manualOf()
		all := len(c.Args) == 1 && strings.EqualFold(c.Args[0], "all")
		if len(c.Args) > 0 && !all {
			if t, ok := topics.Find(c.Args[0]); ok && !*man && !*quiet && c.Form == "" {
				return c.Out.Emit([]byte("cutie " + t.Name + ": " + t.Summary + "\n\n" + t.Text))
			}
			if text, ok := topics.Worker(c.Args[0]); ok && !*man && !*quiet && c.Form == "" {
				return c.Out.Emit(text)
			}
			if about = find(cmd.Root(), c.Args...); about == nil {
				return unknown(cmd.Root(), strings.Join(c.Args, " "))
			}
		}
		switch {
		case *quiet && (len(c.Args) > 0 || *man || c.Form != ""), *man && c.Form != "":
			return usagef("--quiet, --man and --response-form exclude each other, and --quiet lists all commands")
		case *quiet:
			return c.Out.Lines(names(cmd.Root()))
		case *man:
			return manual(c, about)
		case all && c.Form == "":
			return c.Out.Emit([]byte(helpText(about)))
		}
		return explain(c, about)
	})
	cmd.ValidArgsFunction = completeNames
	return cmd
}

// completeNames completes the names of topics and commands.
func completeNames(cmd *cobra.Command, args []string, typed string) (all []string, _ cobra.ShellCompDirective) {
	of := cmd.Root()
	if len(args) > 0 {
		of = find(of, args...)
	} else {
		for _, t := range topics.All() {
			all = append(all, cobra.CompletionWithDesc(t.Name, t.Summary))
		}
	}
	for _, v := range commandsOf(of) {
		for _, word := range append([]string{v.Name()}, v.Aliases...) {
			all = append(all, cobra.CompletionWithDesc(word, v.Short))
		}
	}
	return startingWith(all, typed), cobra.ShellCompDirectiveNoFileComp
}

// commandsOf are the commands of the program, or of a verb, that lists show.
func commandsOf(cmd *cobra.Command) (all []*cobra.Command) {
	if cmd == nil {
		return nil
	}
	for _, v := range cmd.Commands() {
		if !v.Hidden {
			all = append(all, v)
		}
	}
	return all
}

func names(root *cobra.Command) (all []string) {
	for _, cmd := range commandsOf(root) {
		all = append(all, cmd.Name())
	}
	return all
}

// explain prints the help text of a command, in a response form if one was
// given (Cutie 0.3, 5.1).
func explain(c *call, cmd *cobra.Command) error {
	switch {
	case c.Form == "" && !cmd.HasParent():
		return c.Out.Emit([]byte(overview(cmd)))
	case c.Form == "":
		return c.Out.Emit([]byte(helpText(cmd)))
	}
	form, err := c.ResponseForm()
	if err != nil {
		return err
	}
	h := state.Help{Summary: cmd.Short, Request: usage(cmd), Text: helpText(cmd)}
	if cmd.HasParent() {
		h.Method = method(cmd)
	} else {
		for _, verb := range commandsOf(cmd) {
			h.Methods = append(h.Methods, method(verb))
		}
	}
	d := state.OfHelp(h)
	return c.Out.Emit(form.Append(nil, &d))
}

// method is the name in Cutie 0.3, 5 if there is one: the alias with capitals.
func method(cmd *cobra.Command) string {
	for _, name := range cmd.Aliases {
		if strings.ToLower(name) != name {
			return name
		}
	}
	return cmd.Name()
}

// usage is the usage line with options in it.
func usage(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return cmd.UseLine()
	}
	name := cmd.CommandPath()
	return name + " [OPTION…]" + strings.TrimPrefix(cmd.UseLine(), name)
}

func helpText(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nusage: %s\n", cmd.CommandPath(), cmd.Short, usage(cmd))
	name := func(v *cobra.Command) string {
		if cmd.HasParent() {
			return strings.TrimSuffix(v.Use, " COMMAND")
		}
		return v.Name()
	}
	width := 10
	for _, v := range commandsOf(cmd) {
		width = max(width, utf8.RuneCountInString(name(v)))
	}
	group := "commands"
	for _, v := range commandsOf(cmd) {
		if v.GroupID != group {
			group = v.GroupID
			fmt.Fprintf(&b, "\n%s:\n", cmp.Or(group, "commands"))
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, name(v), v.Short)
	}
	if cmd.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", cmd.Long)
	}
	fmt.Fprintf(&b, "\noptions:\n%s", cmd.Flags().FlagUsagesWrapped(80))
	if cmd.Example != "" {
		b.WriteString("\nexamples:\n")
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}
