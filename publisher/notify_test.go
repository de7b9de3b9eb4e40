package publisher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/publisher/hub"
	"cutie/publisher/names"
	"cutie/queuefs/outbound"
	"cutie/sitemap"
	"cutie/testdata/long"
)

const hubURI = "http://source.test/cutie/hub"

func (s *source) notifier() *publisher.Notifier {
	s.Helper()
	n, err := publisher.NewNotifier(s.pub, publisher.NotifierOptions{Hubs: []string{hubURI}, MaxOctets: 64 << 10})
	must(s, err)
	return n
}

// topicOf returns the URL of a topic of a set.
func (s *source) topicOf(queue string, set names.Set, name string) string {
	return strings.Replace(s.pub.CapabilityList(queue, set), "capabilitylist", name, 1)
}

// changesOf returns all entries of the Change Lists of a set, a line each.
func (s *source) changesOf(queue, set string) (all []string) {
	s.Helper()
	q := s.queue(queue)
	index := s.document(s.doc(q, set, "changelist-index.xml"))
	for _, e := range index.entries {
		all = append(all, lines(s.body(e.Loc))...)
	}
	return all
}

// lines returns the entries of a document as they are printed.
func lines(doc []byte) (all []string) {
	for line := range strings.Lines(string(doc)) {
		if strings.HasPrefix(line, "<url>") {
			all = append(all, strings.TrimSuffix(line, "\n"))
		}
	}
	return all
}

// churn changes a queue at random.
func (s *source) churn(r *rand.Rand, queue string, n int) {
	s.Helper()
	q := s.queue(queue)
	for range n {
		switch st := q.State(); {
		case r.IntN(3) == 0 && st.Pending > 0:
			s.consume(q, 1+r.IntN(int(min(st.Pending, 9))))
		case r.IntN(9) == 0 && st.Consumed > 0:
			for _, job := range s.consume(q, int(min(st.Pending, 1))) {
				s.requeue(q, job.ID)
			}
		default:
			s.submitN(q, 1+r.IntN(20))
		}
	}
}

func TestNotificationsSayWhatTheChangeListsSay(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]publisher.Options{
		"one long list": {},
		"many lists":    {MaxEntries: 100},
		"version 1.0":   {MaxEntries: 1000, Dialect: sitemap.V10},
		"version 0.9":   {MaxEntries: 1000, Dialect: sitemap.V09},
	} {
		s := newSource(t, o, "q")
		n := s.notifier()
		r := rand.New(rand.NewPCG(1, 2))
		told, at, until := map[names.Set][]string{}, map[names.Set]string{}, map[names.Set]time.Time{}
		for range 20 {
			for set := range names.Set(2) {
				topic := s.topicOf("q", set, "change-notification")
				if at[set] == "" {
					var err error
					at[set], err = n.Latest(topic)
					must(t, err)
					until[set] = s.queue("q").Info().Created
				}
				for more := true; more; {
					c, err := n.Content(topic, at[set])
					must(t, err)
					if more = c.More; c.Body == nil {
						if again, err := n.Content(topic, c.Upto); err != nil || again.Body != nil || again.Upto != c.Upto {
							t.Errorf("%s: after nothing: got %+v, %v", name, again, err)
						}
						at[set] = c.Upto
						continue
					}
					if len(c.Body) > 66<<10 || c.Type != "application/xml" {
						t.Errorf("%s: got %d octets of %s", name, len(c.Body), c.Type)
					}
					d := parse(t, c.Body)
					if d.root != sitemap.URLSet || d.head.Capability != sitemap.ChangeNotification || !d.head.From.Equal(until[set].Truncate(time.Microsecond)) ||
						d.head.Link("self") != topic || d.head.Link("hub") != hubURI || d.head.Link("up") != s.pub.CapabilityList("q", set) {
						t.Errorf("%s: got head %+v, want it from %v", name, d.head, until[set])
					}
					for _, e := range d.entries {
						if at := e.Changed(); !at.After(d.head.From) || at.After(d.head.Until) {
							t.Errorf("%s: %v is not from %v until %v", name, at, d.head.From, d.head.Until)
						}
					}
					until[set] = d.head.Until
					told[set] = append(told[set], lines(c.Body)...)
					at[set] = c.Upto
				}
			}
			s.churn(r, "q", 15)
		}
		for set := range names.Set(2) {
			want := s.changesOf("q", set.String())
			if set == names.Replica && len(want) < 1000 {
				t.Errorf("%s: only %d changes", name, len(want))
			}
			topic := s.topicOf("q", set, "change-notification")
			for {
				c, err := n.Content(topic, at[set])
				must(t, err)
				told[set] = append(told[set], lines(c.Body)...)
				if at[set] = c.Upto; !c.More {
					break
				}
			}
			if got := told[set]; strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s: %v: got %d changes, want %d", name, set, len(got), len(want))
			}
			// From any place on, what is told is the end of it.
			for range 20 {
				from := r.IntN(len(want))
				seq, when := parseLine(t, want[from])
				var got []string
				for p := fmt.Sprintf("%d-%d", seq, when.UnixMicro()); ; {
					c, err := n.Content(topic, p)
					must(t, err)
					got = append(got, lines(c.Body)...)
					if p = c.Upto; !c.More {
						break
					}
				}
				for from < len(want) {
					if other, _ := parseLine(t, want[from]); other != seq {
						break
					}
					from++
				}
				if strings.Join(got, "\n") != strings.Join(want[from:], "\n") {
					t.Errorf("%s: %v after event %d: got %d changes, want %d", name, set, seq, len(got), len(want)-from)
				}
			}
		}
	}
}

