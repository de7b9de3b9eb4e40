package main_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// channel is a topic of notifications as a Capability List advertises it.
type channel struct{ topic, hub, list string }

// channelOf finds the changes of a set from nothing but the site.
func channelOf(t *testing.T, site, set string) channel {
	t.Helper()
	return advertised(t, site, set, "changelist-notification")
}

func advertised(t *testing.T, site, set, capability string) (c channel) {
	t.Helper()
	lists, err := sets(http.DefaultClient, site, func(*rsDocument) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		if !strings.Contains(list, set) {
			continue
		}
		_, text := send(t, http.DefaultClient, "GET", list, "")
		doc, err := parseDocument([]byte(text), "capabilitylist", strings.TrimSuffix(site, "/")+"/.well-known/resourcesync")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range doc.URLs {
			if e.MD.Capability == capability {
				c.topic, c.list = e.Loc, strings.Replace(list, "capabilitylist", "changelist", 1)
				for _, l := range e.Links {
					if l.Rel == "hub" {
						c.hub = l.Href
					}
				}
			}
		}
	}
	return c
}

// changes reads the open Change List of the channel's set.
func (c channel) changes(t *testing.T) *rsDocument {
	t.Helper()
	_, text := send(t, http.DefaultClient, "GET", c.list, "")
	doc, err := parseDocument([]byte(text), "changelist", strings.Replace(c.list, "changelist", "capabilitylist", 1))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// work submits jobs and takes some of them.
func work(t *testing.T, site, queue string, n int) {
	t.Helper()
	for i := range n {
		if resp, text := send(t, http.DefaultClient, "POST", site+"content/"+queue, fmt.Sprintf("payload %d", i), "Content-Type", "text/plain"); resp.StatusCode != http.StatusCreated {
			t.Fatalf("got %s: %s", resp.Status, text)
		}
		if i%3 == 2 {
			if resp, text := send(t, http.DefaultClient, "POST", site+"consume/"+queue, ""); resp.StatusCode != http.StatusOK {
				t.Fatalf("got %s: %s", resp.Status, text)
			}
		}
	}
}

// members are the subscriptions that an administrator sees.
func members(t *testing.T, site string) (all []struct {
	Topic, Error               string
	Position, Latest           string
	Verified, Signed, External bool
	Failures                   int
}) {
	t.Helper()
	resp, text := send(t, http.DefaultClient, "GET", site+"hub", "")
	var got struct {
		Hub           string
		Subscriptions any
	}
	got.Subscriptions = &all
	if err := json.Unmarshal([]byte(text), &got); err != nil || resp.StatusCode != http.StatusOK || got.Hub != site+"hub" {
		t.Fatalf("%s: %v: %s", resp.Status, err, text)
	}
	return all
}

const loopback = "127.0.0.1" // for --allow-fetch

func TestChangesArePushedUntilTheSubscriberEndsIt(t *testing.T) {
	t.Parallel()
	d := serve(t, "--allow-fetch", loopback)
	c := channelOf(t, d.url, "replica")
	if c.hub != d.url+"hub" {
		t.Fatalf("got channel %+v", c)
	}
	resp, _ := send(t, http.DefaultClient, "GET", c.topic, "")
	if l := links(resp.Header); l["hub"] != c.hub || l["self"] != c.topic || resp.Header.Get("ETag") == "" {
		t.Errorf("topic: got headers %v", resp.Header)
	}
	if resp, _ := send(t, http.DefaultClient, "GET", c.topic, "", "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != http.StatusNotModified {
		t.Errorf("topic again: got %s, want 304", resp.Status)
	}

	s, other := newSubscriber(t), newSubscriber(t)
	s.subscribe(c.hub, c.topic)
	other.subscribe(c.hub, c.topic)
	if a := s.asked[0]; a.Get("hub.topic") != c.topic || a.Get("hub.lease_seconds") != "3600" || len(a.Get("hub.challenge")) < 16 {
		t.Errorf("asked %v", a)
	}
	for range 3 {
		work(t, d.url, "jobs", 5)
		s.has(c.changes(t))
	}
	other.has(c.changes(t))
	before := s.known()

	if status, text := s.ask(c.hub, "unsubscribe", c.topic); status != http.StatusAccepted {
		t.Fatalf("unsubscribe: got %d %s", status, text)
	}
	until(t, "one subscription left", func() bool { return len(members(t, d.url)) == 1 })
	work(t, d.url, "jobs", 5)
	other.has(c.changes(t))
	until(t, "the subscriber as far as the queue", func() bool {
		m := members(t, d.url)[0]
		return m.Position == m.Latest && strings.HasPrefix(m.Position, "24-") // events
	})
	if got := s.known(); got != before {
		t.Errorf("after unsubscribing: got %d more changes", got-before)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Errorf("daemon ended badly: %v", err)
	}
	if said := d.stderr.String(); said != "" {
		t.Errorf("the daemon said: %s", said)
	}
}

// What happens is delivered although the daemon is killed before it was, over
// and over.
func TestAKillDelaysPushAndLosesNothing(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	// References must stay what they are, so all daemons have one address.
	args := []string{"--allow-fetch", loopback, "--listen", fmt.Sprintf("127.%d.%d.%d:8093", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))}
	d := serveHome(t, home, args...)
	c, s := channelOf(t, d.url, "pending"), newSubscriber(t)
	s.subscribe(c.hub, c.topic)
	work(t, d.url, "jobs", 3)
	s.has(c.changes(t))
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusInternalServerError, 0} {
		s.answer(status)
		tries := s.tried()
		work(t, d.url, "jobs", 3)
		if status != 0 {
			s.until("refused", func() bool { return s.tries > tries })
		}
		if err := d.stop(syscall.SIGKILL); err == nil {
			t.Fatal("daemon survived")
		}
		s.answer(0)
		d = serveHome(t, home, args...)
		s.has(c.changes(t))
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Errorf("daemon ended badly: %v", err)
	}
	if out, err := cutie(t, "check", home); err != nil || !strings.HasSuffix(out, " 0 mended, 0 problems\n") {
		t.Errorf("check: %v: %s", err, out)
	}
}

func TestSubscribersThatHangOrFailHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	d := serve(t, "--allow-fetch", loopback)
	c := channelOf(t, d.url, "replica")
	leave := make(chan struct{})
	for range 8 {
		hangs, fails := newSubscriber(t), newSubscriber(t)
		hangs.hangs, fails.status = leave, http.StatusInternalServerError
		hangs.subscribe(c.hub, c.topic)
		fails.subscribe(c.hub, c.topic)
	}
	fine := newSubscriber(t)
	fine.subscribe(c.hub, c.topic)
	for range 3 {
		work(t, d.url, "jobs", 4)
		fine.has(c.changes(t))
	}
	failing := 0
	for _, m := range members(t, d.url) {
		if m.Failures > 0 && m.Error == "the subscriber answered 500" {
			failing++
		}
	}
	if failing != 8 {
		t.Errorf("%d subscribers are known to fail, want 8", failing)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Errorf("daemon ended badly: %v", err)
	}
	close(leave)
}

func TestWhoMaySubscribe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, home := filepath.Join(dir, "users.txt"), filepath.Join(dir, "home")
	token := func(name, rights string) string {
		t.Helper()
		if _, err := cutie(t, "user", "add", name, "--rights", rights, "--no-password", "--users", users); err != nil {
			t.Fatal(err)
		}
		text, err := cutie(t, "token", "add", name, "--users", users)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + strings.TrimSpace(text)
	}
	tokens := map[string]string{"": "", "ann": token("ann", "read:jobs"), "bob": token("bob", "read:second"), "eve": token("eve", "submit:jobs")}
	for _, args := range [][]string{{"init", home}, {"createQueue", "jobs", "--home", home}, {"createQueue", "second", "--home", home}} {
		if _, err := cutie(t, args...); err != nil {
			t.Fatal(err)
		}
	}
	d := serveHome(t, home, "--users", users, "--allow-fetch", loopback)
	topic := d.url + ".well-known/resourcesync/jobs/pending/change-notification.xml"
	s := newSubscriber(t)
	for _, tt := range []struct {
		who, topic string
		status     int
		text       string
	}{
		{"", topic, 401, ""},
		{"", topic + "x", 401, ""},
		{"ann", topic, 202, ""},
		{"ann", topic + "x", 404, "hub.topic is none of this hub"},
		{"bob", topic, 403, "bob has no right to read here"},
		{"bob", topic + "x", 404, "hub.topic is none of this hub"},
		{"eve", topic, 403, "eve has no right to read"},
		{"eve", topic + "x", 403, "eve has no right to read"},
	} {
		var header []string
		if tt.who != "" {
			header = []string{"Authorization", tokens[tt.who]}
		}
		if status, text := s.ask(d.url+"hub", "subscribe", tt.topic, header...); status != tt.status || !strings.Contains(text, tt.text) {
			t.Errorf("%q, %s: got %d %q, want %d %q", tt.who, tt.topic, status, text, tt.status, tt.text)
		}
	}
	if resp, _ := send(t, http.DefaultClient, "POST", d.url+"hub", ""); len(resp.Header.Values("WWW-Authenticate")) != 2 {
		t.Errorf("got %v, want two challenges", resp.Header)
	}
	if resp, text := send(t, http.DefaultClient, "GET", d.url+"hub", "", "Authorization", tokens["ann"]); resp.StatusCode != http.StatusForbidden || strings.Contains(text, s.Listener.Addr().String()) {
		t.Errorf("who is subscribed is for administrators: got %s %s", resp.Status, text)
	}
	if resp, _ := send(t, http.DefaultClient, "POST", d.url+"hub", "", "Authorization", tokens["ann"], "Origin", "http://evil.example"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site: got %s, want 403", resp.Status)
	}
}

