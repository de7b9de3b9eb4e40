package hub_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/publisher/hub"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/state"
	"cutie/queuefs/table"

	"go.etcd.io/bbolt"
)

const j1, j2, j3, j4 = "j000000000001", "j000000000002", "j000000000003", "j000000000004"

const secret = "0123456789abcdef"

func TestCallbacksGetTheStateOfJobs(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	h.secrets("# of tests\n\njobs: "+secret+"\njobs: another "+secret+"\n", 0o600)
	q := h.queue("jobs", r.URL+"/mc?key=1")
	j := h.submit(q, "hello")
	h.tick()
	got := r.received()
	if len(got) != 1 {
		t.Fatalf("got %d deliveries", len(got))
	}
	d := state.OfJob("http://h.example", &j)
	if want := string(state.JSON.Append(nil, &d)); got[0].body != want || got[0].query != "key=1" {
		t.Errorf("body: got %s want %s", got[0].body, want)
	}
	sign := func(key string) string {
		mac := hmac.New(sha256.New, []byte(key))
		fmt.Fprintf(mac, "%d.%s", h.clock.now().Unix(), got[0].body)
		return hex.EncodeToString(mac.Sum(nil))
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Cutie-Queue": "jobs", "Cutie-Event": "submit", "Cutie-Sequence": "1", "User-Agent": home.Scheme,
		"Cutie-Signature": fmt.Sprintf("t=%d,v1=%s,v1=%s", h.clock.now().Unix(), sign(secret), sign("another "+secret)),
	} {
		if g := got[0].header.Get(name); g != want {
			t.Errorf("%s: got %q, want %q", name, g, want)
		}
	}
	h.consume(q)
	h.tick()
	r.want(t, "jobs 2 consume "+j1+" consumed")
	h.tick()
	r.want(t)
	st := h.state("jobs")
	st.Position = ""
	if want := (hub.State{Queue: "jobs", Host: strings.TrimPrefix(r.URL, "http://"), Verified: true, Signed: true, Delivered: 2}); st != want {
		t.Errorf("state: got %+v\nwant %+v", st, want)
	}
}

