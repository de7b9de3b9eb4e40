package hub_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"cutie/publisher/hub"
	"cutie/queuefs/buffers"
)

// unknown is an error with a status of its own.
type unknown struct{}

func (unknown) Error() string   { return "who are you" }
func (unknown) HTTPStatus() int { return http.StatusUnauthorized }

// full is a budget with nothing left.
type full struct{}

func (full) TakeMany(netip.Addr, int) bool { return false }
func (full) LeaveMany(netip.Addr, int)     {}

func TestRequestIsRefusedWithoutMemoryForIt(t *testing.T) {
	h := newHouse(t, hub.Options{Source: newJournal(topic)}, nil)
	var memory buffers.Account
	memory.Open(full{}, netip.Addr{})
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {"http://a.test/"}, "hub.secret": {strings.Repeat("x", 9<<10)}}
	r := httptest.NewRequest("POST", "/hub", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.hub.ServeHTTP(w, r.WithContext(buffers.With(r.Context(), &memory)))
	if w.Code != 503 || !strings.Contains(w.Body.String(), "memory") || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %q %v, want 503", w.Code, w.Body, w.Header())
	}
	h.wantStates("")
}

func TestRequestsThatAreRefused(t *testing.T) {
	j := newJournal(topic, "http://source.test/secret.xml")
	h := newHouse(t, hub.Options{Source: j, Permit: func(answer http.Header, _ *http.Request, topic string) (string, error) {
		switch {
		case strings.Contains(topic, "secret"):
			return "", errors.New("you may not read the queue")
		case strings.Contains(topic, "private"):
			answer.Set("WWW-Authenticate", "Basic")
			return "", unknown{}
		}
		return "", nil
	}}, nil)
	const cb = "http://a.test/cb"
	for _, tt := range []struct {
		mode, topic, callback string
		args                  []string
		status                int
		text                  string
	}{
		{"", topic, cb, nil, 400, "hub.mode is neither subscribe nor unsubscribe"},
		{"publish", topic, cb, nil, 400, "this hub distributes topics of its own site alone"},
		{"subscribe", "", cb, nil, 400, "hub.topic is not a URL"},
		{"subscribe", "http://source.test/other", cb, nil, 404, "hub.topic is none of this hub; the link with rel=self names the topic"},
		{"subscribe", "http://source.test/secret.xml", cb, nil, 403, "you may not read the queue"},
		{"subscribe", "http://source.test/private.xml", cb, nil, 401, "who are you"},
		{"subscribe", topic, "", nil, 400, "hub.callback: not an absolute http or https URL"},
		{"subscribe", topic, "ftp://a.test/", nil, 400, "hub.callback: not an absolute http or https URL"},
		{"subscribe", topic, "http://u:p@a.test/", nil, 400, "hub.callback: has a user or a password"},
		{"subscribe", topic, cb + "#x", nil, 400, "hub.callback: has a fragment"},
		{"subscribe", topic, cb + "?" + strings.Repeat("x", 2048), nil, 400, "hub.callback: longer than 2048 octets"},
		{"subscribe", topic, cb + "?\xff", nil, 400, "hub.callback: not an absolute http or https URL"},
		{"subscribe", topic, cb, []string{"secret", strings.Repeat("x", 200)}, 400, "hub.secret is longer than 199 octets, or not UTF-8"},
		{"subscribe", topic, cb, []string{"lease_seconds", "0"}, 400, "hub.lease_seconds is not a number of seconds from 1 to 4294967295"},
		{"subscribe", topic, cb, []string{"lease_seconds", "-5"}, 400, "hub.lease_seconds is not a number of seconds from 1 to 4294967295"},
		{"unsubscribe", topic, cb, nil, 404, "there is no such subscription"},
	} {
		if status, text := h.ask(tt.mode, tt.topic, tt.callback, tt.args...); status != tt.status || text != tt.text {
			t.Errorf("%s %s %.40s %v: got %d %q, want %d %q", tt.mode, tt.topic, tt.callback, tt.args, status, text, tt.status, tt.text)
		}
	}
	for _, tt := range []struct {
		body, contentType string
		status            int
	}{
		{"{}", "application/json", 415},
		{"hub.mode=subscribe&hub.mode=unsubscribe", "application/x-www-form-urlencoded", 400},
		{"%zz", "application/x-www-form-urlencoded", 400},
		{"x=" + strings.Repeat("x", 20_000), "application/x-www-form-urlencoded", 413},
	} {
		if status, _ := h.post(tt.body, tt.contentType); status != tt.status {
			t.Errorf("%.50s: got %d, want %d", tt.body, status, tt.status)
		}
	}
	w := httptest.NewRecorder()
	h.hub.ServeHTTP(w, httptest.NewRequest("GET", "/hub", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: got %d %v", w.Code, w.Header())
	}
	h.wantStates("")
}

func TestLeasesHaveLimits(t *testing.T) {
	r := newReceiver(t)
	h := newHouse(t, hub.Options{Source: newJournal(topic)}, nil)
	for asked, lease := range map[string]string{"1": "5m0s", "3600": "1h0m0s", "4294967295": "720h0m0s", "": "240h0m0s"} {
		h.subscribe(topic, r, "lease_seconds", asked)
		h.wantStates(topic + " verified=true signed=false external=false failures=0 expires in " + lease + "\n")
	}
}

func TestNobodyIsSubscribedWhoDoesNotConfirm(t *testing.T) {
	j, r := newJournal(topic), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j}, nil)
	for name, tt := range map[string]struct {
		confirm func(url.Values) (int, string)
		asked   int
	}{
		"404":              {func(url.Values) (int, string) { return 404, "" }, 1},
		"other word":       {func(url.Values) (int, string) { return 200, "word" }, 1},
		"word and another": {func(a url.Values) (int, string) { return 200, a.Get("hub.challenge") + "\n" }, 1},
		"redirect":         {func(a url.Values) (int, string) { return 302, a.Get("hub.challenge") }, 1},
		"error":            {func(a url.Values) (int, string) { return 503, a.Get("hub.challenge") }, 3},
	} {
		r.confirms(tt.confirm)
		h.subscribe(topic, r)
		j.add(topic, "news")
		for range 10 {
			h.later(time.Hour)
		}
		if got := len(r.intents()); got != tt.asked || h.states() != "" {
			t.Errorf("%s: asked %d times, want %d; left %s", name, got, tt.asked, h.states())
		}
		want(t, r.bodies(), nil)
	}
}

