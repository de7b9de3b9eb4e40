package callback_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/callback"
	"cutie/queuefs"
	"cutie/queuefs/outbound"
	"cutie/queuefs/state"
)

func TestReceiversAreToldTheStateOfJobs(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	h.secrets("# of tests\n\njobs: "+secret+"\njobs: another "+secret+"\n", 0o600)
	q := h.queue("jobs", r.URL+"/mc?key=1")
	j := h.submit(q, "hello")
	h.tick()
	got := r.received()
	if len(got) != 1 {
		t.Fatalf("got %d deliveries", len(got))
	}
	d := state.OfJob("http://h.example", &j)
	if want := string(state.JSON.Append(nil, &d)); got[0].body != want {
		t.Errorf("body: got %s want %s", got[0].body, want)
	}
	sign := func(key string) string {
		mac := hmac.New(sha256.New, []byte(key))
		fmt.Fprintf(mac, "%d.%s", h.clock.now().Unix(), got[0].body)
		return hex.EncodeToString(mac.Sum(nil))
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Cutie-Queue": "jobs", "Cutie-Event": "submit", "Cutie-Sequence": "1", "User-Agent": queuefs.Scheme,
		"Cutie-Signature": fmt.Sprintf("t=%d,v1=%s,v1=%s", h.clock.now().Unix(), sign(secret), sign("another "+secret)),
	} {
		if g := got[0].header.Get(name); g != want || got[0].method != "POST" {
			t.Errorf("%s %s: got %q, want %q", got[0].method, name, g, want)
		}
	}
	h.consume(q)
	h.tick()
	r.want(t, "jobs 2 consume "+j1+" consumed")
	h.tick()
	r.want(t)
	want := callback.State{Queue: "jobs", URL: r.URL + "/mc", Signed: true, Delivered: 2}
	if got := h.state("jobs"); got != want {
		t.Errorf("state: got %+v\nwant %+v", got, want)
	}
}

func TestReceiversThatFailAreTriedAgainInOrder(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	for range 2 {
		h.submit(q, "x")
	}
	first := "jobs 1 submit " + j1 + " pending"
	r.answer(status(500), status(403))
	pause := time.Second
	for n := 1; n <= 2; n++ {
		h.tick()
		r.want(t, first)
		st := h.state("jobs")
		if wait := st.Next.Sub(h.clock.now()); st.Failures != n || st.Waiting != 2 || wait < pause/2 || wait > pause {
			t.Errorf("after %d failures: %+v, next in %v", n, st, wait)
		}
		h.tick() // too early
		r.want(t)
		h.clock.advance(pause)
		pause *= 2
	}
	h.tick()
	r.want(t, first, "jobs 2 submit "+j2+" pending")
	if st := h.state("jobs"); st.Failures != 0 || st.LastError != "" || st.Waiting != 0 {
		t.Errorf("state: got %+v", st)
	}
	if want := []string{"jobs: the receiver answered 500", "jobs: <nil>"}; !slices.Equal(h.turns, want) {
		t.Errorf("turns: got %q, want %q", h.turns, want)
	}
}

