package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// A verb is one command of the program: what help says of it and what it does.
// Help, parsing and dispatch all read the same value.
type verb struct {
	name     string   // the method of Cutie 0.3, 5 in lowerCamel; matched without case
	aliases  []string // other words for it, in lower case
	args     string   // the arguments, as the usage line prints them
	min      int      // fewest arguments
	max      int      // most arguments; -1 for any number
	about    string   // one line
	manual   string   // further paragraphs; lines that begin with blanks stay as they are
	examples string   // command lines that work
	takes    common   // which common options it understands
	setup    func(*pflag.FlagSet) action
}

// An action does what a verb is for. Setup has bound it to the verb's options.
type action func(ctx context.Context, c *call) error

// verbs is every command, in the order in which help lists them.
var verbs = []verb{
	serveVerb,
	initVerb,
	createQueueVerb,
	setQueueVerb,
	removeQueueVerb,
	submitVerb,
	batchVerb,
	nextVerb,
	peekVerb,
	deleteVerb,
	requeueVerb,
	holdVerb,
	releaseVerb,
	abortVerb,
	extendVerb,
	outcomeVerb,
	putResultVerb,
	workVerb,
	uwsVerb,
	resultVerb,
	serviceStateVerb,
	queueStateVerb,
	jobStateVerb,
	checkVerb,
	exportVerb,
	publishVerb,
	userVerb,
	tokenVerb,
	watchVerb,
	soifVerb,
	rdmVerb,
	cullVerb,
	completionVerb,
	versionVerb,
	helpVerb,
}

// A call is one use of a verb.
type call struct {
	options
	verbs  []verb
	verb   *verb
	word   string   // as it was typed, in lower case: aliases may print for people
	args   []string // between verb.min and verb.max
	told   bool     // -v has said who is asked
	stdin  io.Reader
	stdout *os.File
	stderr *os.File
}

// warnf says something on standard error that is not the end of the verb.
func (c *call) warnf(format string, a ...any) {
	fmt.Fprintf(screenOf(c.stderr), "cutie: %s: %s\n", c.verb.name, fmt.Sprintf(format, a...))
}

// sayf is warnf for those who want to know more (-v).
func (c *call) sayf(format string, a ...any) {
	if c.verbose {
		c.warnf(format, a...)
	}
}

// terminal tells whether f is one.
func terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// find returns the verb that word names, or an error whose hint is the word
// that was probably meant.
func find(table []verb, word string) (*verb, error) {
	low := strings.ToLower(word)
	near, best := "", 1+min(2, len(low)/3) // with more slips than one in three letters, or two, it is another word
	for i := range table {
		v := &table[i]
		for _, name := range v.words() {
			if low == strings.ToLower(name) {
				return v, nil
			}
			if d := distance(low, strings.ToLower(name)); d < best {
				near, best = name, d
			}
		}
	}
	hint := "cutie help lists the commands"
	if near != "" {
		hint = fmt.Sprintf("did you mean %s? %s", near, hint)
	}
	return nil, withHint(usagef("unknown command %.40q", word), hint)
}

func (v *verb) words() []string { return append([]string{v.name}, v.aliases...) }

// distance is the number of single-letter slips between two words
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
