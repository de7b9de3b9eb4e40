package hub_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"cutie/publisher/hub"
	"cutie/sitemap"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"
	"time"
)

// A town is a hub, the topic of its Source, and a subscriber, each of them
// reached over a connection.
type town struct {
	*house
	j     *journal
	topic string // served with links, by the way of mode

	sub      *hub.Subscriber
	callback string

	lock sync.Mutex
	last url.Values // the last request to the hub
	mode string
	got  []string
	fail error
}

func newTown(t *testing.T) *town {
	w := &town{mode: "header"}
	site := httptest.NewServer(w)
	t.Cleanup(site.Close)
	w.topic, w.callback = site.URL+"/topic.xml", site.URL+"/push"
	w.j = newJournal(w.topic)
	w.house = newHouse(t, hub.Options{Source: w.j}, nil)
	w.openSubscriber()
	return w
}

func (w *town) openSubscriber() {
	w.Helper()
	var err error
	w.sub, err = hub.NewSubscriber(hub.SubscriberOptions{Callback: w.callback, Client: client(w, "127.0.0.1").HTTP(),
		Receive: w.receive, MaxBody: 1000, Report: w.report, Now: w.clock.now})
	must(w, err)
}

func (w *town) receive(topic string, body []byte) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.fail != nil {
		return w.fail
	}
	w.got = append(w.got, path.Base(topic)+" "+string(body))
	return nil
}

func (w *town) received() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	got := w.got
	w.got = nil
	return got
}

// ServeHTTP is the site of all of them.
func (w *town) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	own := strings.TrimSuffix(w.topic, "/topic.xml") + "/hub"
	switch {
	case r.URL.Path == "/hub":
		body, _ := io.ReadAll(r.Body)
		w.lock.Lock()
		w.last, _ = url.ParseQuery(string(body))
		w.lock.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.hub.ServeHTTP(rw, r)
	case strings.HasPrefix(r.URL.Path, "/push/"):
		w.sub.ServeHTTP(rw, r)
	case w.mode == "header":
		rw.Header().Set("Link", hub.Links("/topic.xml", "http://127.0.0.1:1/dead", own))
	case w.mode == "document":
		rw.Write(sitemap.AppendFoot(sitemap.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeNotification,
			Links: []sitemap.Link{{Rel: "hub", Href: "/hub"}, {Rel: "self", Href: w.topic}}}), sitemap.URLSet))
	case w.mode == "two topics":
		rw.Header().Set("Link", `</hub>; rel="hub", <a>; rel="self", <b>; rel="self"`)
	case w.mode == "gone":
		http.NotFound(rw, r)
	default:
		rw.Write([]byte("<html></html>"))
	}
}

func TestBothEndsMeet(t *testing.T) {
	w := newTown(t)
	for _, mode := range []string{"header", "document"} {
		w.mode = mode
		got, err := w.sub.Subscribe(ctx, strings.Replace(w.topic, "topic.xml", "page?x=1", 1))
		must(t, err)
		if got != w.topic {
			t.Errorf("got topic %s, want %s", got, w.topic)
		}
		w.tick()
		w.wantStates(w.topic + " verified=true signed=true external=false failures=0 expires in 240h0m0s\n")
		w.j.add(w.topic, mode)
		w.later(time.Minute)
		want(t, w.received(), []string{"topic.xml " + mode})
	}
	must(t, w.sub.Unsubscribe(ctx))
	w.j.add(w.topic, "late")
	w.tick()
	w.wantStates("")
	want(t, w.received(), nil)
	for mode, words := range map[string]string{"none": "names no hub or no topic", "two topics": "names no hub or no topic", "gone": "it answered 404"} {
		w.mode = mode
		if _, err := w.sub.Subscribe(ctx, w.topic); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: got %v, want %s", mode, err, words)
		}
	}
	if _, err := w.sub.Subscribe(ctx, "ftp://x/"); err == nil {
		t.Error("subscribed to what is no URL of HTTP")
	}
}

func TestAHubThatRefusesIsQuoted(t *testing.T) {
	w := newTown(t)
	w.j.remove(w.topic)
	_, err := w.sub.Subscribe(ctx, w.topic)
	if err == nil || !strings.Contains(err.Error(), `answered 404: "hub.topic is none of this hub`) || !strings.Contains(err.Error(), "/dead: ") {
		t.Errorf("got %v", err)
	}
	w.j.add(w.topic)
	w.sub.Tick(ctx)
	w.tick()
	w.wantStates("") // it is not kept
}

func TestWhatIsNotReceivedComesAgain(t *testing.T) {
	w := newTown(t)
	_, err := w.sub.Subscribe(ctx, w.topic)
	must(t, err)
	w.tick()
	w.fail = errors.New("disk is full")
	w.j.add(w.topic, "1")
	w.tick()
	w.fail = nil
	if got := w.reported(); !strings.Contains(got, "disk is full") {
		t.Errorf("got reports %q", got)
	}
	w.later(time.Hour)
	want(t, w.received(), []string{"topic.xml 1"})
}

// callbackOf returns the URL and the secret of the subscription, as the hub was told.
func (w *town) callbackOf() (callback, secret string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.last.Get("hub.callback"), w.last.Get("hub.secret")
}

