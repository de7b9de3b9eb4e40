package main_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

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
	limit := time.After(startLimit)
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
			s.t.Fatalf("not after %v: %s", startLimit, what)
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
	limit := time.After(startLimit)
	for {
		select {
		case got := <-p.topics:
			if got == topic {
				return
			}
		case <-limit:
			p.t.Fatalf("no ping about %s after %v", topic, startLimit)
		}
	}
}