// parseLine returns number and time of the event of an entry.
func parseLine(t testing.TB, line string) (uint64, time.Time) {
	t.Helper()
	d := parse(t, append(append(sitemap.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeNotification}), line...), "</urlset>"...))
	return d.entries[0].Seq, d.entries[0].Changed()
}

// A listener is a subscriber that now and then does not listen.
type listener struct {
	*httptest.Server
	mu    sync.Mutex
	fails func() bool
	got   [][]byte // what it acknowledged
}

func newListener(t *testing.T, fails func() bool) *listener {
	l := &listener{fails: fails}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err != nil || l.fails() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		l.got = append(l.got, body)
	}))
	t.Cleanup(l.Close)
	return l
}

// A daemon with a hub is killed over and over, at any moment between two
// steps of it, with a subscriber that fails now and then: every change reaches
// the subscriber, in order, and what reaches it twice was delivered in the
// second before a kill.
func TestKillsDelayNotificationsAndLoseNone(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var at struct {
		sync.Mutex
		time.Time
	}
	at.Time = time.Now()
	s := newSource(t, publisher.Options{MaxEntries: 60}, "q")
	l := newListener(t, func() bool { return r.IntN(4) == 0 })
	client, err := outbound.New(outbound.Options{Allow: []string{"127.0.0.1"}})
	must(t, err)
	defer client.Close()
	var h *hub.Hub
	open := func() {
		t.Helper()
		var err error
		h, err = hub.New(hub.Options{URL: hubURI, Source: s.notifier(), Client: client, Home: s.dir, Rows: s.svc.Subscriptions(),
			Now: func() time.Time { at.Lock(); defer at.Unlock(); return at.Time }})
		must(t, err)
	}
	tick := func() {
		t.Helper()
		at.Lock()
		at.Time = at.Add(time.Duration(r.IntN(1500)) * time.Millisecond)
		at.Unlock()
		must(t, h.Tick(context.Background()))
		h.Wait()
	}
	open()
	form := url.Values{"hub.mode": {"subscribe"}, "hub.callback": {l.URL}, "hub.topic": {s.topicOf("q", names.Replica, "change-notification")}}
	req := httptest.NewRequest("POST", "/hub", strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	if w.Code != http.StatusAccepted {
		t.Fatal(w.Code, w.Body)
	}
	kills := 0
	for range 150 {
		switch r.IntN(6) {
		case 0, 1:
			s.churn(r, "q", 1+r.IntN(4))
		case 2:
			must(t, s.pub.Tick(context.Background()))
		case 3:
			must(t, s.svc.Checkpoint(context.Background()))
		case 4:
			tick()
		case 5:
			if r.IntN(3) > 0 {
				continue
			}
			kills++
			s.crash()
			_ = h.Close() // its table is closed
			open()
		}
	}
	l.mu.Lock()
	l.fails = func() bool { return false }
	l.mu.Unlock()
	at.Time = at.Add(24 * time.Hour)
	for range 5 {
		tick()
		at.Time = at.Add(time.Hour)
	}
	must(t, h.Close())

	want := s.changesOf("q", "replica")
	next, again, steps := 0, 0, 0
	for i, body := range l.got {
		all := lines(body)
		for back := 0; next-back >= 0; back++ { // it may begin where an earlier one did
			if next-back < len(want) && want[next-back] == all[0] {
				again += back
				next -= back
				steps += min(back, 1)
				break
			}
		}
		for _, line := range all {
			if next >= len(want) || want[next] != line {
				t.Fatalf("notification %d of %d: change %d of %d is another one or left out", i, len(l.got), next, len(want))
			}
			next++
		}
	}
	if next != len(want) || kills < 3 || len(want) < 200 {
		t.Errorf("got %d changes, want %d, with %d kills", next, len(want), kills)
	}
	if steps > kills {
		t.Errorf("%d times something was told again, after %d kills", steps, kills)
	}
	t.Logf("%d changes in %d notifications, %d of them again after %d kills", len(want), len(l.got), again, kills)
}

func TestAGapInTheListsShowsInTheNotification(t *testing.T) {
	s := newSource(t, publisher.Options{}, "q")
	topic := s.topicOf("q", names.Pending, "change-notification")
	s.submitN(s.queue("q"), 3)
	c, err := s.notifier().Content(topic, "0-0")
	must(t, err)
	if got := lines(c.Body); len(got) != 3 || c.More || c.Gap {
		t.Fatalf("got %d changes, more: %v, gap: %v", len(got), c.More, c.Gap)
	}
	activity(s, s.queue("q"), 0)
	s.release("q")
	s.close()
	must(t, os.RemoveAll(filepath.Join(s.dir, "resourcesync")))
	s.open()
	until := parse(t, c.Body).head.Until
	state := s.queue("q").State()
	// Also when there is nothing to say yet.
	c, err = s.notifier().Content(topic, c.Upto)
	must(t, err)
	if c.Body != nil || !c.Gap {
		t.Errorf("got %s, gap: %v", c.Body, c.Gap)
	}
	s.submitN(s.queue("q"), 1)
	c, err = s.notifier().Content(topic, c.Upto)
	must(t, err)
	if d := parse(t, c.Body); len(d.entries) != 1 || d.entries[0].Seq != uint64(state.Seq)+1 || !d.head.From.Equal(state.LastEvent) || !d.head.From.After(until) {
		t.Errorf("got %+v; the one before was until %v, the gap ends at %v", d.head, until, state.LastEvent)
	}
	// A place that the queue has not reached is of another one of its name.
	c, err = s.notifier().Content(topic, "999999-0")
	must(t, err)
	if got := parse(t, c.Body).entries; len(got) != 1 || got[0].Seq != uint64(state.Seq)+1 {
		t.Errorf("got %+v", got)
	}
	for _, bad := range []string{"x", "1", "1-", "01-0", "1-0-0", "-1-5"} {
		if _, err := s.notifier().Content(topic, bad); err == nil {
			t.Errorf("position %q was taken", bad)
		}
	}
}

// An idle Source is asked again and again.
func TestAskingAnIdleSourceCostsNothing(t *testing.T) {
	if long.Race() {
		t.Skip("the race detector allocates")
	}
	s := newSource(t, publisher.Options{Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }}, "q")
	s.submitN(s.queue("q"), 3)
	n := s.notifier()
	for topic, want := range map[string]float64{
		s.topicOf("q", names.Pending, "change-notification"):    0,
		s.topicOf("q", names.Replica, "framework-notification"): 1, // the position, with that of the Source Description
	} {
		got := testing.AllocsPerRun(100, func() {
			_, err := n.Latest(topic)
			if err != nil {
				t.Fatal(err)
			}
		})
		if got > want {
			t.Errorf("%s: got %v allocations, want %v", topic, got, want)
		}
	}
}

