package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// listQueues prints a line for each queue.
func (c *call) listQueues(ctx context.Context, t target, quiet bool) error {
	s, err := t.Service(ctx)
	if err != nil {
		return err
	}
	if quiet {
		return c.emit(lines(s.Queues))
	}
	l := c.listing()
	l.heading("QUEUE", "PENDING", "CONSUMED", "DELETED", "LAST EVENT", "HELD", "LEASED", "FAILED", "STATUS")
	for _, id := range s.Queues {
		q, err := t.Queue(ctx, id, rest.Page{Limit: -1})
		if errors.Is(err, queuefs.ErrNoQueue) {
			continue // removed since
		}
		if err != nil {
			return about(id, err)
		}
		l.row(id, fmt.Sprint(q.Pending), fmt.Sprint(q.Consumed), fmt.Sprint(q.Deleted), l.date(q.LastEvent),
			fmt.Sprint(q.Held), fmt.Sprint(q.Leased), fmt.Sprint(q.Failed), queueStatus(&q))
	}
	return l.print(c)
}

// queueStatus is what a queue does: running, paused or closed, or the latter
// two.
func queueStatus(q *state.Queue) string {
	switch paused := !q.Info.Paused.IsZero(); {
	case paused && q.Info.Closed:
		return "paused, closed"
	case paused:
		return "paused"
	case q.Info.Closed:
		return "closed"
	}
	return "running"
}

// listJobs prints a line for each job, page after page: only its identifier if
// quiet is set.
func (c *call) listJobs(ctx context.Context, t target, queue string, page rest.Page, quiet bool) error {
	left := page.Limit
	if left == 0 {
		left = state.DefaultJobs
	}
	l := c.listing()
	l.heading("JOB", "STATUS", "SIZE", "SUBMITTED", "NOTE", "FILENAME")
	var ids []string
	more := false
	for left > 0 {
		page.Limit = min(left, state.MaxJobs)
		q, err := t.Queue(ctx, queue, page)
		if err != nil {
			return about(queue, err)
		}
		n := len(q.Jobs.IDs)
		if n > 0 {
			page.After = q.Jobs.IDs[n-1]
		}
		left, more = left-n, q.Jobs.More
		if quiet {
			for _, id := range q.Jobs.IDs {
				ids = append(ids, id.String())
			}
		} else if err := l.jobs(ctx, t, queue, q.Jobs.IDs); err != nil {
			return about(queue, err)
		}
		if n == 0 || !more {
			break
		}
	}
	err := error(nil)
	if quiet {
		err = c.emit(lines(ids))
	} else {
		err = l.print(c)
	}
	if err == nil && more && page.After != 0 {
		c.warnf("%s: there are more, --after %s lists them", queue, page.After)
	}
	return err
}

func lines(words []string) []byte {
	var b bytes.Buffer
	for _, w := range words {
		b.WriteString(w + "\n")
	}
	return b.Bytes()
}

// jobs adds a row for each of these jobs, but for those culled meanwhile.
func (l *listing) jobs(ctx context.Context, t target, queue string, ids []queuefs.JobID) error {
	jobs, err := t.Jobs(ctx, queue, ids)
	for i := range jobs {
		j := &jobs[i]
		l.row(j.ID.String(), j.Status.String(), l.size(j.Size), l.date(j.Submitted), note(j), j.Filename)
	}
	return err
}

// note is what is to be known of a job besides its status, in one word.
func note(j *queuefs.Job) string {
	switch {
	case !j.Held.IsZero():
		return "held"
	case !j.Lease.Ends.IsZero():
		return "leased"
	case j.Outcome != 0:
		return j.Outcome.String()
	}
	return "-"
}

// A listing prints rows: for people, on a terminal, aligned below a heading
// with short dates and sizes, no wider than the terminal; otherwise one row a
// line, exact, the fields separated by tabs.
type listing struct {
	people bool
	rows   [][]string
}

func (c *call) listing() *listing {
	return &listing{people: c.output == "" && terminal(c.stdout)}
}

func (l *listing) heading(names ...string) {
	if l.people {
		l.row(names...)
	}
}

func (l *listing) row(fields ...string) {
	for i, f := range fields {
		// A name from outside cannot break the form, nor the terminal.
		fields[i] = strings.Map(func(r rune) rune {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				return '?'
			}
			return r
		}, f)
	}
	l.rows = append(l.rows, fields)
}

// print writes what was listed.
func (l *listing) print(c *call) error {
	var b bytes.Buffer
	if l.people {
		align(&b, l.rows, width(c.stdout))
	} else {
		for _, r := range l.rows {
			b.WriteString(strings.Join(r, "\t") + "\n")
		}
	}
	return c.emit(b.Bytes())
}
