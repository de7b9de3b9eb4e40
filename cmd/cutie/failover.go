package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/mirror"
	"cutie/queuefs/replay"
)

// failoverVerb puts one home in the place of another.
func failoverVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "failover COMMAND",
		Short: "let a copy, a mirror or a standby take over",
		Long: `
For the day on which the daemon that hands out jobs is lost, or has to stop. What takes
its place is a copy (cutie help copies), a mirror (cutie help mirrors), or a standby of a
home in a store (cutie help standbys).`,
		Example: `cutie failover copy mirror
cutie failover mirror jobs --url http://127.0.0.1:8080
cutie failover standby --url http://standby:8080
cutie failover handover --url http://owner:8080`,
	}
	parts := []*cobra.Command{promoteVerb(c), mirrorVerb(c), standbyVerb(c), handoverVerb(c)}
	parts[0].Use = "copy DIR"
	return c.Group(cmd, optTarget|optForm|optOutput, parts...)
}

// takeoverVerb is the former name of two parts of failover: with queues it is for mirrors,
// without one for a standby.
func takeoverVerb(c *call) *cobra.Command {
	cmd, standby := mirrorVerb(c), standbyVerb(c)
	mirrors := cmd.RunE
	cmd.Use, cmd.Long = "takeover [QUEUE…]", "Without a queue a standby becomes the owner.\n\n"+cmd.Long
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && !cmd.Flags().Changed("all") {
			if cmd.Flags().Changed("force") || cmd.Flags().Changed("requeue-unfinished") {
				return usagef("--force and --requeue-unfinished are of mirrors: name the queues, or give --all")
			}
			return standby.RunE(cmd, args)
		}
		return mirrors(cmd, args)
	}
	return cmd
}

// standbyVerb makes the owner of a standby.
func standbyVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "standby",
		Short: "make a standby the owner of its home in a store",
		Long: `
The daemon at --url becomes the owner. A former owner that can be reached, and accepts the
credentials given here, gives the home up first, and then no request is lost: see cutie
help standbys.`,
	}
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		return changeOwner(ctx, c, http.MethodPost)
	})
}

// mirrorVerb makes live queues of mirrors.
func mirrorVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mirror [QUEUE…]",
		Short: "make live queues of mirrors",
		Long: `
For the day on which the original is lost: mirrors of cutie serve --mirror take submissions
and hand out jobs from now on. Jobs keep identifiers, order, states, sidecars, holds, leases
and results; a worker goes on with the token of its lease. Numbers of jobs and events go on,
and so do the Change Lists: who has followed the original follows the mirror from its last
event.

It refuses while an original still answers, since a queue with two homes hands out each
job twice; --force takes over anyway. It says what a mirror cannot know: what the
original did after the last event that was seen.

Jobs that were handed out in a queue with reports, are not in work and have no outcome
are listed. --requeue-unfinished puts them back into their queues.

A queue taken over before is left as it is.`,
	}
	fs := cmd.Flags()
	all := fs.Bool("all", false, "take over all mirrors")
	force := fs.Bool("force", false, "take over although an original answers")
	requeue := fs.Bool("requeue-unfinished", false, "put back jobs that were handed out and have no outcome")
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		if *all == (len(c.Args) > 0) {
			return usagef("name the queues to take over, or give --all")
		}
		if _, err := wantsJSON(c); err != nil {
			return err
		}
		query := url.Values{}
		if *force {
			query.Set("force", "")
		}
		if *requeue {
			query.Set("requeue-unfinished", "")
		}
		paths := []string{mirror.TakeoverPath}
		if !*all {
			paths = nil
			for _, name := range c.Args {
				paths = append(paths, mirror.TakeoverPath+"/"+url.PathEscape(name))
			}
		}
		return takeover(ctx, c, paths, query)
	})
}

// maxTaken is the most octets of a report.
const maxTaken = 64 << 20

func takeover(ctx context.Context, c *call, paths []string, query url.Values) (err error) {
	s, err := c.Source(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	all := mirror.Taken{Queues: []mirror.TakenQueue{}}
	for _, path := range paths {
		var report mirror.Taken
		if err := post(ctx, s, path, query, &report); err != nil {
			if exitCode(err) == exitConflict {
				err = withHint(err, "--force takes over although the original answers")
			}
			return err
		}
		all.Typed, all.Queues = report.Typed, append(all.Queues, report.Queues...)
	}
	if c.Form != "" {
		body, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			return err
		}
		return c.Out.Emit(append(body, '\n'))
	}
	return printTaken(c, &all)
}