func TestCallbacksThatFailAreTriedAgainInOrder(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	for range 2 {
		h.submit(q, "x")
	}
	first := "jobs 1 submit " + j1 + " pending"
	r.answer(status(500), status(403))
	var ids []string
	wait := time.Second
	for n := 1; n <= 2; n++ {
		h.tick()
		got := r.received()
		if len(got) != 1 || got[0].String() != first {
			t.Fatalf("got %v", got)
		}
		ids = append(ids, got[0].header.Get("Cutie-Delivery"))
		st := h.state("jobs")
		if in := st.Next.Sub(h.clock.now()); st.Failures != n || st.Waiting != 2 || in < wait/2 || in > wait {
			t.Errorf("after %d failures: %+v, next in %v", n, st, in)
		}
		h.tick() // too early
		r.want(t)
		h.clock.advance(wait)
		wait *= 2
	}
	h.tick()
	got := r.received()
	if len(got) != 2 || got[0].String() != first || got[1].String() != "jobs 2 submit "+j2+" pending" {
		t.Fatalf("got %v", got)
	}
	if ids = append(ids, got[0].header.Get("Cutie-Delivery"), got[1].header.Get("Cutie-Delivery")); len(ids[0]) != 32 ||
		ids[0] != ids[1] || ids[1] != ids[2] || ids[2] == ids[3] {
		t.Errorf("got ids %v", ids)
	}
	if st := h.state("jobs"); st.Failures != 0 || st.LastError != "" || st.Waiting != 0 {
		t.Errorf("state: got %+v", st)
	}
	const turns = "turned: callback of queue jobs: the receiver answered 500\nturned: callback of queue jobs: <nil>"
	if got := h.reported(); got != turns {
		t.Errorf("got reports %q, want %q", got, turns)
	}
	// At last it is an hour.
	r.answers(func(int) (int, string) { return 500, "" })
	h.submit(q, "x")
	for range 30 {
		h.later(time.Hour)
	}
	if in := h.state("jobs").Next.Sub(h.clock.now()); in < 30*time.Minute || in > time.Hour {
		t.Errorf("next in %v", in)
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	h.submit(h.queue("jobs", r.URL), "x")
	date := h.clock.now().Add(5 * time.Minute)
	for _, tt := range []struct {
		after       string
		least, most time.Duration
	}{
		{"120", 2 * time.Minute, 2 * time.Minute},
		{date.Format(http.TimeFormat), 3 * time.Minute, 3 * time.Minute},
		{"1000000", 24 * time.Hour, 24 * time.Hour},
		{"soon", 0, 10 * time.Second},
		{"-5", 0, 10 * time.Second},
	} {
		r.answer(status(429, "Retry-After", tt.after))
		h.tick()
		r.want(t, "jobs 1 submit "+j1+" pending")
		if wait := h.state("jobs").Next.Sub(h.clock.now()); wait < tt.least || wait > tt.most+16*time.Second {
			t.Errorf("Retry-After %s: next in %v", tt.after, wait)
		}
		h.clock.advance(h.state("jobs").Next.Sub(h.clock.now()))
	}
}

func TestTheLastChangeOfAJobCounts(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	for range 2 {
		h.submit(q, "x")
	}
	r.answer(status(500))
	h.tick()
	r.want(t, "jobs 1 submit "+j1+" pending")
	for range 1000 { // more than are read at a time
		h.consume(q)
		_, err := q.Requeue(ctx, 1)
		must(t, err)
	}
	h.consume(q)
	h.later(time.Minute)
	r.want(t, "jobs 2 submit "+j2+" pending", "jobs 2003 consume "+j1+" consumed")
}

func TestAChangeDuringARequestIsDelivered(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	r.answer(func(w http.ResponseWriter, _ *http.Request) {
		h.consume(q)
		if err := h.hub.Tick(ctx); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	h.tick()
	h.tick()
	r.want(t, "jobs 1 submit "+j1+" pending", "jobs 2 consume "+j1+" consumed")
}

func TestAFailureOfTheCallbackBeforeDoesNotCount(t *testing.T) {
	h, r, other := newHome(t, hub.Options{}), newReceiver(t), newReceiver(t)
	h.submit(h.queue("jobs", r.URL), "x")
	r.answer(func(w http.ResponseWriter, _ *http.Request) {
		h.setCallback("jobs", other.URL)
		if err := h.hub.Tick(ctx); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusGone)
	})
	h.tick()
	h.tick()
	other.want(t, "jobs 1 submit "+j1+" pending")
}

func TestGoneStopsACallbackUntilThereIsAnother(t *testing.T) {
	h, r, other := newHome(t, hub.Options{}), newReceiver(t), newReceiver(t)
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	r.answer(status(410))
	h.tick()
	r.want(t, "jobs 1 submit "+j1+" pending")
	h.wantReport("the receiver answered 410: 1 waiting events and all later ones are not delivered")
	h.submit(q, "x")
	h.tick()
	h.close() // it is remembered
	h.reopen()
	q = h.queue("jobs", "")
	h.submit(q, "x")
	h.tick()
	r.want(t)
	if st := h.state("jobs"); !st.Stopped || st.Waiting != 0 {
		t.Errorf("state: got %+v", st)
	}
	h.setCallback("jobs", other.URL)
	h.consume(q)
	h.tick()
	r.want(t)
	other.want(t, "jobs 5 consume "+j1+" consumed")
}

func TestAnotherCallbackGetsWhatWaits(t *testing.T) {
	h, r, other := newHome(t, hub.Options{}), newReceiver(t), newReceiver(t)
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	r.answer(status(500))
	h.tick()
	h.setCallback("jobs", other.URL)
	h.tick()
	other.want(t, "jobs 1 submit "+j1+" pending")
	h.submit(q, "x")
	other.answer(status(500))
	h.tick()
	h.setCallback("jobs", "")
	h.tick()
	h.wantReport("the queue has no callback any more: 2 events were not delivered")
	h.submit(q, "x")
	h.tick()
	h.setCallback("jobs", other.URL)
	h.tick()
	h.submit(q, "x")
	h.tick()
	other.want(t, "jobs 3 submit "+j2+" pending", "jobs 7 submit "+j4+" pending")
}

func TestRedirectsMustKeepTheRequest(t *testing.T) {
	h, r, other := newHome(t, hub.Options{}), newReceiver(t), newReceiver(t)
	h.submit(h.queue("jobs", r.URL), "x")
	r.answer(status(302, "Location", other.URL))
	h.tick()
	if st := h.state("jobs"); !strings.Contains(st.LastError, "must be 307 or 308") || st.Waiting != 1 {
		t.Errorf("state: got %+v", st)
	}
	other.received()
	r.answer(status(307, "Location", other.URL))
	h.later(time.Second)
	other.want(t, "jobs 1 submit "+j1+" pending")
}

func TestASlowCallbackHoldsUpNobodyElse(t *testing.T) {
	h, slow, r := newHome(t, hub.Options{Parallel: 2}), newReceiver(t), newReceiver(t)
	hang := make(chan struct{})
	asked := make(chan struct{})
	slow.answer(func(http.ResponseWriter, *http.Request) { close(asked); <-hang })
	defer close(hang)
	h.submit(h.queue("slow", slow.URL), "x")
	for _, name := range []string{"a", "b", "c"} {
		h.submit(h.queue(name, r.URL), "x")
	}
	going, stop := context.WithCancel(ctx)
	for told, hangs := 0, false; told < 3 || !hangs; { // one place is left for the three
		must(t, h.hub.Tick(going))
		told += len(r.received())
		select {
		case <-asked:
			hangs = true
		default: // the three may have been first
		}
	}
	stop()
	h.hub.Wait()
	if st := h.state("slow"); st.Waiting != 1 || st.Failures != 0 {
		t.Errorf("stopping counts as a failure of the receiver: %+v", st)
	}
}

func TestACallbackThatHangsHasFailed(t *testing.T) {
	h, r := newHome(t, hub.Options{Timeout: 10 * time.Millisecond}), newReceiver(t)
	hang := make(chan struct{})
	defer close(hang)
	r.answer(func(http.ResponseWriter, *http.Request) { <-hang })
	h.submit(h.queue("jobs", r.URL), "x")
	h.tick()
	if st := h.state("jobs"); st.LastError != "no answer within 30ms" || st.Failures != 1 {
		t.Errorf("state: got %+v", st)
	}
}

func TestPrivateCallbacksAreRefusedUnlessAllowed(t *testing.T) {
	h, r := newHome(t, hub.Options{Client: client(t)}), newReceiver(t)
	h.submit(h.queue("jobs", r.URL), "x")
	h.tick()
	if st := h.state("jobs"); len(r.received()) != 0 || !strings.Contains(st.LastError, "the pattern 127.0.0.1:") {
		t.Errorf("got %+v", st)
	}
}

func TestErrorsShowNoQuery(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	r.Close()
	h.submit(h.queue("jobs", r.URL+"/?token=hidden"), "x")
	h.tick()
	st := h.state("jobs")
	if all := fmt.Sprintf("%+v %s", st, h.reported()); st.Failures != 1 || strings.Contains(all, "hidden") {
		t.Errorf("got %s", all)
	}
}

// A reader that never ends shows that answers are not read for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestEndlessAnswersAreNotRead(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	r.answer(func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, endless{}) })
	h.submit(h.queue("jobs", r.URL), "x")
	h.tick()
	if st := h.state("jobs"); st.Delivered != 1 {
		t.Errorf("state: got %+v", st)
	}
}

func TestSecretsAreReadAgain(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	for _, tt := range []struct {
		text   string
		mode   os.FileMode
		signed bool
		want   string
	}{
		{"jobs: " + secret, 0o600, true, ""},
		{"jobs: " + secret + "2", 0o644, true, "chmod 600"},
		{"jobs " + secret, 0o600, true, "line 1 is not QUEUE: SECRET"},
		{"\njobs: short", 0o600, true, "line 2: a secret has at least 16 octets"},
		{"a/b: " + secret, 0o600, true, "line 1 does not begin with the identifier of a queue"},
		{"other: " + secret, 0o600, false, ""},
	} {
		h.secrets(tt.text, tt.mode)
		err := h.hub.Tick(ctx)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret)) {
			t.Errorf("%q: got error %v, want %q", tt.text, err, tt.want)
		}
		h.submit(q, "x")
		_ = h.hub.Tick(ctx) // the same error
		h.hub.Wait()
		if got := r.received(); len(got) != 1 || (got[0].header.Get("Cutie-Signature") != "") != tt.signed {
			t.Errorf("%q: got %d deliveries, want one, signed: %v", tt.text, len(got), tt.signed)
		}
	}
	h.secrets("jobs: short", 0o600)
	if _, err := hub.New(h.opts); err == nil || !strings.Contains(err.Error(), "callback-secrets.txt: line 1") {
		t.Errorf("open: got %v", err)
	}
}

