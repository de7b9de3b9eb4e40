package main_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"cutie/queuefs"
)

// A complaint records that a ledger finds fault, and ends its goroutine.
type complaint struct {
	testing.TB
	text string
}

func (c *complaint) Helper() {}
func (c *complaint) Fatalf(format string, a ...any) {
	c.text = fmt.Sprintf(format, a...)
	runtime.Goexit()
}

// Consumers choose their jobs before their events are in the journal. The ledger complains
// of an order that no choice explains, and of no other.
func TestTheLedgerKnowsWhatOrderMeans(t *testing.T) {
	t.Parallel()
	zero := time.Unix(1_700_000_000, 0)
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	event := func(seq queuefs.Seq, kind string, job queuefs.JobID, ms int) happening {
		return happening{seq: seq, kind: kind, job: job, at: at(ms)}
	}
	submit := func(op int, job queuefs.JobID, ms int) operation {
		return operation{kind: opSubmit, op: op, start: at(ms - 1), end: at(ms + 1), acked: true, files: 1, ids: []queuefs.JobID{job}, number: queuefs.Seq(job)}
	}
	remove := func(op int, job queuefs.JobID, seq queuefs.Seq, from, to int) operation {
		return operation{kind: opDelete, op: op, start: at(from), end: at(to), acked: true, job: job, done: true, number: seq}
	}
	take := func(job queuefs.JobID, from, to int) *loader {
		return &loader{number: 1, log: []operation{{kind: opConsume, start: at(from), end: at(to), acked: true, most: 1,
			got: []delivery{{job, ticket{client: 0, op: int(job), files: 1}}}}}}
	}
	broken := func(c *loader) *loader {
		c.log = append(c.log, operation{kind: opConsume, start: at(38), most: 1})
		return c
	}
	// Job 1 is deleted by event 4, job 2 is taken by event 3.
	passed := []happening{event(1, "submit", 1, 10), event(2, "submit", 2, 20), event(3, "consume", 2, 40), event(4, "delete", 1, 50)}
	// Jobs 1 and 2 are passed by job 3.
	two := []happening{event(1, "submit", 1, 10), event(2, "submit", 2, 11), event(3, "submit", 3, 12), event(4, "consume", 3, 40)}
	twice := append(slices.Clone(two), event(5, "submit", 4, 50), event(6, "consume", 4, 60))
	for name, c := range map[string]struct {
		events  []happening
		deletes []operation
		taker   *loader
		passes  bool
		wrong   bool
	}{
		"the delete had chosen before":       {passed, []operation{remove(3, 1, 4, 30, 51)}, take(2, 35, 41), false, false},
		"it was asked for again later":       {passed, []operation{remove(3, 1, 4, 30, 51), remove(4, 1, 4, 60, 61)}, take(2, 35, 41), false, false},
		"nobody had job 1 in hand":           {passed, []operation{remove(3, 1, 4, 45, 51)}, take(2, 35, 41), false, true},
		"asked for again, and nobody had it": {passed, []operation{remove(3, 1, 4, 45, 51), remove(4, 1, 4, 60, 61)}, take(2, 35, 41), false, true},
		"job 1 stays":                        {passed[:3], nil, take(2, 35, 41), false, true},
		"a lost owner had chosen it":         {passed, []operation{remove(3, 1, 4, 45, 51)}, broken(take(2, 35, 41)), true, false},
		"one owner alone cannot":             {passed, []operation{remove(3, 1, 4, 45, 51)}, broken(take(2, 35, 41)), false, true},
		"and job 1 stays":                    {passed[:3], nil, broken(take(2, 35, 41)), false, false},
		"one request had one in hand":        {two, nil, broken(take(3, 35, 41)), false, true},
		"two had two":                        {two, nil, broken(broken(take(3, 35, 41))), false, false},
		"one at each of two owners":          {two, nil, broken(take(3, 35, 41)), true, false},
		"an event of nobody":                 {twice, nil, broken(broken(take(3, 35, 41))), false, false},
	} {
		heard := &complaint{TB: t}
		l := newLedger(heard, nil, "")
		l.events, l.passes = c.events, c.passes
		l.replica.seq = c.events[len(c.events)-1].seq
		var submits []operation
		for _, ev := range c.events {
			if ev.kind == "submit" {
				submits = append(submits, submit(int(ev.job), ev.job, int(ev.at.Sub(zero).Milliseconds())))
				submits[len(submits)-1].number = ev.seq
			}
		}
		clients := []*loader{{log: append(submits, c.deletes...)}, c.taker}
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.replay()
			for id := range l.jobs {
				l.jobs[id].ticket = ticket{client: 0, op: int(id), files: 1}
			}
			l.checkSubmissions(clients)
			l.checkMoves(clients)
			l.checkDeliveries(clients)
			l.checkOrder(clients)
		}()
		<-done
		if (heard.text != "") != c.wrong {
			t.Errorf("%s: got %q, want a complaint: %v", name, heard.text, c.wrong)
		}
	}
}