// sign returns the signature of a body by a method.
func sign(method, secret, body string) string {
	mac := hmac.New(map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}[method], []byte(secret))
	io.WriteString(mac, body)
	return method + "=" + hex.EncodeToString(mac.Sum(nil))
}

func TestOnlyTheHubIsBelieved(t *testing.T) {
	w := newTown(t)
	_, err := w.sub.Subscribe(ctx, w.topic)
	must(t, err)
	w.tick()
	callback, secret := w.callbackOf()
	post := func(callback, body, signature string) int {
		t.Helper()
		req, err := http.NewRequest("POST", callback, strings.NewReader(body))
		must(t, err)
		req.Header.Set("Content-Type", "text/plain")
		if signature != "" {
			req.Header.Set("X-Hub-Signature", signature)
		}
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	good := func(method, body string) string { return sign(method, secret, body) }
	for _, tt := range []struct {
		callback, body, signature string
		status                    int
	}{
		{callback, "a", "", 403},
		{callback, "a", "sha256=", 403},
		{callback, "a", good("sha256", "b"), 403},
		{callback, "a", sign("sha256", "", "a"), 403},
		{callback, "a", strings.Replace(good("sha256", "a"), "sha256", "md5", 1), 403},
		{callback + "x", "a", good("sha256", "a"), 410},
		{callback, strings.Repeat("x", 1001), good("sha256", strings.Repeat("x", 1001)), 413},
		{callback, "a", good("sha256", "a"), 204},
		{callback, "b", good("sha1", "b"), 204},
		{callback, "c", strings.ToUpper(good("sha384", "c")[7:]), 403},
		{callback, "c", good("sha384", "c"), 204},
		{callback, "a", good("sha512", "a"), 204},
	} {
		if got := post(tt.callback, tt.body, tt.signature); got != tt.status {
			t.Errorf("%.5s %.20s: got %d, want %d", tt.body, tt.signature, got, tt.status)
		}
	}
	const p = "topic.xml "
	want(t, w.received(), []string{p + "a", p + "b", p + "c", p + "a"})
	confirm := func(mode, topic string) (int, string) {
		t.Helper()
		args := url.Values{"hub.mode": {mode}, "hub.topic": {topic}, "hub.challenge": {"word"}, "hub.lease_seconds": {"60"}}
		resp, err := http.Get(callback + "?" + args.Encode())
		must(t, err)
		defer resp.Body.Close()
		var body bytes.Buffer
		body.ReadFrom(resp.Body)
		return resp.StatusCode, body.String()
	}
	for _, tt := range [][2]string{{"subscribe", w.topic}, {"unsubscribe", w.topic}, {"", w.topic}, {"denied", "http://other.test/"}} {
		if status, body := confirm(tt[0], tt[1]); status != 404 || body == "word" {
			t.Errorf("%v: got %d %q: nobody asked for this", tt, status, body)
		}
	}
}

func TestSubscriptionsAreRenewed(t *testing.T) {
	const day = 24 * time.Hour
	w := newTown(t)
	_, err := w.sub.Subscribe(ctx, w.topic)
	must(t, err)
	w.tick()
	first, _ := w.callbackOf()
	run := func(d time.Duration) {
		t.Helper()
		w.clock.advance(d)
		w.sub.Tick(ctx)
		w.tick()
	}
	run(6 * day)
	w.wantStates(w.topic + " verified=true signed=true external=false failures=0 expires in 96h0m0s\n")
	run(day)
	w.wantStates(w.topic + " verified=true signed=true external=false failures=0 expires in 240h0m0s\n")
	if again, _ := w.callbackOf(); again != first {
		t.Errorf("got callback %s, want %s", again, first)
	}
	// The hub goes away for long enough, and comes back without knowing us.
	w.close()
	w.damageRows(func([]byte) []byte { return nil })
	w.opts.Permit = func(http.Header, *http.Request, string) (string, error) { return "", errors.New("not now") }
	w.open(nil)
	for range 12 {
		run(day)
	}
	if got := w.reported(); strings.Count(got, "the lease has ended") != 1 || !strings.Contains(got, "not now") {
		t.Errorf("got reports %q", got)
	}
	w.opts.Permit = nil
	w.close()
	w.open(nil)
	run(2 * day)
	w.wantStates(w.topic + " verified=true signed=true external=false failures=0 expires in 240h0m0s\n")
	// It denies us, and is asked again later.
	w.j.remove(w.topic)
	w.tick()
	if got := w.reported(); !strings.Contains(got, "denies "+w.topic+`: "the topic is no longer there"`) {
		t.Errorf("got reports %q", got)
	}
	w.j.add(w.topic)
	w.wantStates("")
	run(time.Hour)
	w.wantStates(w.topic + " verified=true signed=true external=false failures=0 expires in 240h0m0s\n")
}

// A hub that still knows an earlier process is told to forget it.
func TestASubscriptionOfAnEarlierProcessEnds(t *testing.T) {
	w := newTown(t)
	_, err := w.sub.Subscribe(ctx, w.topic)
	must(t, err)
	w.tick()
	w.openSubscriber()
	w.j.add(w.topic, "1")
	w.tick()
	want(t, w.received(), nil)
	w.wantStates("")
}