// What waits is in the journal, and when that is released in the index of the queue: nothing
// is kept for a URL that does not answer.
func TestWhatWaitsOutlivesTheJournal(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	_, err := h.svc.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs", Callback: r.URL, CullingSize: 0, CullingAge: -1})
	must(t, err)
	q := h.queue("jobs", "")
	for range 3 {
		h.submit(q, "x")
	}
	h.tick()
	r.received()
	r.answer(status(503))
	h.consume(q)
	h.tick()
	h.submit(q, "x")
	_, err = q.Delete(ctx, 2)
	must(t, err)
	h.consume(q)
	_, err = q.Requeue(ctx, 3)
	must(t, err)
	r.received()
	var culled []job.ID
	for c, err := range h.svc.Cull(ctx, queuefs.CullOptions{}) {
		must(t, err)
		culled = append(culled, c.Job)
	}
	if len(culled) != 2 {
		t.Fatalf("culled %v", culled)
	}
	h.release(q)
	want := []string{"jobs 5 submit " + j4 + " pending", "jobs 8 requeue " + j3 + " pending", "jobs 9 cull " + j1, "jobs 10 cull " + j2}
	k := h.killed()
	k.tick()
	r.want(t, want...)
	h.close()
	h.reopen() // at once, and not after the pause that was
	h.tick()
	r.want(t, want...)
	h.later(time.Minute)
	r.want(t)
	if got := h.reported() + k.reported(); strings.Contains(got, "lost") || strings.Contains(got, "not delivered") {
		t.Errorf("got reports %q", got)
	}
}

