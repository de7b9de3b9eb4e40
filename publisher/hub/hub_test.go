package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"cutie/publisher/hub"
)

const topic = "http://source.test/topic.xml"

func TestASubscriberIsAskedAndThenToldInOrder(t *testing.T) {
	j, r := newJournal(topic), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j}, nil)
	j.add(topic, "before")
	if status, text := h.ask("subscribe", topic, r.URL+"/cb?id=7", "secret", "s3cret", "lease_seconds", "600"); status != 202 || text != "" {
		t.Fatalf("got %d %q", status, text)
	}
	j.add(topic, "1") // after it was accepted
	h.wantStates(topic + " verified=false signed=false external=false failures=0\n")
	h.tick()
	h.wantStates(topic + " verified=true signed=true external=false failures=0 expires in 10m0s\n")
	a := r.asked[0]
	if a.Get("id") != "7" || a.Get("hub.mode") != "subscribe" || a.Get("hub.topic") != topic || a.Get("hub.lease_seconds") != "600" || len(a.Get("hub.challenge")) < 20 {
		t.Errorf("asked %v", a)
	}
	h.tick()
	j.add(topic, "2", "3", "4", "5")
	h.later(time.Second)
	if len(r.got) != 3 {
		t.Fatalf("got %d deliveries", len(r.got))
	}
	for i, body := range []string{"1", "2\n3\n4", "5"} {
		d := r.got[i]
		if d.body != body || d.query != "id=7" || d.header.Get("Content-Type") != "text/plain" ||
			d.header.Get("Link") != `<`+hubURL+`>; rel="hub", <`+topic+`>; rel="self"` {
			t.Errorf("delivery %d: got %+v", i, d)
		}
		if err := hub.Verify(d.header.Get("X-Hub-Signature"), "s3cret", []byte(body)); err != nil || !strings.HasPrefix(d.header.Get("X-Hub-Signature"), "sha256=") {
			t.Errorf("delivery %d: signature %s: %v", i, d.header.Get("X-Hub-Signature"), err)
		}
	}
	h.later(time.Minute)
	if len(r.got) != 3 {
		t.Errorf("got %d deliveries of nothing new", len(r.got)-3)
	}
}

func TestWhatComesWithinASecondIsOneNotification(t *testing.T) {
	j, r := newJournal(topic), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j}, nil)
	h.subscribe(topic, r)
	for _, line := range []string{"1", "2", "3"} {
		j.add(topic, line)
		h.later(300 * time.Millisecond)
	}
	h.later(time.Second)
	want(t, r.bodies(), []string{"1", "2\n3"})
}

func TestAFailingSubscriberIsTriedAgainAndMissesNothing(t *testing.T) {
	j, r, other := newJournal(topic), newReceiver(t), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j}, nil)
	h.subscribe(topic, r)
	h.subscribe(topic, other)
	status := 500
	r.answers(func(int) (int, string) { return status, "" })
	j.add(topic, "1")
	h.tick()
	want(t, other.bodies(), []string{"1"})
	want(t, r.bodies(), []string{"1"})
	h.tick()
	want(t, r.bodies(), nil)
	for _, code := range []int{404, 302, 307, 403} {
		status = code
		h.later(time.Hour)
		want(t, r.bodies(), []string{"1"})
	}
	j.add(topic, "2", "3", "4", "5", "6", "7")
	status = 200
	h.later(time.Hour)
	want(t, r.bodies(), []string{"1\n2\n3", "4\n5\n6", "7"})
	want(t, other.bodies(), []string{"2\n3\n4", "5\n6\n7"})
	for _, s := range h.hub.States() {
		if s.Failures != 0 || !s.Failing.IsZero() || s.LastError != "" {
			t.Errorf("got %+v", s)
		}
	}
}

