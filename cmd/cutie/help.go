package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/topics"
	"cutie/queuefs/state"
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
	for code, text := range fault.ExitTexts {
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
			return fault.Usagef("--quiet, --man and --response-form exclude each other, and --quiet lists all commands")
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