func post(ctx context.Context, s *target, path string, query url.Values, report any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Base+path[1:]+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTaken))
	if err == nil {
		err = json.Unmarshal(body, report)
	}
	return err
}

func printTaken(c *call, all *mirror.Taken) error {
	w := onScreen(c.Out.Stdout)
	for _, q := range all.Queues {
		if q.Before {
			fmt.Fprintf(w, "%s: live before: %d pending, %d consumed\n", q.Queue, q.Pending, q.Consumed)
			continue
		}
		fmt.Fprintf(w, "%s: live: %d pending, %d consumed; the last event seen of %s is %d", q.Queue, q.Pending, q.Consumed, q.Source, q.LastEvent)
		if !q.LastTime.IsZero() {
			fmt.Fprintf(w, " of %s", q.LastTime.Format(time.RFC3339Nano))
		}
		if !q.LastContact.IsZero() {
			fmt.Fprintf(w, "; it last answered at %s", q.LastContact.Format(time.RFC3339Nano))
		}
		fmt.Fprintln(w)
		if q.Unseen > 0 {
			fmt.Fprintf(w, "%s: %d later events are known, and their files were never here\n", q.Queue, q.Unseen)
		}
		if q.Settings {
			fmt.Fprintf(w, "%s: former settings: the original had later ones, which were never here\n", q.Queue)
		}
		for _, id := range q.UnseenJobs {
			fmt.Fprintf(w, "not seen: %s/%s\n", q.Queue, id)
		}
		for _, id := range q.Bare {
			fmt.Fprintf(w, "on hold: %s/%s: %s; cutie release hands it out\n", q.Queue, id, replay.NoJobFile)
		}
		for _, id := range q.Former {
			fmt.Fprintf(w, "former job file: %s/%s: the one of its last event was never here\n", q.Queue, id)
		}
		for _, name := range q.NoResult {
			fmt.Fprintf(w, "no result: %s/%s: it was never here\n", q.Queue, name)
		}
		for _, id := range q.Unfinished {
			fmt.Fprintf(w, "unfinished: %s/%s\n", q.Queue, id)
		}
		if q.Requeued > 0 {
			fmt.Fprintf(w, "%s: %d unfinished jobs are pending again\n", q.Queue, q.Requeued)
		}
	}
	if len(all.Queues) == 0 {
		fmt.Fprintln(w, "no queue is a mirror")
	}
	return nil
}

// handoverVerb gives a home in a store to a standby.
func handoverVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "handover",
		Short: "give a home in a store to a standby",
		Long: `
The owner of a home in a store finishes the changes in progress and gives the home up. A
standby takes it, and the former owner is a standby then. Requests wait meanwhile, about
a tenth of a second, and are sent on to the new owner. Slow uploads are waited for, up to
--grace of cutie serve. If no standby takes the home, the
owner goes on after a few seconds, and the exit code is 5. See cutie help standbys.`,
	}
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		return changeOwner(ctx, c, http.MethodDelete)
	})
}

// maxOwnership is the most octets of an answer.
const maxOwnership = 64 << 10

// changeOwner asks a daemon to take its home, or to give it up.
func changeOwner(ctx context.Context, c *call, method string) error {
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	return c.At(ctx, func(t *target) error {
		req, err := http.NewRequestWithContext(ctx, method, t.Base+daemon.OwnerPath[1:], nil)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/json")
		resp, err := t.Do(req)
		if err != nil {
			if exitCode(err) == exitNotFound {
				err = withHint(err, "this daemon has its home in its directory; of a mirror name the queue, or give --all")
			}
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxOwnership))
		if err != nil {
			return err
		}
		if asJSON {
			return c.Out.Emit(body)
		}
		var o daemon.Ownership
		if err := json.Unmarshal(body, &o); err != nil {
			return err
		}
		_, err = fmt.Fprintf(onScreen(c.Out.Stdout), "%s; the owner is %s, %s\n", o.Role, o.Owner, o.URL)
		return err
	})
}
