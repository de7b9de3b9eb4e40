package publisher_test

import (
	"context"
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
	dir := t.TempDir()
	client, err := outbound.New(outbound.Options{Allow: []string{"127.0.0.1"}})
	must(t, err)
	defer client.Close()
	var h *hub.Hub
	open := func() {
		t.Helper()
		var err error
		h, err = hub.New(hub.Options{URL: hubURI, Source: s.notifier(), Client: client, Home: dir,
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
			copied := filepath.Join(t.TempDir(), "hub")
			must(t, os.CopyFS(copied, os.DirFS(dir)))
			must(t, h.Close()) // writes where nobody looks any more
			dir = copied
			s.crash()
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
	if got := lines(c.Body); len(got) != 3 || c.More {
		t.Fatalf("got %d changes, more: %v", len(got), c.More)
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
	if c.Body != nil {
		t.Errorf("got %s", c.Body)
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
