package main_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/testdata/processes"
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
	must(t, err)
	for _, list := range lists {
		if !strings.Contains(list, set) {
			continue
		}
		_, text := send(t, http.DefaultClient, "GET", list, "")
		doc, err := parseDocument([]byte(text), "capabilitylist", strings.TrimSuffix(site, "/")+"/.well-known/resourcesync")
		must(t, err)
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
	must(t, err)
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
	c := channelOf(t, d.URL, "replica")
	if c.hub != d.URL+"hub" {
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
		work(t, d.URL, "jobs", 5)
		s.has(c.changes(t))
	}
	other.has(c.changes(t))
	before := s.known()

	if status, text := s.ask(c.hub, "unsubscribe", c.topic); status != http.StatusAccepted {
		t.Fatalf("unsubscribe: got %d %s", status, text)
	}
	eventually(t, "one subscription left", func() bool { return len(members(t, d.URL)) == 1 })
	work(t, d.URL, "jobs", 5)
	other.has(c.changes(t))
	eventually(t, "the subscriber as far as the queue", func() bool {
		m := members(t, d.URL)[0]
		return m.Position == m.Latest && strings.HasPrefix(m.Position, "24-") // events
	})
	if got := s.known(); got != before {
		t.Errorf("after unsubscribing: got %d more changes", got-before)
	}
	d.End(t)
	if said := d.Stderr.String(); said != "" {
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
	d := processes.Serve(t, home, args...)
	c, s := channelOf(t, d.URL, "pending"), newSubscriber(t)
	s.subscribe(c.hub, c.topic)
	work(t, d.URL, "jobs", 3)
	s.has(c.changes(t))
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusInternalServerError, 0} {
		s.answer(status)
		tries := s.tried()
		work(t, d.URL, "jobs", 3)
		if status != 0 {
			s.until("refused", func() bool { return s.tries > tries })
		}
		if err := d.Stop(syscall.SIGKILL); err == nil {
			t.Fatal("daemon survived")
		}
		s.answer(0)
		d = processes.Serve(t, home, args...)
		s.has(c.changes(t))
	}
	d.End(t)
	if out, err := cutie(t, "check", home); err != nil || !strings.HasSuffix(out, " 0 mended, 0 problems\n") {
		t.Errorf("check: %v: %s", err, out)
	}
}

func TestSubscribersThatHangOrFailHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	d := serve(t, "--allow-fetch", loopback)
	c := channelOf(t, d.URL, "replica")
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
		work(t, d.URL, "jobs", 4)
		fine.has(c.changes(t))
	}
	failing := 0
	for _, m := range members(t, d.URL) {
		if m.Failures > 0 && m.Error == "the subscriber answered 500" {
			failing++
		}
	}
	if failing != 8 {
		t.Errorf("%d subscribers are known to fail, want 8", failing)
	}
	d.End(t)
	close(leave)
}

func TestWhoMaySubscribe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, home := filepath.Join(dir, "users.txt"), filepath.Join(dir, "home")
	token := func(name, rights string) string {
		t.Helper()
		run(t, "user", "add", name, "--rights", rights, "--no-password", "--users", users)
		text := run(t, "token", "add", name, "--users", users)
		return "Bearer " + strings.TrimSpace(text)
	}
	tokens := map[string]string{"": "", "ann": token("ann", "read:jobs"), "bob": token("bob", "read:second"), "eve": token("eve", "submit:jobs")}
	for _, args := range [][]string{{"init", home}, {"createQueue", "jobs", "--home", home}, {"createQueue", "second", "--home", home}} {
		run(t, args...)
	}
	d := processes.Serve(t, home, "--users", users, "--allow-fetch", loopback)
	topic := d.URL + ".well-known/resourcesync/jobs/pending/change-notification.xml"
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
		if status, text := s.ask(d.URL+"hub", "subscribe", tt.topic, header...); status != tt.status || !strings.Contains(text, tt.text) {
			t.Errorf("%q, %s: got %d %q, want %d %q", tt.who, tt.topic, status, text, tt.status, tt.text)
		}
	}
	if resp, _ := send(t, http.DefaultClient, "POST", d.URL+"hub", ""); len(resp.Header.Values("WWW-Authenticate")) != 2 {
		t.Errorf("got %v, want two challenges", resp.Header)
	}
	if resp, text := send(t, http.DefaultClient, "GET", d.URL+"hub", "", "Authorization", tokens["ann"]); resp.StatusCode != http.StatusForbidden || strings.Contains(text, s.Listener.Addr().String()) {
		t.Errorf("who is subscribed is for administrators: got %s %s", resp.Status, text)
	}
	if resp, _ := send(t, http.DefaultClient, "POST", d.URL+"hub", "", "Authorization", tokens["ann"], "Origin", "http://evil.example"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site: got %s, want 403", resp.Status)
	}
}