// TestPositionsAreThoseOfALookAnew compares, through everything that makes
// documents others, what a Notifier says with what one says that has seen
// nothing yet.
func TestPositionsAreThoseOfALookAnew(t *testing.T) {
	for _, dialect := range []sitemap.Dialect{sitemap.V11, sitemap.V09} {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		s := newSource(t, publisher.Options{Dialect: dialect, MaxEntries: 8, Period: time.Hour, Retention: publisher.Retention{Current: 3 * time.Hour, Keep: 5 * time.Hour},
			Now: func() time.Time { return now }}, "a", "b")
		n := s.notifier()
		positions := map[string]bool{}
		check := func(what string) {
			t.Helper()
			now = now.Add(time.Second)
			anew := s.notifier()
			for _, topic := range n.Topics() {
				got, err := n.Latest(topic)
				must(t, err)
				want, err := anew.Latest(topic)
				must(t, err)
				if got != want {
					t.Errorf("%v: %s: %s is at %s, want %s", dialect, what, topic, got, want)
				}
				positions[topic+got] = true
				c, err := n.Content(topic, "")
				must(t, err)
				if !c.More && c.Upto != got {
					t.Errorf("%v: %s: %s has content up to %s, want %s", dialect, what, topic, c.Upto, got)
				}
			}
		}
		for round := range 4 {
			check("idle")
			s.submitN(s.queue("a"), 1)
			check("submission")
			s.describe(s.queue("a"), time.Duration(round).String())
			check("description")
			activity(s, s.queue("b"), round)
			check("activity")
			s.settle()
			check("packages")
			must(t, s.pub.Publish(context.Background()))
			check("dump")
			now = now.Add(time.Hour)
			check("an hour later")
			s.settle()
			check("period over")
			now = now.Add(2 * time.Hour)
			check("no longer current")
			s.settle()
			check("no longer kept")
			s.queue(string(rune('c' + round)))
			check("new queue")
		}
		must(t, s.svc.RemoveQueue(context.Background(), "c"))
		s.queue("c")
		check("removed and made again")
		if len(positions) < 100 {
			t.Errorf("got %d positions", len(positions))
		}
	}
}

