package hub_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/publisher/hub"
)

func TestTheExternalHubIsTold(t *testing.T) {
	for _, payload := range []bool{false, true} {
		j, r := newJournal(topic), newReceiver(t)
		j.add(topic, "0")
		h := newHouse(t, hub.Options{Source: j, External: []hub.External{{URL: r.URL + "/push", Payload: payload}}}, nil)
		h.tick()
		want(t, r.bodies(), nil)
		r.answers(func(n int) (int, string) { return map[bool]int{true: 500, false: 204}[n == 1], "" })
		j.add(topic, "1")
		h.tick()
		j.add(topic, "2", "3", "4")
		h.later(time.Second)
		h.close()
		h.open(nil)
		h.tick()
		if payload {
			if got, want := r.got[0].header.Get("Link"), `<`+r.URL+`/push>; rel="hub", <`+topic+`>; rel="self"`; got != want {
				t.Errorf("got link %s, want %s", got, want)
			}
			want(t, r.bodies(), []string{"1", "1\n2\n3", "4"})
		} else {
			ping := "hub.mode=publish&hub.topic=" + url.QueryEscape(topic) + "&hub.url=" + url.QueryEscape(topic)
			if r.got[0].header.Get("Content-Type") != "application/x-www-form-urlencoded" {
				t.Errorf("got %v", r.got[0].header)
			}
			want(t, r.bodies(), []string{ping, ping})
		}
		h.wantReport("turned: hub " + r.URL + ": the hub answered 500")
		h.wantStates(topic + " verified=true signed=false external=true failures=0\n")
		// Nobody can put himself in its place.
		if status, _ := h.ask("unsubscribe", topic, r.URL+"/push"); status != 404 {
			t.Errorf("got %d", status)
		}
		h.opts.External = nil
		h.close()
		h.open(nil)
		h.tick()
		h.wantStates("")
	}
}

// What is told to one of several hubs does not hang on another, and each is
// told of a topic that came later from its beginning.
func TestExternalHubsAreToldEachByItself(t *testing.T) {
	const later = "http://source.test/later.xml"
	j, fine, dead := newJournal(topic), newReceiver(t), newReceiver(t)
	j.add(topic, "0")
	h := newHouse(t, hub.Options{Source: j, External: []hub.External{{URL: fine.URL, Payload: true}, {URL: dead.URL}}}, nil)
	dead.answers(func(int) (int, string) { return 500, "" })
	h.tick()
	h.tick()
	want(t, fine.bodies(), nil) // there before the hub was named
	j.add(topic, "1")
	j.add(later, "a", "b", "c", "d")
	h.tick()
	h.later(time.Second)
	h.later(time.Second)
	got := fine.bodies()
	slices.Sort(got)
	want(t, got, []string{"1", "a\nb\nc", "d"})
	h.close()
	j.add("http://source.test/meanwhile.xml", "x")
	h.open(nil)
	h.tick()
	h.tick()
	want(t, fine.bodies(), []string{"x"})
	if got := strings.Count(h.reported(), "the hub answered 500"); got != 2 {
		t.Errorf("got %d reports of the one that fails, want one in each life", got)
	}
	dead.answers(func(int) (int, string) { return 204, "" })
	for range 3 {
		h.later(time.Hour)
	}
	told := map[string]bool{}
	for _, body := range dead.bodies() {
		form, err := url.ParseQuery(body)
		must(t, err)
		told[form.Get("hub.topic")] = true
	}
	if len(told) != 3 {
		t.Errorf("the hub that failed was told of %v, want all three topics", told)
	}
}

// A restless Source has positions that move although there is nothing to say.
type restless struct {
	*journal
	moves atomic.Int64
}

func (r *restless) Latest(topic string) (string, error) {
	position, err := r.journal.Latest(topic)
	return fmt.Sprint(position, ".", r.moves.Load()), err
}

func (r *restless) Content(topic, after string) (hub.Content, error) {
	after, _, _ = strings.Cut(after, ".")
	c, err := r.journal.Content(topic, after)
	c.Upto = fmt.Sprint(c.Upto, ".", r.moves.Load())
	return c, err
}