func TestAttemptsAreTheSameDelivery(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	r.answer(status(500))
	h.tick()
	h.clock.advance(time.Second)
	h.tick()
	h.submit(q, "x")
	h.tick()
	var ids []string
	for _, d := range r.received() {
		ids = append(ids, d.header.Get("Cutie-Delivery"))
	}
	if len(ids) != 3 || len(ids[0]) != 32 || ids[0] != ids[1] || ids[1] == ids[2] {
		t.Errorf("got ids %v", ids)
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
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

func TestChangesThatWaitAreMerged(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	for range 2 {
		h.submit(q, "x")
	}
	r.answer(status(500))
	h.tick()
	r.want(t, "jobs 1 submit "+j1+" pending")
	for range 100 {
		h.consume(q)
		h.requeue(q, 1)
	}
	h.consume(q)
	h.clock.advance(time.Minute)
	h.tick()
	r.want(t, "jobs 2 submit "+j2+" pending", "jobs 203 consume "+j1+" consumed")
}

func TestChangeDuringARequestIsTold(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	r.answer(func(w http.ResponseWriter, _ *http.Request) {
		h.consume(q)
		if err := h.sender.Tick(ctx); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	h.tick()
	h.tick()
	r.want(t, "jobs 1 submit "+j1+" pending", "jobs 2 consume "+j1+" consumed")
}

func TestGoneEndsItUntilThereIsAnotherCallback(t *testing.T) {
	h, r, other := newHome(t, callback.Options{}), newReceiver(t), newReceiver(t)
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	r.answer(status(410))
	h.tick()
	r.want(t, "jobs 1 submit "+j1+" pending")
	h.wantReport("410")
	h.submit(q, "x")
	h.tick()
	h.close() // it is remembered
	h.open()
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
	h, r, other := newHome(t, callback.Options{}), newReceiver(t), newReceiver(t)
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
	h.wantReport("1 changes were not delivered")
	h.submit(q, "x")
	h.tick()
	h.setCallback("jobs", other.URL)
	h.tick()
	h.submit(q, "x")
	h.tick()
	other.want(t, "jobs 3 submit "+j2+" pending", "jobs 7 submit j000000000004 pending")
}

func TestWhatFailsForAWeekIsSetAside(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL+"/?token=hidden")
	for range 3 {
		h.submit(q, "x")
	}
	r.answer(status(500))
	h.tick()
	h.clock.advance(6 * 24 * time.Hour)
	young := h.submit(q, "x")
	r.answer(status(500))
	h.tick()
	if got := h.reported(); len(got) > 0 {
		t.Fatalf("too early: %q", got)
	}
	h.clock.advance(25 * time.Hour)
	r.answer(status(502))
	h.tick()
	h.wantReport("callbacks/jobs.dead: 3 changes were not delivered: the receiver has failed for 168h0m0s, at last with: the receiver answered 502")
	dead, err := os.ReadFile(filepath.Join(h.dir, "callbacks/jobs.dead"))
	if err != nil || strings.Count(string(dead), "\n") != 3 || !strings.Contains(string(dead), " 1 2026-01-01T00:00:00.000001Z submit "+j1) {
		t.Errorf("jobs.dead: %s, %v", dead, err)
	}
	r.received()
	h.clock.advance(time.Hour)
	h.tick()
	r.want(t, "jobs 4 submit "+young.ID.String()+" pending")
	if st := h.state("jobs"); st.SetAside != 3 || st.Delivered != 1 || st.Waiting != 0 {
		t.Errorf("state: got %+v", st)
	}
}

func TestTooMuchThatWaitsIsSetAside(t *testing.T) {
	h, r := newHome(t, callback.Options{MaxWaiting: 20}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	r.answer(status(500))
	for range 20 {
		h.submit(q, "x")
	}
	h.tick()
	if got := h.reported(); len(got) > 0 {
		t.Fatalf("too early: %q", got)
	}
	h.submit(q, "x")
	h.tick()
	h.wantReport("3 changes were not delivered: too many changes waited")
	r.received()
	h.clock.advance(time.Minute)
	h.tick()
	if got := r.received(); len(got) != 18 || got[0].String() != "jobs 4 submit j000000000004 pending" {
		t.Errorf("got %d deliveries, %v first", len(got), got[0])
	}
}

func TestRedirectsMustKeepTheRequest(t *testing.T) {
	h, r, other := newHome(t, callback.Options{}), newReceiver(t), newReceiver(t)
	h.submit(h.queue("jobs", r.URL), "x")
	r.answer(status(302, "Location", other.URL))
	h.tick()
	if st := h.state("jobs"); !strings.Contains(st.LastError, "must be 307 or 308") || st.Waiting != 1 {
		t.Errorf("state: got %+v", st)
	}
	other.received()
	r.answer(status(307, "Location", other.URL))
	h.clock.advance(time.Second)
	h.tick()
	other.want(t, "jobs 1 submit "+j1+" pending")
}

func TestSlowReceiverHoldsUpNobodyElse(t *testing.T) {
	h, slow, r := newHome(t, callback.Options{Parallel: 2}), newReceiver(t), newReceiver(t)
	hang := make(chan struct{})
	asked := make(chan struct{})
	slow.answer(func(w http.ResponseWriter, _ *http.Request) { close(asked); <-hang })
	defer close(hang)
	h.submit(h.queue("slow", slow.URL), "x")
	for _, name := range []string{"a", "b", "c"} {
		h.submit(h.queue(name, r.URL), "x")
	}
	going, stop := context.WithCancel(ctx)
	for told, hangs := 0, false; told < 3 || !hangs; { // one place is left for the three
		if err := h.sender.Tick(going); err != nil {
			t.Fatal(err)
		}
		told += len(r.received())
		select {
		case <-asked:
			hangs = true
		default: // the three may have been first
		}
	}
	stop()
	h.sender.Wait()
	if st := h.state("slow"); st.Waiting != 1 || st.Failures != 0 {
		t.Errorf("stopping counts as a failure of the receiver: %+v", st)
	}
}

func TestReceiverThatHangsHasFailed(t *testing.T) {
	h, r := newHome(t, callback.Options{Timeout: 10 * time.Millisecond}), newReceiver(t)
	hang := make(chan struct{})
	defer close(hang)
	r.answer(func(http.ResponseWriter, *http.Request) { <-hang })
	h.submit(h.queue("jobs", r.URL), "x")
	h.tick()
	if st := h.state("jobs"); st.LastError != "no answer within 10ms" || st.Failures != 1 {
		t.Errorf("state: got %+v", st)
	}
}

func TestPrivateReceiversAreRefusedUnlessAllowed(t *testing.T) {
	for _, tt := range []struct {
		allow     []string
		delivered int64
	}{{nil, 0}, {[]string{"127.0.0.1"}, 1}} {
		client, err := outbound.New(outbound.Options{Allow: tt.allow})
		if err != nil {
			t.Fatal(err)
		}
		h, r := newHome(t, callback.Options{Doer: client}), newReceiver(t)
		h.submit(h.queue("jobs", r.URL), "x")
		h.tick()
		st := h.state("jobs")
		if n := int64(len(r.received())); n != tt.delivered || st.Delivered != n || (n == 0) != strings.Contains(st.LastError, "refused: ") {
			t.Errorf("allowed %q: got %d requests, %+v", tt.allow, n, st)
		}
	}
}

func TestErrorsShowNoQuery(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	r.Close()
	h.submit(h.queue("jobs", r.URL+"/?token=hidden"), "x")
	h.tick()
	st := h.state("jobs")
	if all := fmt.Sprintf("%+v %q %q", st, h.turns, h.reports); st.Failures != 1 || strings.Contains(all, "hidden") {
		t.Errorf("got %s", all)
	}
}

func TestSecretsAreReadAgain(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
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
		err := h.sender.Tick(ctx)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret)) {
			t.Errorf("%q: got error %v, want %q", tt.text, err, tt.want)
		}
		h.submit(q, "x")
		_ = h.sender.Tick(ctx) // the same error
		h.sender.Wait()
		if got := r.received(); len(got) != 1 || (got[0].header.Get("Cutie-Signature") != "") != tt.signed {
			t.Errorf("%q: got %d deliveries, want one, signed: %v", tt.text, len(got), tt.signed)
		}
	}
	h.close()
	h.secrets("jobs: short", 0o600)
	h.openService()
	if _, err := callback.New(h.svc, callback.Options{Doer: http.DefaultClient}); err == nil || !strings.Contains(err.Error(), "callback-secrets.txt: line 1") {
		t.Errorf("open: got %v", err)
	}
}