func TestFrameworkNotificationsTellOfDocuments(t *testing.T) {
	now := time.Now()
	s := newSource(t, publisher.Options{MaxEntries: 20, Now: func() time.Time { return now }}, "q")
	n := s.notifier()
	topic := s.topicOf("q", names.Pending, "framework-notification")
	at, err := n.Latest(topic)
	must(t, err)
	next := func() (names string) {
		t.Helper()
		now = now.Add(time.Second)
		latest, err := n.Latest(topic)
		must(t, err)
		c, err := n.Content(topic, at)
		must(t, err)
		if c.Upto != latest || c.More || (c.Body == nil) != (latest == at) {
			t.Errorf("got upto %s, body %v; latest %s, before %s", c.Upto, c.Body != nil, latest, at)
		}
		if at = c.Upto; c.Body == nil {
			return ""
		}
		d := parse(t, c.Body)
		if d.head.Capability != sitemap.FrameworkNotification || d.head.Link("self") != topic || d.head.Link("hub") != hubURI {
			t.Errorf("got head %+v", d.head)
		}
		for _, e := range d.entries {
			if e.Change != sitemap.Updated || e.DateTime.IsZero() || s.get(e.Loc).StatusCode != http.StatusOK {
				t.Errorf("got entry %+v", e)
			}
			names += fmt.Sprint(e.Capability, " ")
		}
		return names
	}
	if got := next(); got != "" {
		t.Errorf("got %s", got)
	}
	s.submitN(s.queue("q"), 5)
	if got := next(); got != "" {
		t.Errorf("after changes alone: got %s", got)
	}
	s.submitN(s.queue("q"), 20)
	if got := next(); !strings.Contains(got, "changelist ") {
		t.Errorf("after a list was closed: got %s", got)
	}
	s.settle()
	if got := next(); !strings.Contains(got, "changedump ") || strings.Contains(got, "description") {
		t.Errorf("after a package was made: got %s", got)
	}
	must(t, s.pub.Publish(context.Background()))
	if got := next(); got != "capabilitylist changelist changedump resourcedump " {
		t.Errorf("after everything was made: got %s", got)
	}
	s.queue("other")
	if got := next(); got != "description " {
		t.Errorf("after a queue was made: got %s", got)
	}
}