func TestExternalHubsAreToldOfNothingElse(t *testing.T) {
	j, r := &restless{journal: newJournal(topic)}, newReceiver(t)
	h := newHouse(t, hub.Options{Source: j, External: []hub.External{{URL: r.URL}}}, nil)
	for round := range 4 {
		j.moves.Add(1)
		h.later(time.Minute)
		want(t, r.bodies(), nil)
		j.add(topic, "1", "2", "3", "4", "5", "6", "7")
		h.later(time.Minute)
		h.later(time.Minute)
		if got := r.bodies(); len(got) != 1 {
			t.Errorf("round %d: got %q, want one ping", round, got)
		}
	}
}

// A still Source counts how often it is asked.
type still struct {
	*journal
	version, latest atomic.Int64
}

func (s *still) Version() uint64 { return uint64(s.version.Load()) }

func (s *still) Latest(topic string) (string, error) {
	s.latest.Add(1)
	return s.journal.Latest(topic)
}

func TestASourceThatDidNotChangeIsLeftAlone(t *testing.T) {
	const other = "http://source.test/other.xml"
	s, r := &still{journal: newJournal(topic, other)}, newReceiver(t)
	h := newHouse(t, hub.Options{Source: s}, nil)
	h.subscribe(topic, r)
	s.latest.Store(0)
	asked := func(want int64) {
		t.Helper()
		if got := s.latest.Swap(0); got != want {
			t.Errorf("got asked %d times, want %d", got, want)
		}
	}
	for range 10 {
		h.later(time.Second)
	}
	asked(0)
	s.add(topic, "1")
	s.version.Add(1)
	h.later(time.Second)
	asked(1)
	want(t, r.bodies(), []string{"1"})
	// What waits until a failure is over is delivered then.
	r.answers(func(n int) (int, string) { return map[bool]int{true: 500, false: 204}[n == 1], "" })
	s.add(topic, "2")
	s.version.Add(1)
	h.later(time.Second)
	h.later(time.Minute)
	asked(1)
	want(t, r.bodies(), []string{"2", "2"})
	h.subscribe(other, r)
	s.latest.Store(0)
	s.add(other, "x")
	s.version.Add(1)
	h.later(time.Second)
	asked(2)
	want(t, r.bodies(), []string{"x"})
}

// What goes wrong with a hub is one error, however many topics there are and
// whatever it says.
func TestAnExternalHubFailsOnce(t *testing.T) {
	topics := []string{"http://source.test/1.xml", "http://source.test/2.xml", "http://source.test/3.xml", "http://source.test/4.xml"}
	j, r := newJournal(topics...), newReceiver(t)
	hubs := []hub.External{{URL: r.URL + "/a"}, {URL: r.URL + "/b", Payload: true}}
	h := newHouse(t, hub.Options{Source: j, External: hubs}, nil)
	for life := range 2 {
		r.answers(func(n int) (int, string) { return []int{500, 204, 502, 503, 404}[n%5], "" })
		for range 10 {
			for _, topic := range topics {
				j.add(topic, "x")
			}
			h.later(2 * time.Hour)
		}
		if got := h.reported(); strings.Count(got, "\n") != 1 || strings.Count(got, "answered") != 2 {
			t.Errorf("life %d: got reports %s, want one of each hub", life, got)
		}
		r.answers(func(int) (int, string) { return 204, "" })
		for range 3 {
			h.later(2 * time.Hour)
		}
		if got := h.reported(); strings.Count(got, ": <nil>") != 2 {
			t.Errorf("life %d: got reports %s of hubs that take all", life, got)
		}
	}
}