func TestSubscriptionsEnd(t *testing.T) {
	j, gone, dead, over, lost := newJournal(topic, "http://source.test/2"), newReceiver(t), newReceiver(t), newReceiver(t), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j}, nil)
	h.subscribe(topic, gone)
	h.subscribe(topic, dead, "lease_seconds", "2592000")
	h.subscribe(topic, over, "lease_seconds", "3600")
	h.subscribe("http://source.test/2", lost)
	gone.answers(func(int) (int, string) { return 410, "" })
	dead.answers(func(int) (int, string) { return 500, "" })
	j.add(topic, "1")
	j.remove("http://source.test/2")
	lost.intents()
	h.tick()
	want(t, gone.bodies(), []string{"1"})
	want(t, over.bodies(), []string{"1"})
	if len(lost.asked) != 1 || lost.asked[0].Get("hub.mode") != "denied" || lost.asked[0].Get("hub.topic") != "http://source.test/2" ||
		lost.asked[0].Get("hub.reason") != "the topic is no longer there" {
		t.Errorf("got %v", lost.asked)
	}
	h.wantStates(topic + " verified=true signed=false external=false failures=0 expires in 1h0m0s\n" +
		topic + " verified=true signed=false external=false failures=1 expires in 720h0m0s\n")
	h.later(2 * time.Hour)
	j.add(topic, "2")
	h.tick()
	want(t, over.bodies(), nil)
	for range 200 {
		h.later(time.Hour)
	}
	if n := len(dead.bodies()); n < 160 || n > 180 {
		t.Errorf("got %d attempts in seven days, want one an hour", n)
	}
	h.wantStates("")
	if got := h.reported(); !strings.Contains(got, "has failed for 168h0m0s and is dropped, at last with: the subscriber answered 500") || strings.Contains(got, "/cb") {
		t.Errorf("got reports %q", got)
	}
}

func TestThoseWhoHangHoldUpNobodyElse(t *testing.T) {
	j, fine := newJournal(topic), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j, Parallel: 4, Timeout: time.Minute, Gather: time.Millisecond}, nil)
	h.subscribe(topic, fine)
	j.add(topic, "0")
	h.tick()
	told := make(chan struct{}, 1)
	fine.answers(func(int) (int, string) { told <- struct{}{}; return 200, "" })
	began, leave := make(chan struct{}, 100), make(chan struct{})
	for i := range 8 { // a port is a host of its own
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				io.WriteString(w, r.URL.Query().Get("hub.challenge"))
				return
			}
			began <- struct{}{}
			select {
			case <-leave:
			case <-r.Context().Done():
			}
		}))
		t.Cleanup(s.Close)
		if status, text := h.ask("subscribe", topic, fmt.Sprintf("%s/%d", s.URL, i)); status != 202 {
			t.Fatal(status, text)
		}
	}
	for range 4 {
		h.tick()
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range 10 {
		j.add(topic, fmt.Sprint(i))
		for delivered := false; !delivered; {
			h.clock.advance(time.Millisecond)
			must(t, h.hub.Tick(limited))
			select {
			case <-told:
				delivered = true
			default: // not yet, or the one before is not quite over
				runtime.Gosched()
			}
		}
	}
	<-began
	<-began
	if n := len(began); n > 0 {
		t.Errorf("%d requests hang besides two", n)
	}
	cancel()
	h.hub.Wait()
	close(leave)
	for _, s := range h.hub.States() {
		if s.Failures > 0 {
			t.Errorf("%s: %s: what was broken off counts as a failure: %s", s.Topic, s.Host, s.LastError)
		}
	}
}

func TestAHostHasAFewRequestsInProgress(t *testing.T) {
	j := newJournal(topic)
	h := newHouse(t, hub.Options{Source: j, PerHost: 2}, nil)
	began, leave := make(chan struct{}, 100), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			began <- struct{}{}
			<-leave
		}
		io.WriteString(w, r.URL.Query().Get("hub.challenge"))
	}))
	t.Cleanup(s.Close)
	for i := range 6 {
		h.ask("subscribe", topic, fmt.Sprintf("%s/%d", s.URL, i))
	}
	for range 3 {
		h.tick()
	}
	j.add(topic, "1")
	h.clock.advance(time.Minute)
	for range 5 {
		must(t, h.hub.Tick(ctx))
	}
	<-began
	<-began
	close(leave)
	h.hub.Wait()
	if n := len(began); n > 0 {
		t.Errorf("%d requests beyond two were begun", n)
	}
	h.tick()
	h.tick()
	if n := len(began); n != 4 {
		t.Errorf("got %d further requests, want 4", n)
	}
}

