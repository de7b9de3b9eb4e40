package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// A listing prints rows: for people, on a terminal, aligned below a heading
// with short dates and sizes; otherwise one row a line, exact, the fields
// separated by tabs.
type listing struct {
	people bool
	buf    bytes.Buffer
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
		// A name from outside cannot break the form.
		fields[i] = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return '?'
			}
			return r
		}, f)
	}
	l.buf.WriteString(strings.Join(fields, "\t") + "\n")
}

func (l *listing) date(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case l.people:
		return t.Local().Format("2006-01-02 15:04:05")
	}
	return queuefs.FormatTime(t)
}

func (l *listing) size(n int64) string {
	if !l.people || n < 1000 {
		return fmt.Sprint(n)
	}
	f, unit := float64(n), 0
	for f >= 999.5 {
		f /= 1000
		unit++
	}
	return fmt.Sprintf("%.3g %cB", f, " kMGTPE"[unit])
}

// print writes what was listed.
func (l *listing) print(c *call) error {
	if !l.people {
		return c.emit(l.buf.Bytes())
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	if _, err := w.Write(l.buf.Bytes()); err != nil {
		return err
	}
	return w.Flush()
}

// listQueues prints a line for each queue.
func (c *call) listQueues(ctx context.Context, t target) error {
	s, err := t.Service(ctx)
	if err != nil {
		return err
	}
	l := c.listing()
	l.heading("QUEUE", "PENDING", "CONSUMED", "DELETED", "LAST EVENT")
	for _, id := range s.Queues {
		q, err := t.Queue(ctx, id, rest.Page{Limit: -1})
		if err != nil {
			return about(id, err)
		}
		l.row(id, fmt.Sprint(q.Pending), fmt.Sprint(q.Consumed), fmt.Sprint(q.Deleted), l.date(q.LastEvent))
	}
	return l.print(c)
}

// listJobs prints a line for each job of a page.
func (c *call) listJobs(ctx context.Context, t target, queue string, page rest.Page) error {
	q, err := t.Queue(ctx, queue, page)
	if err != nil {
		return about(queue, err)
	}
	l := c.listing()
	l.heading("JOB", "STATUS", "SIZE", "SUBMITTED", "FILENAME")
	for _, id := range q.Jobs.IDs {
		j, err := t.Job(ctx, queue, id.String())
		if errors.Is(err, queuefs.ErrNoJob) {
			continue // culled since
		}
		if err != nil {
			return about(queue, err)
		}
		l.row(id.String(), j.Status.String(), l.size(j.Size), l.date(j.Submitted), j.Filename)
	}
	if err := l.print(c); err != nil {
		return err
	}
	if n := len(q.Jobs.IDs); q.Jobs.More && n > 0 {
		c.warnf("%s: there are more, --after %s lists them", queue, q.Jobs.IDs[n-1])
	}
	return nil
}