// A backlog of any length is read by the window.
func TestALongBacklogIsDeliveredInOrder(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	r.answer(status(503))
	const many = 2300
	for range many / 460 {
		s := q.Begin()
		for range 460 {
			_, err := s.Add(job.Meta{})
			must(t, err)
		}
		_, err := s.Commit(ctx)
		must(t, err)
	}
	h.tick()
	r.received()
	h.release(q)
	h.clock.advance(time.Minute)
	var got []delivery
	for range many/256 + 2 {
		h.tick()
		got = append(got, r.received()...)
	}
	if len(got) != many {
		t.Fatalf("got %d deliveries, want %d", len(got), many)
	}
	for i, d := range got {
		if want := fmt.Sprintf("jobs %d submit j%012d pending", i+1, i+1); d.String() != want {
			t.Fatalf("got %s, want %s", d, want)
		}
	}
}

// When a culled job is remembered no longer, one message names the gap, and the rest follows.
func TestAGapOfAQueueIsNamed(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	h.tick()
	h.submit(q, "x")
	r.received()
	r.answer(status(503))
	h.tick()
	r.received()
	h.release(q)
	h.later(100 * 24 * time.Hour)
	h.tick()
	got := r.received()
	if len(got) != 2 || got[0].header.Get("Cutie-Event") != "gap" || got[1].String() != "jobs 2 submit "+j2+" pending" {
		t.Fatalf("got %v", got)
	}
	if id := "Cutie-Delivery"; got[0].header.Get(id) == got[1].header.Get(id) {
		t.Error("who drops repeats by Cutie-Delivery loses the job after the gap")
	}
	const want = `{"@type":"gap","queueState":"http://h.example/state/jobs","from":"2026-01-01T00:00:00.000001Z","until":"2026-01-11T00:00:00.000000Z",` +
		`"list":"http://h.example/.well-known/resourcesync/jobs/replica/capabilitylist.xml"}`
	if got[0].body != want {
		t.Errorf("got %s\nwant %s", got[0].body, want)
	}
	h.wantReport("jobs culled from 2026-01-01T00:00:00.000001Z to 2026-01-11T00:00:00.000000Z are not delivered")
	if st := h.state("jobs"); st.Missed != 1 || st.Waiting != 0 {
		t.Errorf("got %+v", st)
	}
}

