package main_test

import (
	"maps"
	"slices"
	"time"

	"cutie/queuefs"
)

// checkSubmissions holds the new jobs against what was submitted: each belongs
// to one operation, an operation is there whole or not at all, and whole if it
// was acknowledged; the jobs of a client come in the order of its operations.
func (l *ledger) checkSubmissions(clients []*loader) {
	l.Helper()
	type key struct{ client, op int }
	found := map[key][]queuefs.JobID{}
	events := map[queuefs.JobID]queuefs.Seq{}
	for _, ev := range l.events {
		if ev.kind != "submit" {
			continue
		}
		k := l.jobs[ev.job].ticket
		at := key{k.client, k.op}
		if k.file != len(found[at]) {
			l.Fatalf("%s is file %d of client %d, operation %d, and follows file %d", ev.job, k.file, k.client, k.op, len(found[at])-1)
		}
		found[at] = append(found[at], ev.job)
		events[ev.job] = ev.seq
	}
	for _, c := range clients {
		last := queuefs.JobID(0)
		for i := range c.log {
			o := &c.log[i]
			if o.kind != opSubmit {
				continue
			}
			ids := found[key{c.number, o.op}]
			delete(found, key{c.number, o.op})
			if o.acked && !slices.Equal(ids, o.ids) {
				l.Fatalf("client %d, operation %d was told %v, there is %v", c.number, o.op, o.ids, ids)
			}
			if len(ids) != 0 && len(ids) != o.files {
				l.Fatalf("client %d, operation %d: of %d files there are %v", c.number, o.op, o.files, ids)
			}
			for _, id := range ids {
				if id <= last {
					l.Fatalf("client %d, operation %d: %s comes after %s", c.number, o.op, id, last)
				}
				last = id
				l.by[events[id]] = []*operation{o}
			}
			if o.number != 0 {
				l.checkEvent(o.number, ids[0], "submit")
			}
		}
	}
	for k, ids := range found {
		l.Fatalf("%v are of client %d, operation %d, which it did not make", ids, k.client, k.op)
	}
}

// checkMoves looks for the event of each acknowledged delete and requeue, and
// for a request behind each event.
func (l *ledger) checkMoves(clients []*loader) {
	l.Helper()
	asked := map[string]map[queuefs.JobID]int{"delete": {}, "requeue": {}}
	for _, c := range clients {
		for i := range c.log {
			o := &c.log[i]
			if o.kind != opDelete && o.kind != opRequeue {
				continue
			}
			kinds := []string{"delete"}
			if o.kind == opRequeue {
				kinds = []string{"requeue", "submit"} // it may have been pending
			}
			if o.done || !o.acked {
				asked[kinds[0]][o.job]++
			}
			// A job that was where it should be has no new event.
			if o.done && o.number > l.replica.seq-queuefs.Seq(len(l.events)) {
				ev := l.checkEvent(o.number, o.job, kinds...)
				// Of several that were told of one event, one made it: not one that
				// came after it.
				if ev.kind == kinds[0] && l.within(o, o.number) {
					l.by[o.number] = append(l.by[o.number], o)
				}
			} else if o.done && l.jobs[o.job] == nil {
				l.Fatalf("client %d, operation %d: %s is gone", c.number, o.op, o.job)
			}
		}
	}
	for _, ev := range l.events {
		if jobs, ok := asked[ev.kind]; ok {
			if jobs[ev.job]--; jobs[ev.job] < 0 {
				l.Fatalf("event %d: nobody asked for %s of %s", ev.seq, ev.kind, ev.job)
			}
		}
	}
}

// checkEvent compares an event with what a client was told.
func (l *ledger) checkEvent(n queuefs.Seq, job queuefs.JobID, kinds ...string) happening {
	l.Helper()
	i := int(n) - int(l.replica.seq) + len(l.events) - 1
	if i < 0 || i >= len(l.events) {
		l.Fatalf("event %d of %s was acknowledged, the last one is %d", n, job, l.replica.seq)
	}
	ev := l.events[i]
	if ev.job != job || !slices.Contains(kinds, ev.kind) {
		l.Fatalf("event %d was acknowledged as %v of %s, it is %s of %s", n, kinds, job, ev.kind, ev.job)
	}
	return ev
}

// checkDeliveries holds what clients were handed against the events. Each
// delivery has an event of its own, those of a client in their order, so that
// no job was handed out twice without an event to put it back between. Events
// without a delivery are of requests that the crash broke off.
func (l *ledger) checkDeliveries(clients []*loader) {
	l.Helper()
	handedOut, delivered, broken := 0, 0, 0
	seen := map[queuefs.JobID]int{}
	for _, c := range clients {
		last := queuefs.Seq(0)
		for i := range c.log {
			o := &c.log[i]
			if o.kind != opConsume {
				continue
			}
			if !o.acked {
				broken += o.most - len(o.got)
			}
			for k, d := range o.got {
				if k > 0 && d.job <= o.got[k-1].job {
					l.Fatalf("client %d, operation %d was handed %s after %s", c.number, o.op, d.job, o.got[k-1].job)
				}
				if j := l.jobs[d.job]; j == nil || j.ticket != d.ticket {
					l.Fatalf("client %d, operation %d was handed %s with the payload of %+v", c.number, o.op, d.job, d.ticket)
				}
				events := l.handedOut[d.job]
				var fit []queuefs.Seq
				for _, seq := range events {
					if seq > last && l.within(o, seq) {
						fit = append(fit, seq)
					}
				}
				if len(fit) == 0 {
					l.Fatalf("client %d, operation %d was handed %s: of events %v none is after event %d and in its time", c.number, o.op, d.job, events, last)
				}
				if last = fit[0]; len(fit) == 1 {
					l.by[last] = []*operation{o}
				} else {
					for _, seq := range fit {
						l.perhaps[seq] = append(l.perhaps[seq], o)
					}
				}
				if seen[d.job]++; seen[d.job] > len(events) {
					l.Fatalf("%s was handed out %d times in %d events", d.job, seen[d.job], len(events))
				}
				delivered++
			}
		}
	}
	for _, events := range l.handedOut {
		handedOut += len(events)
	}
	if handedOut-delivered > broken {
		l.Fatalf("%d jobs were consumed, %d delivered, and requests for only %d were broken off", handedOut, delivered, broken)
	}
}

