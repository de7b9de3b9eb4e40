package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"runtime"
	"slices"
	"testing"
	"time"

	"cutie/queuefs/job"
)

// A ledger knows what every job must be, from the published events and from
// what the clients were told, and holds the two against each other.
type ledger struct {
	testing.TB
	passes           bool // the home passes to other daemons, and jobs in hand at the former one are free again
	get              func(path string) ([]byte, error)
	client           *http.Client
	base             string
	pending, replica follower
	jobs             map[job.ID]*account
	last             job.ID
	at               time.Time // of the last event
	queue            []job.ID

	events []happening // of this round
	// By job, of this round: events that handed it out.
	handedOut map[job.ID][]job.Seq
	// Operations of which one made an event, as far as they are known.
	by      map[job.Seq][]*operation
	perhaps map[job.Seq][]*operation // the same, but it may have been one broken off
	passed  []passing
}

// An account is a job as the events leave it.
type account struct {
	status string
	file   string // SHA-256 of the job file
	ticket ticket
}

func newLedger(t testing.TB, c *http.Client, base string) *ledger {
	get := getter(c, base)
	return &ledger{TB: t, get: get, client: c, base: base, jobs: map[job.ID]*account{},
		pending: follower{set: "pending", get: get, closed: map[string][sha256.Size]byte{}},
		replica: follower{set: "replica", get: get, closed: map[string][sha256.Size]byte{}}}
}

// round checks a daemon that nobody uses against what its clients know of the
// round before.
func (l *ledger) round(clients []*loader, w *watcher) {
	l.Helper()
	l.pending.seen, l.replica.seen = w.entries["pending"], w.entries["replica"]
	l.readEvents()
	for _, f := range []*follower{&l.pending, &l.replica} {
		if _, err := f.packages(false); err != nil {
			l.Errorf("packages of %s: %v", f.set, err)
		}
	}
	l.replay()
	l.checkStatuses()
	l.checkBaselines(w)
	l.fetchTouched()
	l.checkSubmissions(clients)
	l.checkMoves(clients)
	l.checkDeliveries(clients)
	l.checkOrder(clients)
}

// readEvents reads both sets, which must tell the same story.
func (l *ledger) readEvents() {
	l.Helper()
	pending, err := l.pending.events()
	if err != nil {
		l.Fatalf("pending: %v", err)
	}
	l.events, err = l.replica.events()
	if err != nil {
		l.Fatalf("replica: %v", err)
	}
	if len(pending) != len(l.events) {
		l.Fatalf("%d events in the set pending, %d in the set replica", len(pending), len(l.events))
	}
	for i, ev := range l.events {
		p := pending[i]
		if p.seq != ev.seq || p.kind != ev.kind || p.job != ev.job || !p.at.Equal(ev.at) {
			l.Fatalf("event in the set pending %+v, in the set replica %+v", p, ev)
		}
	}
}

// replay brings the accounts up to date, and notes which jobs were handed out
// while older ones were pending.
func (l *ledger) replay() {
	l.Helper()
	l.handedOut = map[job.ID][]job.Seq{}
	l.passed = l.passed[:0]
	l.by, l.perhaps = map[job.Seq][]*operation{}, map[job.Seq][]*operation{}
	for _, ev := range l.events {
		if !ev.at.After(l.at) {
			l.Fatalf("event %d at %v is not after %v", ev.seq, ev.at, l.at)
		}
		l.at = ev.at
		j := l.jobs[ev.job]
		if ev.kind == "submit" {
			if j != nil || ev.job <= l.last {
				l.Fatalf("event %d: %s is submitted after %s", ev.seq, ev.job, l.last)
			}
			l.jobs[ev.job] = &account{status: "pending", file: ev.file}
			l.last = ev.job
			l.queue = append(l.queue, ev.job)
			continue
		}
		if j == nil {
			l.Fatalf("event %d: %s of %s, which was never submitted", ev.seq, ev.kind, ev.job)
		}
		i, waits := slices.BinarySearch(l.queue, ev.job)
		if waits != (ev.kind != "requeue") {
			l.Fatalf("event %d: %s of %s, which is %s", ev.seq, ev.kind, ev.job, j.status)
		}
		j.file = ev.file
		switch ev.kind {
		case "requeue":
			j.status = "pending"
			l.queue = slices.Insert(l.queue, i, ev.job)
		case "consume":
			for _, older := range l.queue[:i] {
				l.passed = append(l.passed, passing{ev, older})
			}
			j.status = "consumed"
			l.queue = slices.Delete(l.queue, i, i+1)
			l.handedOut[ev.job] = append(l.handedOut[ev.job], ev.seq)
		case "delete":
			j.status = "deleted"
			l.queue = slices.Delete(l.queue, i, i+1)
		}
	}
}

