package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/call"
	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/output"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/state"
	"cutie/queuefs/uws"
)

func checkVerb(c *call.Call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "check [HOME]",
		Aliases: []string{"fsck"},
		Short:   "compare the files of a home with its journal and index",
		Long: `
Reads every job file with its elements of UWS, payload and result, verifies the
digests, and prints a line for each problem and a sum, or with -t json one object. The
exit code is 1 if problems remain. No daemon may run on the home. Like every opening, a
check writes the files that the journal is ahead of, and takes in jobs moved by hand.

--repair mends problems. Files beyond repair move to corrupt/ in the directory of
the queue. A lost payload remains a problem until it is brought back or its job is
culled; a pending job without its payload is put on hold. A queue-info.txt that
cannot be read is replaced by the last known properties; if there are none, the
queue is closed and paused.

--rebuild makes the index anew from the files, and adds files that a home needs,
so that a copy of the files alone becomes a home. A journal stays; its records
count as later than the files.`,
		Example: `cutie check
cutie check --repair archive`,
	}
	o := check.Options{Job: uws.Check}
	cmd.Flags().BoolVar(&o.Repair, "repair", false, "mend problems")
	cmd.Flags().BoolVar(&o.Rebuild, "rebuild", false, "make the index anew from the files, and add files that the home needs")
	return c.Verb(cmd, call.Home|call.Form, func(context.Context) error { return checkHome(c, o) })
}

func checkHome(c *call.Call, o check.Options) error {
	dir := c.Home
	if len(c.Args) > 0 {
		dir = c.Args[0]
	}
	r, err := check.Home(dir, o)
	if err != nil {
		return reach.HomeHint(dir, err)
	}
	if c.Form != "" {
		err := c.Facts(false, state.OfFacts(state.CheckClass, dir, int64(r.Queues), int64(r.Jobs), r.Octets, texts(r.Mended), texts(r.Problems)))
		if err != nil {
			return err
		}
		return remaining(dir, &r, o)
	}
	var b strings.Builder
	for _, p := range r.Mended {
		fmt.Fprintf(&b, "mended: %s\n", p)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "problem: %s\n", p)
	}
	fmt.Fprintf(&b, "%d queues, %d jobs, %d octets of payload, %d mended, %d problems\n",
		r.Queues, r.Jobs, r.Octets, len(r.Mended), len(r.Problems))
	if _, err := io.WriteString(output.Screen(c.Out.Stdout), b.String()); err != nil {
		return err
	}
	return remaining(dir, &r, o)
}

// texts are problems in words.
func texts(problems []queuefs.Problem) []string {
	all := make([]string, len(problems))
	for i, p := range problems {
		all[i] = fmt.Sprint(p)
	}
	return all
}

// remaining is the error for a home with problems.
func remaining(dir string, r *check.Report, o check.Options) error {
	if len(r.Problems) > 0 && !o.Repair {
		return fault.Hint(fmt.Errorf("%s: %d problems", dir, len(r.Problems)), "cutie check --repair "+dir+" mends what can be mended")
	}
	if len(r.Problems) > 0 {
		return fmt.Errorf("%s: %d problems remain", dir, len(r.Problems))
	}
	return nil
}
