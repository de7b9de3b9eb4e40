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
	"slices"
	"testing"
	"time"

	"cutie/queuefs/job"
)

// A ledger knows what every job must be, from the published events and from
// what the clients were told, and holds the two against each other.
type ledger struct {
	testing.TB
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

// replay brings the accounts up to date. Which of the pending jobs is handed out first is for
// the tests of queuefs: here many ask at a time.
func (l *ledger) replay() {
	l.Helper()
	l.handedOut = map[job.ID][]job.Seq{}
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
				l.checkEvent(o.number, o.job, kinds...)
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
func (l *ledger) checkEvent(n job.Seq, job job.ID, kinds ...string) {
	l.Helper()
	i := int(n) - int(l.replica.seq) + len(l.events) - 1
	if i < 0 || i >= len(l.events) {
		l.Fatalf("event %d of %s was acknowledged, the last one is %d", n, job, l.replica.seq)
	}
	ev := l.events[i]
	if ev.job != job || !slices.Contains(kinds, ev.kind) {
		l.Fatalf("event %d was acknowledged as %v of %s, it is %s of %s", n, kinds, job, ev.kind, ev.job)
	}
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
				n := slices.IndexFunc(events, func(seq job.Seq) bool { return seq > last && l.within(o, seq) })
				if n < 0 {
					l.Fatalf("client %d, operation %d was handed %s: of events %v none is after event %d and in its time", c.number, o.op, d.job, events, last)
				}
				last = events[n]
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
	at := l.events[len(l.events)-1-int(l.replica.seq-seq)].at
	return at.After(o.start.Add(-slack)) && (!o.acked || at.Before(o.end.Add(slack)))
}