func TestACallbackOnThisMachineIsRefusedAndSaysSo(t *testing.T) {
	t.Parallel()
	d := serve(t)
	c, s := channelOf(t, d.URL, "pending"), newSubscriber(t)
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
	c := channelOf(t, d.URL, "pending")
	if c.hub != hub.URL+"/push" {
		t.Fatalf("got channel %+v", c)
	}
	if resp, _ := send(t, http.DefaultClient, "POST", d.URL+"hub", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a hub of ours: got %s, want 404", resp.Status)
	}
	for n := 1; n <= 3; n++ {
		work(t, d.URL, "jobs", 1)
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
		c := advertised(t, d.URL, "pending", name)
		_, text := send(t, http.DefaultClient, "GET", c.topic, "")
		if _, err := parseDocument([]byte(text), name, strings.Replace(c.list, "changelist", "capabilitylist", 1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range [][]string{{"--change-capability", "a b"}, {"--hub", "hub.example.org"}, {"--hub-payload"}, {"--change-capability", "framework-notification"}} {
		if _, err := processes.Begin(t.TempDir(), filepath.Join(t.TempDir(), "home"), bad...); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// denied waits until the hub has said that a subscription has ended.
func (s *subscriber) denied() {
	s.t.Helper()
	s.until("told that it may no longer", func() bool {
		for _, args := range s.asked {
			if args.Get("hub.mode") == "denied" && args.Get("hub.reason") != "" {
				return true
			}
		}
		return false
	})
}

func TestASubscriptionEndsWithTheRightToRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, home := filepath.Join(dir, "users.txt"), filepath.Join(dir, "home")
	run := func(args ...string) string {
		t.Helper()
		text := run(t, append(args, "--users", users)...)
		return strings.TrimSpace(text)
	}
	var all []*subscriber
	as := map[string]string{}
	for _, name := range []string{"ann", "bob", "eve"} {
		run("user", "add", name, "--rights", "read,submit", "--no-password")
		as[name] = "Bearer " + run("token", "add", name, "--name", name+"-token")
		all = append(all, newSubscriber(t))
	}
	ann, bob, eve := all[0], all[1], all[2]
	args := []string{"--users", users, "--allow-fetch", loopback,
		"--listen", fmt.Sprintf("127.%d.%d.%d:8094", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))}
	d := processes.Serve(t, home, args...)
	topic := d.URL + ".well-known/resourcesync/jobs/pending/change-notification.xml"
	again := func(more ...string) {
		t.Helper()
		d.End(t)
		d = processes.Serve(t, home, append(args, more...)...)
	}
	for i, name := range []string{"ann", "bob", "eve"} {
		if status, text := all[i].ask(d.URL+"hub", "subscribe", topic, "Authorization", as[name]); status != http.StatusAccepted {
			t.Fatalf("%s: got %d %s", name, status, text)
		}
		all[i].until("asked whether it did", func() bool { return len(all[i].asked) > 0 })
	}
	submit := func(n int, to ...*subscriber) {
		t.Helper()
		if resp, text := send(t, http.DefaultClient, "POST", d.URL+"content/jobs", "x", "Authorization", as["eve"]); resp.StatusCode != http.StatusCreated {
			t.Fatalf("got %s: %s", resp.Status, text)
		}
		for _, s := range to {
			s.until("the change", func() bool { return len(s.changes) == n })
		}
	}
	submit(1, ann, bob, eve)
	run("token", "rm", "ann-token")
	submit(2, bob, eve)
	ann.denied()
	run("user", "set", "bob", "--rights", "submit")
	again()
	submit(3, eve)
	bob.denied()
	if ann.known() != 1 || bob.known() != 2 {
		t.Errorf("got %d and %d changes, want 1 and 2", ann.known(), bob.known())
	}
	// What everybody may they may too, and who has no name is asked about as well.
	run("user", "rm", "eve")
	stranger := newSubscriber(t)
	again("--anonymous", "read,submit")
	if status, text := stranger.ask(d.URL+"hub", "subscribe", topic); status != http.StatusAccepted {
		t.Fatalf("got %d %s", status, text)
	}
	stranger.until("asked whether it did", func() bool { return len(stranger.asked) > 0 })
	as["eve"] = ""
	submit(4, eve)
	stranger.until("the change", func() bool { return len(stranger.changes) == 1 })
}

// The subscriber of the tests knows WebSub (W3C Recommendation of 23 January
// 2018) and Z39.99-2017, and nothing of this program.

// A subscriber has a callback on loopback.
type subscriber struct {
	*httptest.Server
	t      *testing.T
	secret string
	news   chan struct{} // something has come, or has been asked

	mu       sync.Mutex
	wants    string         // hub.mode that it confirms
	status   int            // of its answers to content; 0: 204
	hangs    chan struct{}  // content is answered when it is closed; nil: at once
	asked    []url.Values   // what it was to confirm
	tries    int            // times that content came
	changes  []rsEntry      // of what it acknowledged, each once
	seen     map[string]int // entries by their text: how often they came
	problems []error
}

func newSubscriber(t *testing.T) *subscriber {
	s := &subscriber{t: t, secret: "the secret of " + t.Name(), news: make(chan struct{}, 1), wants: "subscribe", seen: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		for _, err := range s.problems {
			t.Error(err)
		}
	})
	return s
}

func (s *subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		select {
		case s.news <- struct{}{}:
		default:
		}
	}()
	if r.Method == http.MethodGet {
		s.confirm(w, r.URL.Query())
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.tries++
	status, hangs := s.status, s.hangs
	if status == 0 && hangs == nil {
		if err := s.take(r.Header, body); err != nil {
			s.problems = append(s.problems, err)
		}
		status = http.StatusNoContent
	}
	s.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
		return
	}
	w.WriteHeader(status)
}

// confirm answers a hub that asks whether we did (5.3).
func (s *subscriber) confirm(w http.ResponseWriter, args url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, args)
	if args.Get("hub.mode") != s.wants {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	io.WriteString(w, args.Get("hub.challenge"))
}

var linkForm = regexp.MustCompile(`<([^>]*)>; rel="(hub|self)"`)

// links reads a Link header field of a hub (4).
func links(header http.Header) map[string]string {
	m := map[string]string{}
	for _, l := range linkForm.FindAllStringSubmatch(header.Get("Link"), -1) {
		m[l[2]] = l[1]
	}
	return m
}

// take receives content (7, 8).
func (s *subscriber) take(header http.Header, body []byte) error {
	mac := hmac.New(sha256.New, []byte(s.secret))
	mac.Write(body)
	if got, want := header.Get("X-Hub-Signature"), "sha256="+hex.EncodeToString(mac.Sum(nil)); got != want {
		return fmt.Errorf("got signature %q, want %q", got, want)
	}
	l := links(header)
	if l["hub"] == "" || l["self"] == "" || header.Get("Content-Type") != "application/xml" {
		return fmt.Errorf("got headers %v, want links to hub and topic, and XML", header)
	}
	doc, err := parseDocument(body, "changelist-notification", strings.Replace(l["self"], "change-notification", "capabilitylist", 1))
	if err != nil {
		return err
	}
	if doc.link("self") != l["self"] || doc.link("hub") != l["hub"] {
		return fmt.Errorf("the document has links %v, its header %v", doc.Links, l)
	}
	if len(doc.URLs) == 0 {
		return errors.New("a notification of nothing")
	}
	for _, e := range doc.URLs {
		key := fmt.Sprint(e.Loc, e.MD.Change, e.MD.DateTime)
		if s.seen[key]++; s.seen[key] == 1 {
			s.changes = append(s.changes, e)
		}
	}
	return nil
}

// until waits for something that only a request of the hub can bring about.
func (s *subscriber) until(what string, ask func() bool) {
	s.t.Helper()
	limit := time.After(processes.Limit)
	for {
		s.mu.Lock()
		ok := ask()
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-s.news:
		case <-limit:
			s.t.Fatalf("not after %v: %s", processes.Limit, what)
		}
	}
}

