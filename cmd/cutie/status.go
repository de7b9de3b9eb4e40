package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/state"
)

// statusVerb shows the queues of a service (Cutie 0.3, 5.2).
func statusVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Aliases: []string{"getServiceState"},
		Short:   "list the queues, or show the service",
		Long: `
Lists the queues: as a table on a terminal, as lines of tab-separated fields
elsewhere (queue, pending, consumed, deleted, last event, held, leased, failed,
status). Held jobs are pending; leased and failed jobs are consumed. If the daemon
refuses requests, such as on a full disk, standard error says why. It names the
queues that are not served because their directories are lost.

With -t, and called as getServiceState, it prints the state of the service.`,
		Example: `cutie status
cutie status -q
cutie getServiceState -t json`,
	}
	quiet := cmd.Flags().BoolP("quiet", "q", false, "print the identifiers of the queues only")
	return c.Verb(cmd, optTarget|optReads|optForm|optOutput, func(ctx context.Context) error {
		list := *quiet || c.Form == "" && c.Word() != "getservicestate"
		return serviceState(ctx, c, list, *quiet)
	})
}

func serviceState(ctx context.Context, c *call, list, quiet bool) error {
	form, err := c.ResponseForm()
	if err != nil {
		return err
	}
	return c.At(ctx, func(t *reach.Target) error {
		if list {
			return listQueues(ctx, c, t, quiet)
		}
		text, err := t.State(ctx, form, "", "")
		if err != nil {
			return err
		}
		return c.Out.Emit(text)
	})
}

// listQueues prints a line for each queue.
func listQueues(ctx context.Context, c *call, t *reach.Target, quiet bool) error {
	s, err := t.Service(ctx)
	if err != nil {
		return err
	}
	if quiet {
		return c.Out.Lines(s.Queues)
	}
	l := c.Out.Table("QUEUE", "PENDING", "CONSUMED", "DELETED", "LAST EVENT", "HELD", "LEASED", "FAILED", "STATUS")
	defer l.Discard()
	for _, id := range s.Queues {
		q, err := t.Queue(ctx, id, bulk.Filter{Limit: -1})
		if errors.Is(err, queuefs.ErrNoQueue) {
			continue // removed since
		}
		if err != nil {
			return fault.About(id, err)
		}
		err = l.Row(id, q.Pending, q.Consumed, q.Deleted, l.Date(q.LastEvent), q.Held, q.Leased, q.Failed, queueStatus(&q))
		if err != nil {
			return err
		}
	}
	if err := l.End(); err != nil {
		return err
	}
	for _, id := range s.Lost {
		c.Warnf("%v", &queuefs.LostError{Queue: id})
	}
	if why := t.Trouble(ctx); why != "" {
		c.Warnf("the daemon is not ready: %s; cutie doctor has the cure", why)
	}
	return nil
}

// summarize prints an object for each queue.
func summarize(ctx context.Context, c *call, t *reach.Target) error {
	s, err := t.Service(ctx)
	if err != nil {
		return err
	}
	var facts []state.Document
	for _, id := range s.Queues {
		q, err := t.Queue(ctx, id, bulk.Filter{Limit: -1})
		if errors.Is(err, queuefs.ErrNoQueue) {
			continue // removed since
		}
		if err != nil {
			return fault.About(id, err)
		}
		status := "running"
		if !q.Info.Paused.IsZero() {
			status = "paused"
		}
		facts = append(facts, state.OfFacts(state.SummaryClass, id, q.Pending, q.Consumed, q.Deleted, q.LastEvent,
			q.Held, q.Leased, q.Failed, status, q.Info.Closed))
	}
	return c.Facts(true, facts...)
}

// queueStatus is running, paused, closed, or the latter two.
func queueStatus(q *state.Queue) string {
	var all []string
	if !q.Info.Paused.IsZero() {
		all = append(all, "paused")
	}
	if q.Info.Closed {
		all = append(all, "closed")
	}
	if len(all) == 0 {
		return "running"
	}
	return strings.Join(all, ", ")
}