func TestACallbackOnThisMachineIsRefusedAndSaysSo(t *testing.T) {
	t.Parallel()
	d := serve(t)
	c, s := channelOf(t, d.url, "pending"), newSubscriber(t)
	status, text := s.ask(c.hub, "subscribe", c.topic)
	if want := "hub.callback: refused: the host is not known, or its address is not public and not allowed here; who runs this hub can allow it with --allow-fetch\n"; status != http.StatusForbidden || text != want {
		t.Errorf("got %d %q, want 403 %q", status, text, want)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) > 0 {
		t.Errorf("the callback was asked: %v", s.asked)
	}
	// A name that nobody knows is told of in the same words.
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {c.topic}, "hub.callback": {"http://cutie.invalid/"}}
	resp, unknown := send(t, http.DefaultClient, "POST", c.hub, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	if resp.StatusCode != status || unknown != text {
		t.Errorf("unknown: got %s %q, want %d %q", resp.Status, unknown, status, text)
	}
}

// A hub of somebody else is pinged, and fetches what a GET of the topic has.
func TestOtherHubsArePinged(t *testing.T) {
	t.Parallel()
	hub := newPinged(t)
	d := serve(t, "--allow-fetch", loopback, "--no-hub", "--hub", hub.URL+"/push")
	c := channelOf(t, d.url, "pending")
	if c.hub != hub.URL+"/push" {
		t.Fatalf("got channel %+v", c)
	}
	if resp, _ := send(t, http.DefaultClient, "POST", d.url+"hub", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a hub of ours: got %s, want 404", resp.Status)
	}
	for n := 1; n <= 3; n++ {
		work(t, d.url, "jobs", 1)
		hub.until(c.topic)
		_, text := send(t, http.DefaultClient, "GET", c.topic, "")
		doc, err := parseDocument([]byte(text), "changelist-notification", strings.Replace(c.list, "changelist", "capabilitylist", 1))
		if err != nil || len(doc.URLs) != n || doc.link("hub") != c.hub {
			t.Errorf("got %v, %+v, want %d changes", err, doc, n)
		}
	}
}

func TestNotificationsHaveTheNamesThatWereAskedFor(t *testing.T) {
	t.Parallel()
	d := serve(t, "--change-capability", "change-notification", "--framework-capability", "source-notification")
	for _, name := range []string{"change-notification", "source-notification"} {
		c := advertised(t, d.url, "pending", name)
		_, text := send(t, http.DefaultClient, "GET", c.topic, "")
		if _, err := parseDocument([]byte(text), name, strings.Replace(c.list, "changelist", "capabilitylist", 1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range [][]string{{"--change-capability", "a b"}, {"--hub", "hub.example.org"}, {"--hub-payload"}, {"--change-capability", "framework-notification"}} {
		if _, err := start(t.TempDir(), filepath.Join(t.TempDir(), "home"), bad...); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