func TestTopicsAreServedWithTheirHub(t *testing.T) {
	s := newSource(t, publisher.Options{}, "q", "http://example.org/a b")
	n := s.notifier()
	s.submitN(s.queue("q"), 500)
	get := func(method, ref string) *http.Response {
		w := httptest.NewRecorder()
		n.ServeHTTP(w, httptest.NewRequest(method, strings.TrimPrefix(ref, base), nil))
		return w.Result()
	}
	topics := n.Topics()
	if len(topics) != 8 {
		t.Errorf("got topics %q", topics)
	}
	for _, topic := range topics {
		resp := get("GET", topic)
		body := read(t, resp)
		if resp.StatusCode != 200 || resp.Header.Get("Link") != `<`+hubURI+`>; rel="hub", <`+topic+`>; rel="self"` || resp.Header.Get("Content-Type") != "application/xml" {
			t.Errorf("%s: got %d %v", topic, resp.StatusCode, resp.Header)
		}
		if d := parse(t, body); d.head.Link("self") != topic {
			t.Errorf("%s: got head %+v", topic, d.head)
		}
		tag := resp.Header.Get("ETag")
		again := httptest.NewRequest("GET", strings.TrimPrefix(topic, base), nil)
		again.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		if n.ServeHTTP(w, again); w.Code != http.StatusNotModified || w.Header().Get("ETag") != tag || w.Header().Get("Link") == "" {
			t.Errorf("%s: again: got %d %v", topic, w.Code, w.Header())
		}
		head := get("HEAD", topic)
		if len(read(t, head)) > 0 || head.Header.Get("Content-Length") != resp.Header.Get("Content-Length") {
			t.Errorf("%s: HEAD: got %v", topic, head.Header)
		}
		if resp := get("POST", topic); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: POST: got %d", topic, resp.StatusCode)
		}
	}
	// A topic shows the newest changes.
	topic := s.topicOf("q", names.Replica, "change-notification")
	all, newest := s.changesOf("q", "replica"), read(t, get("GET", topic))
	got := lines(newest)
	if len(got) < 50 || len(got) == len(all) || strings.Join(got, "\n") != strings.Join(all[len(all)-len(got):], "\n") {
		t.Errorf("got %d of %d changes", len(got), len(all))
	}
	if _, before := parseLine(t, all[len(all)-len(got)-1]); !parse(t, newest).head.From.Equal(before) {
		t.Errorf("got from %v, want %v", parse(t, newest).head.From, before)
	}
	for _, ref := range []string{"/q/pending/change-notification.xml", "/q/none/change-notification.xml", "/none/pending/change-notification.xml",
		"/change-notification.xml", "/q/pending/x/change-notification.xml", "/%71/pending/change-notification.xml", "/q/pending/notification.xml"} {
		ok := ref == "/q/pending/change-notification.xml"
		if resp := get("GET", base+"/.well-known/resourcesync"+ref); (resp.StatusCode == 200) != ok || !ok && resp.StatusCode != 404 {
			t.Errorf("%s: got %d", ref, resp.StatusCode)
		}
		topic := base + "/.well-known/resourcesync" + ref
		if _, err := n.Latest(topic); (err == nil) != ok {
			t.Errorf("%s: got %v", ref, err)
		}
		if id, err := n.Queue(topic); ok && (id != "q" || err != nil) || !ok && !errors.Is(err, hub.ErrNoTopic) {
			t.Errorf("%s: got queue %q, %v", ref, id, err)
		}
	}
	if resp := get("GET", s.pub.CapabilityList("q", names.Pending)); resp.StatusCode != 200 || !bytes.Contains(read(t, resp), []byte("capabilitylist")) {
		t.Errorf("other documents: got %d", resp.StatusCode)
	}
	named := s.document(s.pub.CapabilityList("q", names.Pending)).entries
	for i, e := range n.Entries("q", names.Pending) {
		if got := named[len(named)-2+i]; got.Loc != e.Loc || got.Capability != e.Capability || got.Link("hub") != hubURI {
			t.Errorf("the Capability List has %+v, want %+v", got, e)
		}
		want := []string{"change-notification", "framework-notification"}[i]
		if e.Loc != s.topicOf("q", names.Pending, want) || e.Link("hub") != hubURI ||
			e.Capability != []sitemap.Capability{sitemap.ChangeNotification, sitemap.FrameworkNotification}[i] {
			t.Errorf("got entry %+v", e)
		}
	}
}