func TestWhatTheCursorKnowsIsNotDeliveredAgain(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	h.tick()
	for range 3 {
		h.submit(q, "x")
	}
	r.answer(status(204), status(204), status(503))
	h.later(time.Second)
	h.later(time.Second) // saves the cursor
	r.received()
	h.killed().tick()
	r.want(t, "jobs 3 submit "+j3+" pending")
}

func TestWithoutACursorTheJournalIsDeliveredAgain(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	h.tick()
	h.release(q)
	h.submit(q, "x")
	h.submit(q, "x")
	r.received()
	h.close()
	h.damageRows(func(value []byte) []byte { return value[:3] })
	h.reopen()
	h.wantReport(`row subscriptions "queue jobs" does not verify; the subscription is lost`)
	h.tick()
	r.want(t, "jobs 2 submit "+j2+" pending", "jobs 3 submit "+j3+" pending")
}

func TestAFirstCallbackBeginsWithTheNextEvent(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", "")
	h.submit(q, "x")
	h.tick()
	h.setCallback("jobs", r.URL)
	h.submit(q, "x")
	r.answer(status(503))
	h.later(time.Second)
	r.want(t, "jobs 3 submit "+j2+" pending") // event 2 is of the properties
	h.killed().tick()
	r.want(t, "jobs 3 submit "+j2+" pending")
}

func TestAFirstCallbackRightBeforeACrashCounts(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", "")
	h.submit(q, "x")
	h.release(q)
	h.setCallback("jobs", r.URL)
	h.submit(q, "x")
	h.killed().tick()
	r.want(t, "jobs 3 submit "+j2+" pending")
}

// A callback that was set while no daemon ran tells nothing of the jobs before.
func TestAFirstCallbackOfAClosedHomeBeginsWithTheNextEvent(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", "")
	h.submit(q, "x")
	h.tick()
	h.close()
	svc, err := queuefs.Open(h.path, queuefs.Options{})
	must(t, err)
	_, err = svc.SetQueue(t.Context(), "jobs", func(i *home.QueueInfo) error { i.Callback = r.URL; return nil })
	must(t, errors.Join(err, svc.Close()))
	h.reopen()
	h.tick()
	r.want(t)
	q, err = h.svc.Queue("jobs")
	must(t, err)
	h.submit(q, "x")
	h.later(time.Second)
	r.want(t, "jobs 3 submit "+j2+" pending") // event 2 is of the properties
}

func TestAnOlderCopyOfAHomeGoesOnFromNow(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	h.tick()
	old := h.killed()
	old.close()
	h.submit(q, "x")
	h.tick()
	h.close()
	r.received()
	from, to := h.openTable(), old.openTable()
	must(t, from.Rows(table.Subscriptions).Each(func(key string, contents []byte, bad error) bool {
		to.Put(table.Subscriptions, key, bytes.Clone(contents))
		return bad == nil
	}))
	must(t, errors.Join(to.Commit(), to.Close(), from.Close()))
	old.reported()
	old.reopen()
	old.wantReport("the home is an older copy")
	old.submit(old.queue("jobs", ""), "x")
	old.tick()
	r.want(t, "jobs 2 submit "+j2+" pending")
}