// queueAnswer is what is read of a queue state.
type queueAnswer struct {
	Sequence job.Seq  `json:"sequence"`
	Refs     []string `json:"jobStates"`
}

func (l *ledger) state(query string) (a queueAnswer) {
	l.Helper()
	text, err := l.get("state/jobs?t=json&" + query)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	must(l, err)
	return a
}

// checkStatuses compares the accounts with the state of the queue.
func (l *ledger) checkStatuses() {
	l.Helper()
	if got, want := l.state("limit=0").Sequence, l.replica.seq; got != want {
		l.Fatalf("last event of the queue is %d, the last one published %d", got, want)
	}
	want := map[string][]job.ID{}
	for _, id := range slices.Sorted(maps.Keys(l.jobs)) {
		st := l.jobs[id].status
		want[st] = append(want[st], id)
	}
	if !slices.Equal(l.queue, want["pending"]) {
		l.Fatal("the accounts are wrong")
	}
	for _, st := range []string{"pending", "consumed", "deleted"} {
		if got := l.list(st); !slices.Equal(got, want[st]) {
			l.Fatalf("%s: the queue has %d jobs, by the published events it is %d", st, len(got), len(want[st]))
		}
	}
}

// list returns the jobs of a status, as the service lists them.
func (l *ledger) list(status string) (ids []job.ID) {
	l.Helper()
	after := ""
	for {
		refs := l.state("status=" + status + "&limit=1000" + after).Refs
		if len(refs) == 0 {
			return ids
		}
		for _, ref := range refs {
			id, err := job.ParseID(path.Base(ref))
			must(l, err)
			ids = append(ids, id)
		}
		after = "&after=" + path.Base(refs[len(refs)-1])
	}
}