func TestCapabilityListsChangeWithTheHubs(t *testing.T) {
	s := newSource(t, publisher.Options{}, "q")
	list := s.pub.CapabilityList("q", names.Replica)
	tags := map[string]bool{}
	for _, o := range []publisher.NotifierOptions{{}, {Hubs: []string{hubURI}}, {Hubs: []string{hubURI, "http://other.test/"}},
		{Hubs: []string{hubURI}, Change: "change-notification"}, {Hubs: []string{hubURI}, Framework: "x"}} {
		if o.Hubs != nil {
			_, err := publisher.NewNotifier(s.pub, o)
			must(t, err)
		}
		tags[s.get(list).Header.Get("ETag")] = true
	}
	if len(tags) != 5 {
		t.Errorf("got entity tags %v, want 5", tags)
	}
	for _, o := range []publisher.NotifierOptions{{}, {Hubs: []string{"hub"}}, {Hubs: []string{hubURI}, Change: "A"}, {Hubs: []string{hubURI}, Change: `a"b`},
		{Hubs: []string{hubURI}, Change: "framework-notification"}, {Hubs: []string{hubURI}, MaxOctets: 1}} {
		if _, err := publisher.NewNotifier(s.pub, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestNotificationsAreValid(t *testing.T) {
	v := newValidator(t)
	for _, dialect := range []sitemap.Dialect{sitemap.V11, sitemap.V10, sitemap.V09} {
		s := newSource(t, publisher.Options{MaxEntries: 20, Dialect: dialect}, "q")
		n := s.notifier()
		for round := range 5 {
			activity(s, s.queue("q"), round)
		}
		must(t, s.pub.Publish(context.Background()))
		for _, topic := range n.Topics() {
			c, err := n.Content(topic, "") // from the beginning
			must(t, err)
			if strings.Contains(topic, "change-notification") && parse(t, c.Body).entries[0].Seq != 1 {
				t.Errorf("%s: got %.500s", topic, c.Body)
			}
			v.add(parse(t, c.Body))
			w := httptest.NewRecorder()
			n.ServeHTTP(w, httptest.NewRequest("GET", strings.TrimPrefix(topic, base), nil))
			v.add(parse(t, w.Body.Bytes()))
		}
		list := s.document(s.pub.CapabilityList("q", names.Replica))
		v.add(list)
		v.add(s.document(list.entries[1].Loc)) // an index, so that there is one
	}
	v.check()
}