func TestAQueueMadeAgainIsAnotherOne(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	_, err := h.svc.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs", Callback: r.URL, CullingSize: 0, CullingAge: -1})
	must(t, err)
	q := h.queue("jobs", "")
	h.submit(q, "x")
	h.consume(q)
	h.tick()
	r.received()
	r.answer(status(503))
	for _, err := range h.svc.Cull(ctx, queuefs.CullOptions{}) {
		must(t, err)
	}
	h.tick()
	got := r.received()
	want := `{"@context":{"@vocab":"http://uc3.cdlib.org/ontology/mrt/cutie/job/"},"@type":"jobState","identifier":"` + j1 +
		`","queueState":"http://h.example/state/jobs","sequence":3}` + "\n"
	if len(got) != 1 || got[0].header.Get("Cutie-Event") != "cull" || got[0].body != want {
		t.Errorf("got %v\nwant %s", got, want)
	}
	h.reported()
	must(t, h.svc.RemoveQueue(ctx, "jobs"))
	h.tick()
	h.wantReport("the queue was removed: 1 events were not delivered")
	h.submit(h.queue("jobs", r.URL), "y") // its numbers of jobs and events go on
	h.tick()
	r.want(t, "jobs 4 submit "+j2+" pending")
}

func TestAnIdleHubTrailsItsOwner(t *testing.T) {
	idle := true
	h, r := newHome(t, hub.Options{Idle: func() bool { return idle }}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	step := func(n int) {
		for range n {
			h.submit(q, "x")
		}
		h.tick()
		h.later(hub.Trail)
	}
	step(3)
	step(2)
	must(t, h.svc.Checkpoint(ctx))
	step(1)
	r.want(t)
	idle = false
	h.tick()
	r.want(t, "jobs 6 submit j000000000006 pending")
	step(1)
	r.want(t, "jobs 7 submit j000000000007 pending")
	idle = true // again
	h.later(hub.Trail)
	idle = false
	h.tick()
	r.want(t)
}

// damageURL damages the row with the URL of a callback.
var damageURL = map[string]func(file, url string) error{
	"flipped": func(file, url string) error { // while the home is open, too
		b, err := os.ReadFile(file)
		if err == nil && !bytes.Contains(b, []byte(url)) {
			err = fmt.Errorf("%s has no %s", file, url)
		}
		if err != nil {
			return err
		}
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		for at := range b {
			if bytes.HasPrefix(b[at:], []byte(url)) && err == nil {
				_, err = f.WriteAt([]byte{b[at] ^ 1}, int64(at))
			}
		}
		return errors.Join(err, f.Close())
	},
	"gone": func(file, _ string) error {
		db, err := bbolt.Open(file, 0o600, &bbolt.Options{Timeout: time.Second})
		if err != nil {
			return err
		}
		err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(table.Callbacks)).Delete([]byte("jobs")) })
		return errors.Join(err, db.Close())
	},
}

// The changes of a queue whose URL is lost wait until its callback is set again, and others are
// delivered.
func TestALostURLStopsNobodyElse(t *testing.T) {
	for name, damage := range damageURL {
		for _, open := range []bool{true, false} {
			if open && name == "gone" {
				continue
			}
			t.Run(name+map[bool]string{true: " while open", false: " before"}[open], func(t *testing.T) {
				h, r, other := newHome(t, hub.Options{}), newReceiver(t), newReceiver(t)
				q, o := h.queue("jobs", r.URL+"/secret"), h.queue("other", other.URL+"/x")
				h.submit(q, "a")
				h.tick()
				r.want(t, "jobs 1 submit "+j1+" pending")
				if !open {
					h.close()
				}
				must(t, damage(filepath.Join(h.path, "log/table"), r.URL+"/secret"))
				if !open {
					h.reopen()
					q, o = h.queue("jobs", ""), h.queue("other", "")
				}
				h.submit(q, "b")
				h.submit(o, "c")
				for range 2 {
					if err := h.hub.Tick(ctx); err == nil || !strings.Contains(err.Error(), "queue jobs") || !strings.Contains(err.Error(), "set the callback of the queue again") {
						t.Errorf("tick: got %v", err)
					}
					h.hub.Wait()
				}
				other.want(t, "other 1 submit "+j1+" pending")
				h.release(q)
				h.submit(q, "d")
				h.close()
				h.reopen()
				r.want(t)
				h.setCallback("jobs", r.URL+"/secret")
				h.tick()
				r.want(t, "jobs 2 submit "+j2+" pending", "jobs 3 submit "+j3+" pending")
			})
		}
	}
}

