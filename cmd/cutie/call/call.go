// Package call is one call of the program, with all that a verb stands on: its command,
// the options that verbs share (Cutie 0.3, 4), its target, and ways to answer.
//
// A verb is a function from a Call to a command. It adds options of its own and gets
// the rest by [Call.Verb]:
//
//	func versionVerb(c *call.Call) *cobra.Command {
//		cmd := &cobra.Command{Use: "version", Short: "print the version"}
//		return c.Verb(cmd, call.Verbose, func(ctx context.Context) error { … })
//	}
package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/output"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

// A Call is one call of the program.
type Call struct {
	reach.Finder
	Out     output.Sink // where the result goes
	Form    string      // response form as typed; "" for the default of the verb
	Verbose bool
	Cmd     *cobra.Command // the verb
	Args    []string       // as many as its usage line says
	Stdin   io.Reader
	Stderr  *os.File

	help, version bool // are flags; cobra acts on them
}

// New returns a call with the defaults of the environment: CUTIE_HOME and CUTIE_URL.
func New(stdin io.Reader, stdout, stderr *os.File) *Call {
	c := &Call{Out: output.Sink{Stdout: stdout}, Stdin: stdin, Stderr: stderr}
	c.Finder = reach.Finder{Home: cmp.Or(os.Getenv("CUTIE_HOME"), defaultHome), URL: os.Getenv("CUTIE_URL"),
		Warn: c.Warnf, Say: c.Sayf, Trace: output.Screen(stderr)}
	return c
}

// At finds the target, calls do with it, and closes it.
func (c *Call) At(ctx context.Context, do func(t *reach.Target) error) (err error) {
	t, err := c.Find(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return do(t)
}

// AtQueue is [Call.At] for the queue of the first argument. Its errors name the queue.
func (c *Call) AtQueue(ctx context.Context, do func(t *reach.Target, queue string) error) error {
	queue, err := c.QueueArg()
	if err != nil {
		return err
	}
	return c.At(ctx, func(t *reach.Target) error { return fault.About(queue, do(t, queue)) })
}

// QueueArg is the queue of the first argument. Names impossible in a URL are not
// found.
func (c *Call) QueueArg() (string, error) {
	switch q := c.Args[0]; q {
	case "", ".", "..":
		return q, fault.About(q, queuefs.ErrNoQueue)
	default:
		return q, nil
	}
}

// Word is the name or alias of this call of the verb, in lower case.
func (c *Call) Word() string { return strings.ToLower(c.Cmd.CalledAs()) }

// Name is the name or alias as it was typed, for people who read an error.
func Name(cmd *cobra.Command) string { return cmp.Or(cmd.CalledAs(), cmd.Name()) }

// Warnf prints a line on standard error and goes on.
func (c *Call) Warnf(format string, a ...any) {
	fmt.Fprintf(output.Screen(c.Stderr), "cutie: %s: %s\n", Name(c.Cmd), fmt.Sprintf(format, a...))
}

// Sayf is Warnf with -v only.
func (c *Call) Sayf(format string, a ...any) {
	if c.Verbose {
		c.Warnf(format, a...)
	}
}

// Facts prints what a command has found, in the form of -t: JSON or ANVL. A list is an
// array, or records separated by empty lines.
func (c *Call) Facts(list bool, facts ...state.Document) error {
	form, err := c.factsForm()
	if err != nil {
		return err
	}
	var b []byte
	if list && form == state.JSON {
		b = append(b, '[')
	}
	for i := range facts {
		switch {
		case form == state.JSON && list && i > 0:
			b = append(b, ",\n"...)
		case form == state.JSON && list:
			b = append(b, '\n')
		case i > 0:
			b = append(b, '\n')
		}
		b = form.Append(b, &facts[i])
		if list && form == state.JSON {
			b = b[:len(b)-1] // its line end
		}
	}
	if list && form == state.JSON {
		b = append(b, "\n]\n"...)
	}
	return c.Out.Emit(b)
}

func (c *Call) factsForm() (state.Form, error) {
	form, err := c.ResponseForm()
	if err == nil && form != state.JSON && form != state.ANVL {
		err = fault.Hint(fault.Usagef("this has no response form %.40q", c.Form), "-t json or anvl")
	}
	return form, err
}

// ResponseForm is the form of -t (Cutie 0.3, 4), ANVL without -t.
func (c *Call) ResponseForm() (state.Form, error) {
	if c.Form == "" {
		return state.ANVL, nil
	}
	f, err := state.ParseForm(c.Form)
	if err != nil {
		return 0, fault.Hint(fault.Usagef("response form %.40q is not known", c.Form), "-t anvl, json, turtle, xhtml, xml or soif")
	}
	return f, nil
}
