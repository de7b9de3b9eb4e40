package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"cutie/queuefs"
)

var checkVerb = verb{
	name:    "check",
	aliases: []string{"fsck"},
	args:    "[HOME]",
	max:     1,
	about:   "compare the files of a home with its journal and index",
	manual: `
Reads every job file, payload and result, verifies the digests, and prints one
line for each problem and one that sums up. The exit code is 1 if problems
remain. No daemon may run on the home. Like every opening, a check brings the
files up to the journal, as far as the disk has room, and takes in what was
moved by hand.

--repair mends what is wrong, and moves what cannot be mended to corrupt/ in the
directory of the queue. A payload that is lost remains a problem until it is
brought back, or its job is culled; a pending job without its payload is put on
hold. Of a queue-info.txt that makes no sense it writes another with the last
properties that are known; if none are, the queue is closed and paused.

--rebuild reads the files again instead of the index, makes the index anew, and
what is missing in the home, so that a copy of the files alone becomes a home. A
journal is kept, and what it holds is taken as later than the files.`,
	takes: atHome,
	setup: func(fs *pflag.FlagSet) action {
		var o queuefs.CheckOptions
		fs.BoolVar(&o.Repair, "repair", false, "mend what can be mended")
		fs.BoolVar(&o.Rebuild, "rebuild", false, "make the index again from the files, and files that the home lacks")
		return func(_ context.Context, c *call) error { return check(c, o) }
	},
}

func check(c *call, o queuefs.CheckOptions) error {
	dir := c.home
	if len(c.args) > 0 {
		dir = c.args[0]
	}
	r, err := queuefs.Check(dir, o)
	if err != nil {
		return homeHint(dir, err)
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
	if _, err := io.WriteString(screenOf(c.stdout), b.String()); err != nil {
		return err
	}
	if len(r.Problems) > 0 && !o.Repair {
		return withHint(fmt.Errorf("%s: %d problems", dir, len(r.Problems)), "cutie check --repair "+dir+" mends what can be mended")
	}
	if len(r.Problems) > 0 {
		return fmt.Errorf("%s: %d problems remain", dir, len(r.Problems))
	}
	return nil
}