// Another property of a queue whose URL is lost is changed: scheme and host, which are all that
// is left, do not become the callback.
func TestOtherSettingsLeaveALostURLAlone(t *testing.T) {
	for name, damage := range damageURL {
		t.Run(name, func(t *testing.T) {
			h, r := newHome(t, hub.Options{}), newReceiver(t)
			h.queue("jobs", r.URL+"/secret")
			h.close()
			must(t, damage(filepath.Join(h.path, "log/table"), r.URL+"/secret"))
			h.reopen()
			q := h.queue("jobs", "")
			_, err := h.svc.SetQueue(ctx, "jobs", func(i *home.QueueInfo) error { i.Description = "other"; return nil })
			must(t, err)
			if to, err := q.Callback(); err == nil {
				t.Errorf("the callback is %s now", to)
			}
			h.setCallback("jobs", r.URL+"/another")
			if to, err := q.Callback(); err != nil || to != r.URL+"/another" {
				t.Errorf("got %s, %v", to, err)
			}
		})
	}
}

// A URL that was written into a property file by hand is a secret afterwards.
func TestAURLInAPropertyFileIsConcealed(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	h.queue("jobs", r.URL)
	h.close()
	name := filepath.Join(h.path, "queues/jobs/queue-info.txt")
	text, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, []byte(strings.ReplaceAll(string(text), r.URL, r.URL+"/secret")), 0o600))
	h.reopen()
	h.tick()
	if got, err := h.queue("jobs", "").Callback(); err != nil || got != r.URL+"/secret" || h.queue("jobs", "").Info().Callback != r.URL {
		t.Errorf("got callback %s, %v, and %s for everybody", got, err, h.queue("jobs", "").Info().Callback)
	}
}

// Queues without a callback have no subscription and cost nothing at a Tick.
func TestQueuesWithoutACallbackCostNothing(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	for i := range 20 {
		h.submit(h.queue(fmt.Sprintf("q%d", i), ""), "x")
	}
	h.setCallback("q7", r.URL)
	subscriptions := func(want int) {
		t.Helper()
		h.later(time.Second)
		h.later(time.Second)
		got := -1 // a row says that the hub was here
		must(t, h.svc.Subscriptions().Each(func(string, []byte, error) bool { got++; return true }))
		if got != want {
			t.Errorf("there are %d subscriptions, want %d", got, want)
		}
	}
	subscriptions(1)
	h.setCallback("q7", "")
	subscriptions(0)
	if n := testing.AllocsPerRun(100, func() { must(t, h.hub.Tick(ctx)) }); n > 30 {
		t.Errorf("got %v allocations for a Tick without a change", n)
	}
}

// A kill at any time loses no change, and keeps their order.
func TestAKillLosesNoChange(t *testing.T) {
	h, r := newHome(t, hub.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	r.answers(func(n int) (int, string) { return map[bool]int{true: 503, false: 204}[n%4 == 3], "" })
	var killed []*house
	var acknowledged []int
	const all = 12
	for round := range all {
		h.submit(q, "x")
		if round%4 == 3 {
			must(t, h.svc.Checkpoint(ctx))
		}
		h.later(2 * time.Hour)
		k := h.killed()
		acknowledged = append(acknowledged, round+1-int(k.state("jobs").Waiting))
		k.close()
		killed = append(killed, k)
	}
	inOrder := func(last int, got []delivery, what string) {
		t.Helper()
		for _, d := range got {
			var seq int
			fmt.Sscan(d.header.Get("Cutie-Sequence"), &seq)
			if seq > last+1 {
				t.Errorf("%s: event %d comes after %d", what, seq, last)
			}
			last = max(last, seq)
		}
		if last != all {
			t.Errorf("%s: the last event is %d", what, last)
		}
	}
	h.later(2 * time.Hour)
	inOrder(0, r.received(), "live")
	r.answers(nil)
	for i, k := range killed {
		k.reopen()
		for q := k.queue("jobs", ""); q.Seq() < all; {
			k.submit(q, "y")
		}
		k.tick()
		inOrder(acknowledged[i], r.received(), fmt.Sprint("kill ", i))
		k.close()
	}
}