// within reports whether an event is of the time of an operation.
func (l *ledger) within(o *operation, seq queuefs.Seq) bool {
	const slack = time.Millisecond // events of one instant get times of their own
	at := l.event(seq).at
	return at.After(o.start.Add(-slack)) && (!o.acked || at.Before(o.end.Add(slack)))
}

func (l *ledger) event(seq queuefs.Seq) happening {
	return l.events[len(l.events)-1-int(l.replica.seq-seq)]
}

// brokenOff returns the requests for jobs without a whole answer, by their beginnings. A crash
// or the loss of the home to another daemon broke them off.
func brokenOff(clients []*loader) (broken []*operation) {
	for _, c := range clients {
		for i := range c.log {
			o := &c.log[i]
			if !o.acked && (o.kind == opConsume && len(o.got) < o.most || o.kind == opDelete) {
				broken = append(broken, o)
			}
		}
	}
	slices.SortFunc(broken, func(a, b *operation) int { return a.start.Compare(b.start) })
	return broken
}

// inHand checks the jobs passed that only requests broken off can have had in hand, by the
// times when they were passed first. A request has at most as many as it asked for, at one
// daemon; a client sent on to the next owner asks there again.
func (l *ledger) inHand(broken []*operation, passed map[queuefs.JobID]passing) {
	l.Helper()
	owners := 1
	if l.passes {
		owners = 2
	}
	all := slices.SortedFunc(maps.Values(passed), func(a, b passing) int { return a.at.Compare(b.at) })
	room := 0
	for n, p := range all {
		for len(broken) > 0 && broken[0].start.Before(p.at) {
			room += (broken[0].most - len(broken[0].got)) * owners // a delete has asked for none
			broken = broken[1:]
		}
		if n >= room {
			l.Fatalf("event %d hands out %s, but %s is pending, the %dth job passed so, and requests for only %d were broken off before", p.seq, p.job, p.older, n+1, room)
		}
	}
}

// makers returns the operations of which one made an event. If none is known these are all
// that were broken off.
func (l *ledger) makers(n queuefs.Seq, broken []*operation) []*operation {
	if by := l.by[n]; len(by) > 0 {
		return by
	}
	return slices.Concat(l.perhaps[n], broken)
}

// earliest returns the first operation; nil if there is none.
func earliest(of []*operation) *operation {
	if len(of) == 0 {
		return nil
	}
	return slices.MinFunc(of, func(a, b *operation) int { return a.start.Compare(b.start) })
}

// A passing is an event that hands out a job while an older one is pending.
type passing struct {
	happening
	older queuefs.JobID
}

// checkOrder looks at the passings. Events have the order of the journal;
// consumers choose their jobs a moment before. So a job may pass an older one
// if that came back, or was taken by someone else, in the course of the same
// request. Else the queue is not first in, first out. A request without an answer may have
// had the older job in hand, see inHand.
func (l *ledger) checkOrder(clients []*loader) {
	l.Helper()
	broken := brokenOff(clients)
	excused := map[queuefs.JobID]passing{}
	events := map[queuefs.JobID][]queuefs.Seq{}
	for _, ev := range l.events {
		events[ev.job] = append(events[ev.job], ev.seq)
	}
	for _, p := range l.passed {
		takers := slices.DeleteFunc(slices.Clone(l.makers(p.seq, broken)), func(o *operation) bool { return o.kind != opConsume })
		taker := earliest(takers)
		if taker == nil || taker.start.After(p.at) {
			l.Fatalf("event %d hands out %s, and nobody asked for it", p.seq, p.job)
		}
		came, left := queuefs.Seq(0), queuefs.Seq(0) // 0: not in this round
		own := events[p.older]
		i, _ := slices.BinarySearch(own, p.seq)
		if i > 0 {
			came = own[i-1]
		}
		if i < len(own) {
			left = own[i]
		}
		if came != 0 {
			if len(l.by[came]) == 0 || slices.ContainsFunc(l.by[came], func(o *operation) bool { return !o.acked || o.end.After(taker.start) }) {
				continue
			}
		}
		if left != 0 {
			if slices.ContainsFunc(l.makers(left, broken), func(o *operation) bool { return o.start.Before(p.at) }) {
				continue
			}
		}
		if left == 0 || l.passes { // the kill came between the choice and the event, or another owner
			deletes := func(o *operation) bool { return o.kind == opDelete && o.job == p.older && o.start.Before(p.at) }
			if slices.ContainsFunc(broken, deletes) {
				continue
			}
			if was, ok := excused[p.older]; !ok || p.at.Before(was.at) {
				excused[p.older] = p
			}
			continue
		}
		held := ""
		for _, c := range clients {
			for _, o := range c.log {
				if o.kind == opRequeue && o.job == p.older && o.start.Before(p.at) && (!o.acked || o.end.After(taker.start)) {
					held = ", where a requeue left it"
				}
			}
		}
		l.Fatalf("event %d hands out %s, requested at %v, but %s is pending from event %d to event %d%s",
			p.seq, p.job, taker.start, p.older, came, left, held)
	}
	l.inHand(broken, excused)
}