// has waits for all changes of a list, and compares them in their order.
func (s *subscriber) has(list *rsDocument) {
	s.t.Helper()
	s.until(fmt.Sprintf("%d changes", len(list.URLs)), func() bool { return len(s.changes) >= len(list.URLs) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if got, want := fmt.Sprint(s.changes), fmt.Sprint(list.URLs); got != want {
		s.t.Errorf("got changes %s, want %s", got, want)
	}
}

// known is how many changes it has.
func (s *subscriber) known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.changes)
}

// tried is how often content came, acknowledged or not.
func (s *subscriber) tried() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}

func (s *subscriber) answer(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// ask makes a request of a hub (5.1).
func (s *subscriber) ask(hub, mode, topic string, header ...string) (status int, text string) {
	s.t.Helper()
	s.mu.Lock()
	s.wants = mode
	s.mu.Unlock()
	form := url.Values{"hub.mode": {mode}, "hub.topic": {topic}, "hub.callback": {s.URL + "/cb"}}
	if mode == "subscribe" {
		form.Set("hub.secret", s.secret)
		form.Set("hub.lease_seconds", strconv.Itoa(3600))
	}
	resp, text := send(s.t, http.DefaultClient, "POST", hub, form.Encode(), append(header, "Content-Type", "application/x-www-form-urlencoded")...)
	return resp.StatusCode, text
}

// subscribe returns when the hub has had the confirmation.
func (s *subscriber) subscribe(hub, topic string) {
	s.t.Helper()
	if status, text := s.ask(hub, "subscribe", topic); status != http.StatusAccepted {
		s.t.Fatalf("subscribe: got %d %s", status, text)
	}
	s.until("asked whether it did", func() bool { return len(s.asked) > 0 })
}

// A pinged hub is one of somebody else, which is told that topics have changed.
type pinged struct {
	*httptest.Server
	t      *testing.T
	topics chan string
}

func newPinged(t *testing.T) *pinged {
	p := &pinged{t: t, topics: make(chan string, 100)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/push" || r.FormValue("hub.mode") != "publish" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		p.topics <- r.FormValue("hub.topic")
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(p.Close)
	return p
}

// until waits for a ping about a topic.
func (p *pinged) until(topic string) {
	p.t.Helper()
	limit := time.After(processes.Limit)
	for {
		select {
		case got := <-p.topics:
			if got == topic {
				return
			}
		case <-limit:
			p.t.Fatalf("no ping about %s after %v", topic, processes.Limit)
		}
	}
}

// Readers learn scheme and host of a callback. The rest is in no document, in no log,
// and in no file but one, also if it was set by hand or by a former version.
func TestURLOfACallbackIsASecret(t *testing.T) {
	t.Parallel()
	var told atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/kept-apart") {
			told.Add(1)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer receiver.Close()
	home := filepath.Join(t.TempDir(), "home")
	d := processes.Serve(t, home, "--allow-fetch", "127.0.0.1")
	info := filepath.Join(home, "queues/jobs/queue-info.txt")
	check := func(how string) {
		t.Helper()
		before := told.Load()
		if resp, text := send(t, http.DefaultClient, "POST", d.URL+"content/jobs", "x"); resp.StatusCode != 201 {
			t.Fatalf("got %s, %s", resp.Status, text)
		}
		eventually(t, how+": told", func() bool { return told.Load() > before })
		eventually(t, how+": hidden", func() bool { return !strings.Contains(readFile(t, info), "kept-apart") })
		for _, path := range []string{"state/jobs", "state/jobs?t=anvl", "queues/jobs/queue-info.txt", "metrics", "uws/jobs/capabilities",
			".well-known/resourcesync/jobs/replica/resourcelist.xml"} {
			_, text := send(t, http.DefaultClient, "GET", d.URL+path, "")
			if strings.Contains(text, "kept-apart") {
				t.Errorf("%s: /%s: got %s", how, path, text)
			}
			if strings.Contains(path, "info") && !strings.Contains(text, "callback: "+receiver.URL+"\n") {
				t.Errorf("%s: got %s, want the host", how, text)
			}
		}
	}
	run(t, "--home", home, "set", "jobs", "--callback", receiver.URL+"/kept-apart?key=1")
	check("set")
	// What everybody sees can be given back.
	if resp, text := send(t, http.DefaultClient, "POST", d.URL+"state/jobs", "callback="+receiver.URL, "Content-Type", "application/x-www-form-urlencoded"); resp.StatusCode != 200 {
		t.Fatalf("got %s, %s", resp.Status, text)
	}
	check("given back")
	text := strings.Replace(readFile(t, info), "callback: "+receiver.URL, "callback: "+receiver.URL+"/kept-apart2", 1)
	must(t, os.WriteFile(info, []byte(text), 0o600))
	eventually(t, "read and concealed", func() bool { return !strings.Contains(readFile(t, info), "kept-apart2") })
	check("by hand")
	table := filepath.Join(home, "log", "table")
	if st, err := os.Stat(table); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", st, err)
	}
	if !strings.Contains(readFile(t, table), receiver.URL+"/kept-apart2\n") {
		t.Error("the table does not have the URL")
	}
	if strings.Contains(d.Stderr.String(), "kept-apart") {
		t.Errorf("got %s", d.Stderr.String())
	}
}