func TestWhatIsNotConfirmedChangesNothing(t *testing.T) {
	j, r := newJournal(topic), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j}, nil)
	h.subscribe(topic, r, "secret", "one", "lease_seconds", "3600")
	r.confirms(func(url.Values) (int, string) { return 404, "" })
	h.subscribe(topic, r, "secret", "two", "lease_seconds", "7200")
	if status, _ := h.ask("unsubscribe", topic, r.URL+"/cb?id=7"); status != 202 {
		t.Errorf("got %d", status)
	}
	h.tick()
	h.wantStates(topic + " verified=true signed=true external=false failures=0 expires in 1h0m0s\n")
	j.add(topic, "news")
	h.tick()
	if len(r.got) != 1 || hub.Verify(r.got[0].header.Get("X-Hub-Signature"), "one", []byte("news")) != nil {
		t.Errorf("got %+v", r.got)
	}
	r.confirms(nil)
	h.subscribe(topic, r, "secret", "two", "lease_seconds", "7200")
	h.wantStates(topic + " verified=true signed=true external=false failures=0 expires in 2h0m0s\n")
	if status, _ := h.ask("unsubscribe", topic, r.URL+"/cb?id=7"); status != 202 {
		t.Errorf("got %d", status)
	}
	h.tick()
	j.add(topic, "more")
	h.later(time.Hour)
	h.wantStates("")
	want(t, r.intents(), []string{"subscribe", "subscribe", "unsubscribe", "subscribe", "unsubscribe"})
	want(t, r.bodies(), []string{"news"})
}

func TestThereIsALimitToSubscriptions(t *testing.T) {
	h := newHouse(t, hub.Options{Source: newJournal(topic, "http://source.test/2", "http://source.test/3"),
		Most: 4, MostOfTopic: 2, MostOfHost: 3, MostRequests: 40}, nil)
	r, other := newReceiver(t), newReceiver(t)
	try := func(topic, callback string, status int, words string) {
		t.Helper()
		got, text := h.ask("subscribe", topic, callback)
		if got != status || !strings.Contains(text, words) {
			t.Errorf("got %d %q, want %d %q", got, text, status, words)
		}
	}
	try(topic, r.URL+"/1", 202, "")
	try(topic, r.URL+"/2", 202, "")
	try("http://source.test/2", r.URL+"/3", 429, "2 requests for callbacks of this host wait")
	h.tick()
	try(topic, r.URL+"/3", 503, "the topic has 2 subscriptions")
	try(topic, r.URL+"/1", 202, "") // it is there
	try("http://source.test/2", r.URL+"/3", 202, "")
	h.tick()
	try("http://source.test/2", r.URL+"/4", 429, "3 subscriptions with callbacks of this host")
	try("http://source.test/2", other.URL+"/4", 202, "")
	try("http://source.test/3", other.URL+"/5", 503, "the hub has 4 subscriptions")
}

func TestAddressesThatAreNotAllowedAreNotReached(t *testing.T) {
	j, r := newJournal(topic), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j}, nil)
	port := r.URL[strings.LastIndexByte(r.URL, ':')+1:]
	if status, _ := h.ask("subscribe", topic, "http://[::ffff:127.0.0.2]:"+port+"/"); status != 202 {
		t.Errorf("got %d", status)
	}
	h.tick()
	want(t, r.intents(), nil)
	h.wantStates("") // it is not tried again
}

func TestOptionsThatAreWrong(t *testing.T) {
	h := newHouse(t, hub.Options{Source: newJournal()}, nil)
	for what, change := range map[string]func(*hub.Options){
		"no source": func(o *hub.Options) { o.Source = nil },
		"URL":       func(o *hub.Options) { o.URL = "/hub" },
		"external":  func(o *hub.Options) { o.External = []hub.External{{URL: "x"}} },
	} {
		o := h.opts
		change(&o)
		if _, err := hub.New(o); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