func TestASourceThatFailsIsReportedOnce(t *testing.T) {
	j, r := newJournal(topic), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j}, nil)
	h.subscribe(topic, r)
	j.add(topic, "1")
	j.err = errors.New("disk is on fire")
	for range 5 {
		h.later(time.Minute)
	}
	if got, want := h.reported(), "hub: topic "+topic+": disk is on fire"; got != want {
		t.Errorf("got reports %q, want %q", got, want)
	}
	if status, text := h.ask("subscribe", topic, r.URL); status != 503 || strings.Contains(text, "fire") {
		t.Errorf("got %d %q", status, text)
	}
	j.err = nil
	h.later(time.Minute)
	want(t, r.bodies(), []string{"1"})
}

func TestADamagedFileIsSetAside(t *testing.T) {
	r := newReceiver(t)
	h := newHouse(t, hub.Options{Source: newJournal(topic)}, nil)
	h.subscribe(topic, r, "secret", "s3cret")
	h.close()
	name := filepath.Join(h.path, "hub/subscriptions")
	whole, err := os.ReadFile(name)
	must(t, err)
	if st, err := os.Stat(filepath.Dir(name)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("got mode %v, %v, want 0700", st.Mode(), err)
	}
	for what, text := range map[string]string{
		"cut off":   string(whole[:len(whole)-6]),
		"garbage":   strings.Replace(string(whole), "{", "<", 1),
		"title":     "x" + string(whole),
		"too many":  string(whole[:strings.Index(string(whole), "\n")+1]) + string(whole),
		"empty one": "",
	} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
		if found := hub.Check(h.path); len(found) != 1 || found[0].Path != "hub/subscriptions" {
			t.Errorf("%s: got findings %v", what, found)
		}
		h.open(nil)
		h.wantStates("")
		if got := h.reported(); !strings.Contains(got, "moved to corrupt/subscriptions") {
			t.Errorf("%s: got reports %q", what, got)
		}
		aside := filepath.Join(h.path, "hub/corrupt/subscriptions")
		if bad, err := os.ReadFile(aside); err != nil || string(bad) != text {
			t.Errorf("%s: set aside %q, %v", what, bad, err)
		}
		must(t, os.Remove(aside))
		h.close()
	}
	must(t, os.WriteFile(name, whole, 0o600))
	must(t, os.WriteFile(filepath.Join(h.path, "hub/cutie-tmp-x"), nil, 0o600))
	h.open(nil)
	h.wantStates(topic + " verified=true signed=true external=false failures=0 expires in 240h0m0s\n")
	if _, err := os.Stat(filepath.Join(h.path, "hub/cutie-tmp-x")); err == nil {
		t.Error("what was unfinished is still there")
	}
}

func TestManySubscribersCostOneReader(t *testing.T) {
	j, r := newJournal(topic), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j, MostRequests: 100_000, PerHost: 64}, nil)
	const many = 200
	for i := range many {
		if status, text := h.ask("subscribe", topic, fmt.Sprintf("%s/%d", r.URL, i)); status != 202 {
			t.Fatal(status, text)
		}
	}
	drain := func() {
		for range many/32 + 2 { // new ones share half of 64 requests
			h.tick()
		}
	}
	drain()
	j.reads = 0
	j.add(topic, "1")
	h.clock.advance(time.Minute)
	drain()
	if got := len(r.bodies()); got != many || j.reads != 1 {
		t.Errorf("got %d deliveries and %d readings, want %d and 1", got, j.reads, many)
	}
}

func TestAGapIsCountedAndReported(t *testing.T) {
	j, r := newJournal(topic), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j}, nil)
	h.subscribe(topic, r)
	j.add(topic, "gap")
	h.tick()
	want(t, r.bodies(), []string{"gap"})
	h.wantReport("its Change Lists are gone")
	if st := h.hub.States(); len(st) != 1 || st[0].Missed != 1 {
		t.Errorf("got %+v", st)
	}
}