// checkBaselines compares the pending set with the Resource List of now, and
// with one taken under load and followed by the Change Lists.
func (l *ledger) checkBaselines(w *watcher) {
	l.Helper()
	pages, err := fetchBaseline(l.get)
	must(l, err)
	for name, pages := range map[string][][]byte{"now": pages, "under load": w.baseline} {
		if pages == nil {
			continue
		}
		b, err := parseBaseline(pages)
		must(l, err)
		for _, ev := range l.events {
			if !ev.at.After(b.at) {
				continue
			}
			if ev.kind == "submit" || ev.kind == "requeue" {
				b.jobs[ev.job] = ""
			} else {
				delete(b.jobs, ev.job)
			}
		}
		if got := slices.Sorted(maps.Keys(b.jobs)); !slices.Equal(got, l.queue) {
			l.Fatalf("resource list %s and changes since %v: %d jobs are pending, want %d", name, b.at, len(got), len(l.queue))
		}
		for id, sum := range b.jobs {
			if k := l.jobs[id].ticket; sum != "" && k.files > 0 && sum != hexSum(k.payload()) {
				l.Fatalf("resource list %s: %s has another digest", name, id)
			}
		}
	}
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// fetchTouched compares payload, sidecar and job file of each job that had an
// event with what they must be.
func (l *ledger) fetchTouched() {
	l.Helper()
	touched := map[job.ID]bool{}
	for _, ev := range l.events {
		touched[ev.job] = true
	}
	l.fetch(slices.Collect(maps.Keys(touched)))
}

// fetch reads jobs, several at a time.
func (l *ledger) fetch(ids []job.ID) {
	l.Helper()
	const workers = 8
	errs := make(chan error, workers)
	for n := range workers {
		go func() {
			var err error
			for i := n; i < len(ids) && err == nil; i += workers {
				err = l.fetchJob(ids[i])
			}
			errs <- err
		}()
	}
	for range workers {
		if err := <-errs; err != nil {
			l.Error(err)
		}
	}
	if l.Failed() {
		l.FailNow()
	}
}

func (l *ledger) fetchJob(id job.ID) error {
	j := l.jobs[id]
	r, err := http.NewRequest("GET", l.base+"content/jobs/"+id.String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/octet-stream")
	resp, err := l.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	payload, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %v", id, resp.Status, err)
	}
	sidecar, err := url.PathUnescape(resp.Header.Get("Cutie-Sidecar"))
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	k, err := parseTicket(payload, sidecar)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	if j.ticket.files > 0 && k != j.ticket {
		return fmt.Errorf("%s: %+v was %+v", id, k, j.ticket)
	}
	j.ticket = k
	file, err := l.get("queues/jobs/" + j.status + "/" + id.String())
	if err != nil {
		return err
	}
	if got := hexSum(file); got != j.file {
		return fmt.Errorf("%s/%s: digest %s, published %s", j.status, id, got, j.file)
	}
	return nil
}

// checkSubmissions holds the new jobs against what was submitted: each belongs
// to one operation, an operation is there whole or not at all, and whole if it
// was acknowledged; the jobs of a client come in the order of its operations.
func (l *ledger) checkSubmissions(clients []*loader) {
	l.Helper()
	type key struct{ client, op int }
	found := map[key][]job.ID{}
	events := map[job.ID]job.Seq{}
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
		last := job.ID(0)
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
	asked := map[string]map[job.ID]int{"delete": {}, "requeue": {}}
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
			if o.done && o.number > l.replica.seq-job.Seq(len(l.events)) {
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
func (l *ledger) checkEvent(n job.Seq, job job.ID, kinds ...string) happening {
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
	seen := map[job.ID]int{}
	for _, c := range clients {
		last := job.Seq(0)
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
				var fit []job.Seq
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
func (l *ledger) within(o *operation, seq job.Seq) bool {
	const slack = time.Millisecond // events of one instant get times of their own
	at := l.event(seq).at
	return at.After(o.start.Add(-slack)) && (!o.acked || at.Before(o.end.Add(slack)))
}

func (l *ledger) event(seq job.Seq) happening {
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
func (l *ledger) inHand(broken []*operation, passed map[job.ID]passing) {
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
func (l *ledger) makers(n job.Seq, broken []*operation) []*operation {
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
	older job.ID
}

// checkOrder looks at the passings. Events have the order of the journal;
// consumers choose their jobs a moment before. So a job may pass an older one
// if that came back, or was taken by someone else, in the course of the same
// request. Else the queue is not first in, first out. A request without an answer may have
// had the older job in hand, see inHand.
func (l *ledger) checkOrder(clients []*loader) {
	l.Helper()
	broken := brokenOff(clients)
	excused := map[job.ID]passing{}
	events := map[job.ID][]job.Seq{}
	for _, ev := range l.events {
		events[ev.job] = append(events[ev.job], ev.seq)
	}
	for _, p := range l.passed {
		takers := slices.DeleteFunc(slices.Clone(l.makers(p.seq, broken)), func(o *operation) bool { return o.kind != opConsume })
		taker := earliest(takers)
		if taker == nil || taker.start.After(p.at) {
			l.Fatalf("event %d hands out %s, and nobody asked for it", p.seq, p.job)
		}
		came, left := job.Seq(0), job.Seq(0) // 0: not in this round
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
	event := func(seq job.Seq, kind string, job job.ID, ms int) happening {
		return happening{seq: seq, kind: kind, job: job, at: at(ms)}
	}
	submit := func(op int, jobID job.ID, ms int) operation {
		return operation{kind: opSubmit, op: op, start: at(ms - 1), end: at(ms + 1), acked: true, files: 1, ids: []job.ID{jobID}, number: job.Seq(jobID)}
	}
	remove := func(op int, job job.ID, seq job.Seq, from, to int) operation {
		return operation{kind: opDelete, op: op, start: at(from), end: at(to), acked: true, job: job, done: true, number: seq}
	}
	take := func(job job.ID, from, to int) *loader {
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
