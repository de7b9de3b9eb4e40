package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
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

// listJobs prints a line for each job: only its identifier if quiet is set. It
// prints them as they come, so that a long list takes no more memory than a
// short one.
func (c *call) listJobs(ctx context.Context, t target, queue string, page rest.Page, quiet bool) error {
	left := page.Limit
	switch {
	case left < 0:
		return c.emit(nil)
	case left == 0:
		left = state.DefaultJobs
	}
	l := c.listing()
	defer l.discard()
	jobs := t.Jobs
	if quiet {
		l.people = false
		if page.Submitter == "" {
			jobs = identifiers(t) // which no job file is read for
		}
	}
	l.heading("JOB", "STATUS", "SIZE", "SUBMITTED", "NOTE", "FILENAME")
	// One more is asked for, to see whether there is one.
	page.Limit = left + 1
	var last queuefs.JobID
	more := false
	for j, err := range jobs(ctx, queue, page) {
		if err != nil {
			return about(queue, err)
		}
		if more = left == 0; more {
			break
		}
		left, last = left-1, j.ID
		if quiet {
			l.row(j.ID.String())
		} else {
			l.row(j.ID.String(), j.Status.String(), l.size(j.Size), l.date(j.Submitted), note(&j), j.Filename)
		}
		if err := l.spill(c); err != nil {
			return err
		}
	}
	err := l.print(c)
	if err == nil && more {
		c.warnf("%s: there are more, --after %s lists them", queue, last)
	}
	return err
}

// identifiers is [target.Jobs] of a target that is asked for identifiers alone.
func identifiers(t target) func(context.Context, string, rest.Page) iter.Seq2[queuefs.Job, error] {
	return func(ctx context.Context, queue string, page rest.Page) iter.Seq2[queuefs.Job, error] {
		return func(yield func(queuefs.Job, error) bool) {
			for left, more := page.Limit, true; left > 0 && more; {
				page.Limit = min(left, state.MaxJobs)
				q, err := t.Queue(ctx, queue, page)
				if err != nil {
					yield(queuefs.Job{}, err)
					return
				}
				for _, id := range q.Jobs.IDs {
					if !yield(queuefs.Job{ID: id}, nil) {
						return
					}
					page.After = id
				}
				left, more = left-len(q.Jobs.IDs), q.Jobs.More && len(q.Jobs.IDs) > 0
			}
		}
	}
}

func lines(words []string) []byte {
	var b bytes.Buffer
	for _, w := range words {
		b.WriteString(w + "\n")
	}
	return b.Bytes()
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
	out    *result // that rows were written to already; nil if there is none
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
		if l.people {
			fields[i] = printable(f)
			continue
		}
		fields[i] = strings.Map(func(r rune) rune {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				return '?'
			}
			return r
		}, f)
	}
	l.rows = append(l.rows, fields)
}

// spillRows is how many rows are gathered before they are written. A table for
// people is aligned so many rows at a time.
const spillRows = 1000

// spill writes the rows so far if they are many. It is for lists that have no
// end in sight; discard is to follow.
func (l *listing) spill(c *call) error {
	if len(l.rows) < spillRows {
		return nil
	}
	if c.output != "" && l.out == nil {
		var err error
		if l.out, err = createResult(c.output); err != nil {
			return err
		}
	}
	return l.flush(c)
}

// print writes what was listed.
func (l *listing) print(c *call) error {
	if l.out == nil {
		if c.output != "" {
			return c.emit(l.text(c))
		}
		return l.flush(c)
	}
	if err := l.flush(c); err != nil {
		return err
	}
	out := l.out
	l.out = nil
	return out.Commit()
}

// discard takes away an output that was not printed to its end.
func (l *listing) discard() {
	if l.out != nil {
		l.out.Discard()
	}
}

func (l *listing) flush(c *call) (err error) {
	if l.out != nil {
		_, err = l.out.Write(l.text(c))
	} else {
		_, err = c.stdout.Write(l.text(c))
	}
	l.rows = l.rows[:0]
	return err
}

func (l *listing) text(c *call) []byte {
	var b bytes.Buffer
	if l.people {
		align(&b, l.rows, width(c.stdout))
		return b.Bytes()
	}
	for _, r := range l.rows {
		b.WriteString(strings.Join(r, "\t") + "\n")
	}
	return b.Bytes()
}
