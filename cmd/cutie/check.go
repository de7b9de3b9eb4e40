package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/snapshot"
	"cutie/queuefs/state"
	"cutie/queuefs/uws"
)

func checkVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "check [HOME]",
		Aliases: []string{"fsck"},
		Short:   "compare the files of a home with its journal and index",
		Long: `
Reads every job file with its elements of UWS, payload and result, everything published,
and what the home knows of callbacks and subscriptions, verifies the digests, and prints a
line for each finding and a sum, or with -t json a list of the findings, with the sum at its
end. The exit code is 1 if problems remain, and a hint names
the command that mends them. No daemon may run on the home. A check alone changes nothing,
so the home may be on a file system mounted for reading.

--repair mends problems. Like every opening it writes the files that the journal is
ahead of, and takes in jobs moved by hand. Files beyond repair move to corrupt/ in the
directory of the queue. A lost payload remains a problem until it is brought back or
its job is culled; a pending job without its payload, or with a lost job file, is put
on hold. A queue-info.txt that cannot be read is replaced by the last known
properties; if there are none, the queue is closed and paused.

--rebuild makes the index anew from the files, and adds files that a home needs,
so that a copy of the files alone becomes a home. Queues that queues.txt does not list
are added to it, and lines without sense taken out. A journal stays; its records
count as later than the files. Of jobs without a legible job file, the index is kept.

--accept-loss, with one of them, mends a home that was not closed and lost its journal:
acknowledged changes may be missing, and the files say what there is. With --rebuild it
takes queues without a directory out of queues.txt.`,
		Example: `cutie check
cutie check --repair archive`,
	}
	o := check.Options{Job: uws.Check}
	cmd.Flags().BoolVar(&o.Repair, "repair", false, "mend problems")
	cmd.Flags().BoolVar(&o.Rebuild, "rebuild", false, "make the index anew from the files, and add files that the home needs")
	cmd.Flags().BoolVar(&o.AcceptLoss, "accept-loss", false, "go on without a lost journal")
	return c.Verb(cmd, optHome|optForm, func(context.Context) error {
		if o.AcceptLoss && !o.Repair && !o.Rebuild {
			return usagef("--accept-loss is for --repair or --rebuild")
		}
		return checkHome(c, o)
	})
}

func checkHome(c *call, o check.Options) error {
	dir := c.Home
	if len(c.Args) > 0 {
		dir = c.Args[0]
	}
	if o.Repair || o.Rebuild {
		if err := asOwner(dir); err != nil {
			return err
		}
	}
	r, err := check.Home(dir, o)
	if err != nil {
		return explainHome(err, dir)
	}
	r.Problems = append(r.Problems, publisher.Check(dir)...)
	sum := fmt.Sprintf("%d queues, %d jobs, %d octets of payload, %d mended, %d problems",
		r.Queues, r.Jobs, r.Octets, len(r.Mended), len(r.Problems))
	facts := state.OfFacts(state.CheckClass, dir, int64(r.Queues), int64(r.Jobs), r.Octets)
	if err := c.Findings(slices.Concat(r.Mended, r.Problems), sum, &facts); err != nil {
		return err
	}
	return remaining(dir, &r)
}

// followers reports whether a problem is of a file that the daemon sets aside, or of rows that
// it goes on without.
func followers(p durable.Finding) bool {
	return p.Level != durable.Unread && (p.Path == snapshot.SubscriptionsPath || published(p))
}

// published reports whether a problem is of a published file.
func published(p durable.Finding) bool {
	return p.Path == publisher.Dir || strings.HasPrefix(p.Path, publisher.Dir+"/")
}

// remaining is the error for a home with problems.
func remaining(dir string, r *queuefs.CheckReport) error {
	if len(r.Problems) == 0 {
		return nil
	}
	remain := ""
	if r.Repaired {
		remain = " remain"
	}
	err := fmt.Errorf("%s: %d problems%s", dir, len(r.Problems), remain)
	engine := *r
	engine.Problems = slices.DeleteFunc(slices.Clone(r.Problems), followers)
	o, ok := check.Cure(&engine, nil)
	some := func(of func(p durable.Finding) bool) bool { return slices.ContainsFunc(r.Problems, of) }
	switch {
	case !ok && some(func(p durable.Finding) bool { return p.Cure != "" }):
		return err // the cure stands below the problem
	case !ok && some(func(p durable.Finding) bool { return published(p) && p.Level != durable.Unread }):
		return withHint(err, "cutie serve --home "+dir+" makes published files again, or sets them aside and begins new lists: cutie publish --status says what was lost")
	case !ok && some(followers):
		return withHint(err, "cutie serve --home "+dir+" goes on without these rows: changes are sent again, subscribers have to subscribe again")
	case !ok && some(func(p durable.Finding) bool { return p.Level == durable.Unread }):
		return withHint(err, "files that cannot be read now may be whole: look at the disk and its log, then check again")
	case !ok:
		return withHint(err, "bring the files back from a copy, or delete their jobs and cull them: cutie help delete, cutie help cull")
	}
	mends := "mends what can be mended"
	if o.AcceptLoss {
		mends = "goes on with the files there are; if there is a copy of the lost ones, bring it back first"
	}
	return withHint(err, checkCommand(dir, o.Repair, o.Rebuild, o.AcceptLoss)+" "+mends)
}
