// Command cutie is a durable queue in a directory, and a daemon to serve and
// publish it (Cutie 0.3, 4 and 5).
//
// Each verb works against a daemon by its URL, against the daemon of a home by
// its socket, and against a home itself when no daemon runs on it. root.go lists
// the verbs, call.go has what they share, target.go finds the daemon or opens the home,
// output.go has where their results go, fault.go exit codes and hints, settings.go the
// settings of the daemon, doctor.go what looks for faults. Below them are packages:
//
//	daemon                                     opens a home, serves it, and runs its loops
//	listen                                     its port and socket
//	access mirror traces                       its users, mirrors and spans
//	dashboard                                  its pages: written, served, kept up to date, charts
//	topics                                     the manual
//
// Each imports only packages below it. INTERNALS.md of queuefs has the engine under them.
// Command cmd/bench measures a daemon, and other queues beside it.
package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"cutie/queuefs/state"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run does the work of one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr *os.File) int {
	c := newCall(stdin, stdout, stderr)
	var failed error
	root := newRoot(c, &failed)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		completeAllOptions(root)
	}
	root.SetArgs(spelled(args))
	cmd, err := root.ExecuteContextC(ctx)
	err = cmp.Or(failed, err)
	name := calledAs(cmd)
	if cmd == root {
		name = ""
		if err != nil && exitCode(err) == exitError { // an option before the verb
			err = misuse(root, err)
		}
	}
	// An empty queue is an answer: the exit code tells, and -v in words.
	if code := exitCode(err); err == nil || code == exitEmpty && !c.Verbose {
		return code
	}
	if form, bad := state.ParseForm(c.Form); bad == nil && form == state.JSON {
		text, hint := wordsOf(err)
		d := state.OfFacts(state.ErrorClass, name, int64(exitCode(err)), text, hint)
		onScreen(stderr).Write(form.Append(nil, &d))
		return exitCode(err)
	}
	reportError(onScreen(stderr), name, err)
	return exitCode(err)
}
