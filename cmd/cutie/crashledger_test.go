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

	"cutie/queuefs"
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
	jobs             map[queuefs.JobID]*account
	last             queuefs.JobID
	at               time.Time // of the last event
	queue            []queuefs.JobID

	events []happening // of this round
	// By job, of this round: events that handed it out.
	handedOut map[queuefs.JobID][]queuefs.Seq
	// Operations of which one made an event, as far as they are known.
	by      map[queuefs.Seq][]*operation
	perhaps map[queuefs.Seq][]*operation // the same, but it may have been one broken off
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
	return &ledger{TB: t, get: get, client: c, base: base, jobs: map[queuefs.JobID]*account{},
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
	l.handedOut = map[queuefs.JobID][]queuefs.Seq{}
	l.passed = l.passed[:0]
	l.by, l.perhaps = map[queuefs.Seq][]*operation{}, map[queuefs.Seq][]*operation{}
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
	Sequence queuefs.Seq `json:"sequence"`
	Refs     []string    `json:"jobStates"`
}

func (l *ledger) state(query string) (a queueAnswer) {
	l.Helper()
	text, err := l.get("state/jobs?t=json&" + query)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		l.Fatal(err)
	}
	return a
}

// checkStatuses compares the accounts with the state of the queue.
func (l *ledger) checkStatuses() {
	l.Helper()
	if got, want := l.state("limit=0").Sequence, l.replica.seq; got != want {
		l.Fatalf("last event of the queue is %d, the last one published %d", got, want)
	}
	want := map[string][]queuefs.JobID{}
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
func (l *ledger) list(status string) (ids []queuefs.JobID) {
	l.Helper()
	after := ""
	for {
		refs := l.state("status=" + status + "&limit=1000" + after).Refs
		if len(refs) == 0 {
			return ids
		}
		for _, ref := range refs {
			id, err := queuefs.ParseJobID(path.Base(ref))
			if err != nil {
				l.Fatal(err)
			}
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
	if err != nil {
		l.Fatal(err)
	}
	for name, pages := range map[string][][]byte{"now": pages, "under load": w.baseline} {
		if pages == nil {
			continue
		}
		b, err := parseBaseline(pages)
		if err != nil {
			l.Fatal(err)
		}
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
	touched := map[queuefs.JobID]bool{}
	for _, ev := range l.events {
		touched[ev.job] = true
	}
	l.fetch(slices.Collect(maps.Keys(touched)))
}

// fetch reads jobs, several at a time.
func (l *ledger) fetch(ids []queuefs.JobID) {
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

func (l *ledger) fetchJob(id queuefs.JobID) error {
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