// An external hub has a subscription to each topic that there is, also to one
// that was gone.
func TestExternalHubsFollowTheTopics(t *testing.T) {
	const other = "http://source.test/other.xml"
	j, r := newJournal(topic, other), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j, External: []hub.External{{URL: r.URL, Payload: true}}}, nil)
	subscribed := func(topics ...string) {
		t.Helper()
		text := ""
		for _, topic := range topics {
			text += topic + " verified=true signed=false external=true failures=0\n"
		}
		h.wantStates(text)
	}
	h.tick()
	subscribed(other, topic)
	for range 3 {
		j.remove(other)
		h.later(time.Minute)
		subscribed(topic)
		j.add(other, "anew")
		h.later(time.Minute)
		subscribed(other, topic)
		want(t, r.bodies(), []string{"anew"})
	}
	// Gone and there again before it was seen to the end.
	j.remove(other)
	must(t, h.hub.Tick(ctx))
	j.add(other, "again")
	must(t, h.hub.Tick(ctx))
	h.hub.Wait()
	h.later(time.Minute)
	subscribed(other, topic)
}

func TestWithoutAHubOfOursSubscribersWait(t *testing.T) {
	j, r, x := newJournal(topic), newReceiver(t), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j}, nil)
	h.subscribe(topic, r)
	h.close()
	h.opts.External = []hub.External{{URL: x.URL}}
	reopen := func(own string) {
		h.opts.URL = own
		h.openHub()
	}
	reopen("")
	h.tick()
	j.add(topic, "1")
	h.later(time.Minute)
	want(t, r.bodies(), nil)
	if got := len(x.bodies()); got != 1 {
		t.Errorf("the other hub was told %d times, want once", got)
	}
	h.close()
	reopen(hubURL)
	h.later(time.Minute)
	want(t, r.bodies(), []string{"1"})
}

// Who runs the hub is told what to allow; strangers are not told addresses.
func TestAnExternalHubThatIsRefusedIsNamedWithTheWayOut(t *testing.T) {
	j := newJournal(topic)
	h := newHouse(t, hub.Options{Source: j, Client: client(t), External: []hub.External{{URL: "http://127.0.0.1:1/hub"}}}, nil)
	h.tick()
	j.add(topic, "1")
	h.tick()
	if got := h.reported(); !strings.Contains(got, "the pattern 127.0.0.1:1 would allow it") {
		t.Errorf("got reports %q", got)
	}
}

// A subscriber hears at once that his callback is refused, and nothing is left
// of it. One that is not refused is answered as soon as there is a connection.
func TestARefusedCallbackIsToldToTheSubscriber(t *testing.T) {
	r := newReceiver(t)
	held := make(chan struct{})
	r.confirms(func(a url.Values) (int, string) { <-held; return 200, a.Get("hub.challenge") })
	h := newHouse(t, hub.Options{Source: newJournal(topic), Verdict: time.Minute}, nil)
	ask := func(callback string) (status int, text string) {
		t.Helper()
		done := make(chan struct{})
		go func() {
			status, text = h.ask("subscribe", topic, callback)
			close(done)
		}()
		for {
			must(t, h.hub.Tick(ctx))
			select {
			case <-done:
				return status, text
			default:
			}
		}
	}
	// The callback answers only after the hub has.
	if status, text := ask(r.URL); status != http.StatusAccepted {
		t.Errorf("got %d %s, want 202", status, text)
	}
	close(held)
	h.hub.Wait()
	port := r.URL[strings.LastIndexByte(r.URL, ':'):]
	for _, host := range []string{"127.0.0.2", "[::1]", "0.0.0.0"} {
		status, text := ask("http://" + host + port + "/cb")
		if status != http.StatusForbidden || text != "hub.callback: refused: the host is not known, or its address is not public and not allowed here; who runs this hub can allow it with --allow-fetch" {
			t.Errorf("%s: got %d %q, want 403", host, status, text)
		}
	}
	if status, text := ask("http://2130706433" + port); status != http.StatusForbidden || text != "hub.callback: refused: host is a number" {
		t.Errorf("got %d %q, want 403", status, text)
	}
	h.hub.Wait()
	h.wantStates(topic + " verified=true signed=false external=false failures=0 expires in 240h0m0s\n")
}
