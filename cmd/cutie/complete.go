package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// A candidate is a word that may stand in the place of the one being typed.
type candidate struct{ word, about string }

func (s candidate) String() string {
	if s.about == "" {
		return s.word
	}
	return s.word + "\t" + s.about
}

// files stands for the names of files, which shells know best.
var files = candidate{word: ":files"}

// complete returns what may stand in the place of the last of words, which
// follow the name of the program. It never fails: what cannot be found out is
// no candidate.
func (c *call) complete(ctx context.Context, words []string) []candidate {
	if len(words) == 0 {
		words = []string{""}
	}
	words, cur := words[:len(words)-1], words[len(words)-1]
	o := environment()
	before := pflag.NewFlagSet("cutie", pflag.ContinueOnError)
	before.SetInterspersed(false)
	o.bind(before, ^common(0))
	if f := waiting(before, words); f != nil {
		return matching(cur, values(f))
	}
	parseFlags(before, words)
	if before.NArg() == 0 {
		if strings.HasPrefix(cur, "-") {
			return matching(cur, flagsOf(before))
		}
		return matching(cur, c.words())
	}
	v, err := find(c.verbs, before.Arg(0))
	if err != nil {
		return nil
	}
	flags, _ := v.flags(&o)
	rest := before.Args()[1:]
	if f := waiting(flags, rest); f != nil {
		return matching(cur, values(f))
	}
	if name, value, ok := strings.Cut(cur, "="); ok && strings.HasPrefix(name, "--") {
		if f := flags.Lookup(name[2:]); f != nil {
			var all []candidate
			for _, s := range matching(value, values(f)) {
				if s != files {
					s.word = name + "=" + s.word
				}
				all = append(all, s)
			}
			return all
		}
	}
	parseFlags(flags, rest)
	if strings.HasPrefix(cur, "-") && cur != "-" && flags.ArgsLenAtDash() < 0 {
		return matching(cur, flagsOf(flags))
	}
	return matching(cur, c.argument(ctx, v, &o, flags.NArg()))
}

// waiting returns the option whose value the next word is, nil if it is none.
func waiting(flags *pflag.FlagSet, words []string) *pflag.Flag {
	if len(words) == 0 || slices.Contains(words, "--") {
		return nil
	}
	var f *pflag.Flag
	switch last := words[len(words)-1]; {
	case strings.HasPrefix(last, "--"):
		f = flags.Lookup(last[2:])
	case len(last) > 1 && last[0] == '-':
		f = flags.ShorthandLookup(last[len(last)-1:])
	}
	if f == nil || f.NoOptDefVal != "" {
		return nil
	}
	return f
}

// values are those that the name of an option's value speaks of.
func values(f *pflag.Flag) []candidate {
	switch name, _ := pflag.UnquoteUsage(f); {
	case strings.Contains(name, "|"):
		return choice(name)
	case name == "form":
		var all []candidate
		for f := state.ANVL; f <= state.SOIF; f++ {
			all = append(all, candidate{f.String(), f.MediaType()})
		}
		return all
	case name == "file" || name == "directory":
		return []candidate{files}
	case f.Name == "kind":
		var all []candidate
		for k := queuefs.Submit; k <= queuefs.Phase; k++ {
			all = append(all, candidate{word: k.String()})
		}
		return all
	}
	return nil
}

// choice splits words between bars.
func choice(s string) []candidate {
	var all []candidate
	for w := range strings.SplitSeq(s, "|") {
		all = append(all, candidate{word: w})
	}
	return all
}

// argument returns what the nth argument of v, from 0, may be, by the usage
// line.
func (c *call) argument(ctx context.Context, v *verb, o *options, n int) []candidate {
	if v.max >= 0 && n >= v.max {
		return nil
	}
	names := strings.Fields(v.args)
	if strings.Contains(v.args, " | ") { // verbs with commands of their own: add NAME | rm NAME
		if n > 0 {
			return nil
		}
		var all []candidate
		for part := range strings.SplitSeq(v.args, " | ") {
			word, what, _ := strings.Cut(part, " ")
			all = append(all, candidate{word, what})
		}
		return all
	}
	if len(names) == 0 {
		return nil
	}
	switch name := strings.Trim(names[min(n, len(names)-1)], "[]"); {
	case strings.HasPrefix(name, "FILE"), strings.HasPrefix(name, "DIR"), name == "HOME":
		return []candidate{files}
	case name == "COMMAND":
		return c.words()
	case strings.HasPrefix(name, "QUEUE"):
		return c.queueNames(ctx, o)
	case strings.Contains(name, "|") && strings.ToLower(name) == name:
		return choice(name)
	}
	return nil
}

// words are the commands, and other words for them.
func (c *call) words() []candidate {
	var all []candidate
	for i := range c.verbs {
		v := &c.verbs[i]
		for _, w := range v.words() {
			all = append(all, candidate{w, v.about})
		}
	}
	return all
}

func flagsOf(flags *pflag.FlagSet) []candidate {
	var all []candidate
	flags.VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		all = append(all, candidate{"--" + f.Name, usage})
	})
	return all
}

// matching are the candidates that begin with cur, without case.
func matching(cur string, all []candidate) []candidate {
	return slices.DeleteFunc(all, func(s candidate) bool {
		return s != files && (len(s.word) < len(cur) || !strings.EqualFold(s.word[:len(cur)], cur))
	})
}

// completionLimit is how long a daemon may take to say which queues it has.
const completionLimit = 500 * time.Millisecond

// queueNames asks a daemon for its queues. A home without one is not opened for
// that: its list is read.
func (c *call) queueNames(ctx context.Context, o *options) []candidate {
	ctx, cancel := context.WithTimeout(ctx, completionLimit)
	defer cancel()
	var daemon *remote
	if o.url != "" {
		base, err := cleanBase(o.url)
		if err != nil {
			return nil
		}
		daemon = newRemote(base, nil, c.traced)
	} else {
		var err error
		if daemon, err = askDaemon(ctx, o.home, c.traced); err != nil {
			return nil
		}
	}
	var names []string
	if daemon != nil {
		defer daemon.Close()
		s, err := daemon.Service(ctx)
		if err != nil {
			return nil
		}
		names = s.Queues
	} else {
		names = listedQueues(o.home)
	}
	var all []candidate
	for _, n := range names {
		all = append(all, candidate{n, "queue"})
	}
	return all
}

// listedQueues reads queues.txt of a home (Cutie 0.3, 6.3).
func listedQueues(home string) []string {
	f, err := os.Open(filepath.Join(home, "queues.txt"))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if id, err := queuefs.CleanQueueID(strings.TrimSpace(line)); err == nil && !strings.HasPrefix(line, "#") {
			names = append(names, id)
		}
	}
	return names
}
