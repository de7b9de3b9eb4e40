package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/publisher/hub"
	"cutie/queuefs/buffers"
	"cutie/queuefs/table"
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

// Damage takes the subscription of a row away, and no other one. What is reported does not
// give the URL of the callback away.
func TestADamagedRowIsASubscriptionLost(t *testing.T) {
	for what, change := range map[string]func([]byte) []byte{
		"cut off":   func(row []byte) []byte { return row[:len(row)-6] },
		"garbage":   func(row []byte) []byte { row[9] ^= 1; return row },
		"title":     func(row []byte) []byte { return append([]byte("x"), row...) },
		"empty one": func([]byte) []byte { return []byte{} },
	} {
		r, other := newReceiver(t), newReceiver(t)
		h := newHouse(t, hub.Options{Source: newJournal(topic)}, nil)
		h.subscribe(topic, r, "secret", "s3cret")
		h.subscribe(topic, other)
		h.close()
		if st, err := os.Stat(filepath.Join(h.path, "log", table.Name)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("got mode %v, %v, want 0600", st.Mode(), err)
		}
		h.damageRows(func(row []byte) []byte {
			if bytes.Contains(row, []byte("s3cret")) {
				return change(row)
			}
			return row
		})
		const left = topic + " verified=true signed=false external=false failures=0 expires in 240h0m0s\n"
		h.open(nil)
		h.wantStates(left)
		if got := h.reported(); strings.Count(got, "does not verify; the subscription is lost") != 1 || strings.Contains(got, r.URL) {
			t.Errorf("%s: got reports %q", what, got)
		}
		h.close()
		h.open(nil)
		h.wantStates(left)
		if got := h.reported(); got != "" {
			t.Errorf("%s: got reports %q of what is mended", what, got)
		}
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

// A disk is full, or it is not.
type disk struct{ full atomic.Bool }

func (d *disk) fault(_ string, do func() error) error {
	if d.full.Load() {
		return syscall.ENOSPC
	}
	return do()
}

// tickFull lets the hub do what is due although it can write nothing.
func (h *house) tickFull() {
	h.Helper()
	h.clock.advance(time.Minute)
	if err := h.hub.Tick(ctx); !errors.Is(err, syscall.ENOSPC) {
		h.Errorf("got %v, want no space", err)
	}
	h.hub.Wait()
}

// As long as it cannot be written down that somebody is to be told of a topic,
// nothing is told. A crash, or room, lets it begin where it was to.
func TestNothingIsToldThatIsNotWrittenDown(t *testing.T) {
	const later = "http://source.test/later.xml"
	var d disk
	j, r, asks := newJournal(topic), newReceiver(t), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j, External: []hub.External{{URL: r.URL, Payload: true}}}, d.fault)
	h.tick()
	d.full.Store(true)
	j.add(later, "a", "b")
	if status, _ := h.ask("subscribe", topic, asks.URL); status != 503 {
		t.Errorf("got %d for what cannot be kept, want 503", status)
	}
	h.tickFull()
	h.tickFull()
	want(t, r.bodies(), nil)
	want(t, asks.intents(), nil)

	crashed := h.killed()
	crashed.later(time.Minute)
	crashed.later(time.Minute)
	want(t, r.bodies(), []string{"a\nb"})
	crashed.close()

	j.add(later, "c", "d")
	d.full.Store(false)
	h.later(time.Minute)
	h.later(time.Minute)
	want(t, r.bodies(), []string{"a\nb\nc", "d"})
	want(t, asks.intents(), []string{"subscribe"})
}

// A full disk keeps no hub from being opened: what is new from then on is told
// when there is room.
func TestAHubIsOpenedOnAFullDisk(t *testing.T) {
	var d disk
	d.full.Store(true)
	j, r := newJournal(topic), newReceiver(t)
	j.add(topic, "before")
	h := newHouse(t, hub.Options{Source: j, External: []hub.External{{URL: r.URL, Payload: true}}}, d.fault)
	if got := h.reported(); !strings.Contains(got, "no space left on device") {
		t.Errorf("got reports %q", got)
	}
	j.add(topic, "1")
	h.tickFull()
	want(t, r.bodies(), nil)
	d.full.Store(false)
	h.later(time.Minute)
	want(t, r.bodies(), []string{"1"})
}

// A Report may ask the hub how its subscriptions fare.
func TestAReportHoldsUpNobody(t *testing.T) {
	j, r := newJournal(topic), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j, GiveUp: time.Hour}, nil)
	h.subscribe(topic, r)
	asked := 0
	h.told = func() { asked = len(h.hub.States()) }
	r.answers(func(int) (int, string) { return 500, "" })
	j.add(topic, "1")
	h.tick()
	h.later(2 * time.Hour)
	if got := h.reported(); asked != 1 || !strings.Contains(got, "has failed for 1h0m0s and is dropped") {
		t.Errorf("got reports %q of %d subscriptions", got, asked)
	}
}

// story is what the tests of steps tell. Every line of it is to reach the
// subscriber, and each step is told of when it is done.
func (h *house) story(j *journal, r *receiver, step func(error)) {
	again := func() { // a failed commit is final
		h.close()
		h.openHub()
	}
	tick := func() {
		h.clock.advance(2 * time.Hour)
		for {
			err := h.hub.Tick(ctx)
			h.hub.Wait()
			if step(err); err == nil {
				return
			}
			again()
		}
	}
	ask := func(secret string) {
		for status := 0; ; again() {
			if status, _ = h.ask("subscribe", topic, r.URL, "secret", secret, "lease_seconds", "2592000"); status == 202 {
				return
			}
		}
	}
	ask("s")
	step(nil)
	j.add(topic, "1")
	tick()
	j.add(topic, "2", "3", "4", "5")
	r.answers(func(n int) (int, string) { return map[bool]int{true: 503, false: 204}[n == 2], "" })
	tick()
	j.add(topic, "6")
	tick()
	ask("t")
	j.add(topic, "7")
	tick()
	tick()
	tick()
}

// lines returns the lines that were acknowledged, in their order.
func (r *receiver) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for i, d := range r.got {
		if i+1 < len(r.got) && strings.HasPrefix(r.got[i+1].body, strings.SplitAfter(d.body, "\n")[0]) {
			continue // it was refused, and came again
		}
		all = append(all, strings.Split(d.body, "\n")...)
	}
	return all
}

// A kill at any step neither loses a line nor changes the order; what comes
// twice was delivered since the last save.
func TestKillAtAnyStepLosesNothing(t *testing.T) {
	type kill struct {
		at, dir string
	}
	var kills []kill
	j, r := newJournal(topic), newReceiver(t)
	var h *house
	fault := func(step string, do func() error) error {
		if h != nil {
			kills = append(kills, kill{step, copyDir(t, h.path)})
		}
		return do()
	}
	var accepted int
	h = newHouse(t, hub.Options{Source: j}, fault)
	h.story(j, r, func(err error) {
		must(t, err)
		if accepted == 0 {
			accepted = len(kills)
		}
	})
	if len(kills) < 6 || accepted == 0 {
		t.Fatalf("only %d steps", len(kills))
	}
	for i, k := range kills {
		if i < accepted {
			continue // nothing was promised yet
		}
		where := fmt.Sprintf("kill %d before %s", i, k.at)
		r.answers(nil)
		e := &house{TB: t, path: k.dir, opts: h.opts, clock: h.clock}
		e.open(nil)
		for range 4 {
			e.later(2 * time.Hour)
		}
		got := r.lines()
		if len(got) == 0 {
			// All was delivered and saved.
			if i < len(kills)-1 {
				t.Errorf("%s: nothing is left to be told", where)
			}
		} else if want := strings.Split("1 2 3 4 5 6 7", " "); strings.Join(got, " ") != strings.Join(want[len(want)-len(got):], " ") {
			t.Errorf("%s: got %q, want the end of %q", where, got, want)
		}
		e.close()
	}
}

func TestStepThatFailsIsMadeUpFor(t *testing.T) {
	errStep := errors.New("step failed")
	for _, happened := range []bool{false, true} {
		for n := 1; ; n++ {
			count, where := -1, fmt.Sprintf("step %d, happened: %v", n, happened)
			fault := func(step string, do func() error) error {
				if count >= 0 {
					count++
				}
				if count != n {
					return do()
				}
				if happened {
					if err := do(); err != nil {
						return err
					}
				}
				where += " " + step
				return errStep
			}
			j, r := newJournal(topic), newReceiver(t)
			h := newHouse(t, hub.Options{Source: j}, fault)
			count = 0
			failed := 0
			h.story(j, r, func(err error) {
				if err != nil && !errors.Is(err, errStep) {
					t.Fatalf("%s: %v", where, err)
				} else if err != nil {
					failed++
				}
			})
			if failed > 1 {
				t.Errorf("%s: %d calls failed", where, failed)
			}
			steps := count
			count = -1
			r.answers(nil)
			h.close()
			h.open(nil)
			h.later(time.Hour)
			want(t, r.bodies(), nil)
			// A confirmation that was not saved is asked for again: then the lease begins later.
			if got, want := h.states(), topic+" verified=true signed=true external=false failures=0 expires in 71"; !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
				t.Errorf("%s: got subscriptions %s, want %s…", where, got, want)
			}
			h.close()
			if n >= steps {
				break
			}
		}
	}
}

// A roll says who may have what; the requests say by whom they are.
type roll struct {
	mu    sync.Mutex
	gone  map[string]bool // who and topic
	asked []string
}

func (r *roll) permit(_ http.Header, req *http.Request, _ string) (by string, err error) {
	_, by, _ = strings.Cut(req.Header.Get("Content-Type"), "; by=")
	return by, nil
}

func (r *roll) still(by, topic string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, by)
	return !r.gone[by+" "+topic]
}

func (r *roll) takeAway(by, topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone[by+" "+topic] = true
}

func (h *house) subscribeBy(by, topic string, r *receiver) {
	h.Helper()
	if status, text := h.post("hub.mode=subscribe&hub.topic="+topic+"&hub.callback="+r.URL+"/", "application/x-www-form-urlencoded; by="+by); status != 202 {
		h.Fatalf("got %d %s", status, text)
	}
}

func TestASubscriptionEndsWithTheRight(t *testing.T) {
	const other = "http://source.test/other.xml"
	j, roll := newJournal(topic, other), &roll{gone: map[string]bool{}}
	ann, bob, old := newReceiver(t), newReceiver(t), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j}, nil)
	h.subscribe(topic, old) // as before there were words for who asked
	h.close()
	h.opts.Permit, h.opts.Still = roll.permit, roll.still
	h.open(nil)
	h.subscribeBy("ann", topic, ann)
	h.subscribeBy("ann", other, ann)
	h.subscribeBy("bob", topic, bob)
	h.tick()
	ann.intents()
	j.add(topic, "1")
	j.add(other, "x")
	h.later(time.Minute)
	if got := ann.bodies(); len(got) != 2 {
		t.Errorf("got %q, want what both topics have", got)
	}
	want(t, bob.bodies(), []string{"1"})
	want(t, old.bodies(), []string{"1"})

	roll.takeAway("ann", topic)
	h.close() // who asked is known in another life
	h.open(nil)
	j.add(topic, "2")
	j.add(other, "y")
	h.later(time.Minute)
	want(t, ann.bodies(), []string{"y"})
	want(t, ann.intents(), []string{"denied"})
	want(t, bob.bodies(), []string{"2"})
	want(t, old.bodies(), []string{"2"})
	if got := h.reported(); strings.Count(got, "has lost the right to "+topic+" and is dropped") != 1 {
		t.Errorf("got reports %q", got)
	}
	h.close()
	h.open(nil)
	j.add(topic, "3")
	h.later(time.Minute)
	want(t, ann.bodies(), nil)
	want(t, ann.intents(), nil)
	for _, by := range roll.asked {
		if by == "" {
			t.Error("asked about nobody")
		}
	}
}

// Somebody who may has asked anew for what another has lost.
func TestARightThatIsThereAgainCounts(t *testing.T) {
	j, roll, r := newJournal(topic), &roll{gone: map[string]bool{}}, newReceiver(t)
	h := newHouse(t, hub.Options{Source: j, Permit: roll.permit, Still: roll.still}, nil)
	h.subscribeBy("ann", topic, r)
	h.tick()
	roll.takeAway("ann", topic)
	h.subscribeBy("bob", topic, r)
	h.tick()
	j.add(topic, "1")
	h.later(time.Minute)
	want(t, r.bodies(), []string{"1"})
	want(t, r.intents(), []string{"subscribe", "subscribe"})
}

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
	wrong := map[string][]func(*hub.Options){
		"no source": {func(o *hub.Options) { o.Source = nil }},
		"URL":       {func(o *hub.Options) { o.URL = "/hub" }},
	}
	for _, bad := range [][]hub.External{{{URL: "x"}}, {{URL: ""}}, {{URL: "ftp://a.test/"}}, {{URL: hubURL}}, {{URL: "http://a.test/"}, {URL: "http://a.test/"}}} {
		wrong["external"] = append(wrong["external"], func(o *hub.Options) { o.External = bad })
	}
	for what, changes := range wrong {
		for _, change := range changes {
			o := h.opts
			change(&o)
			if _, err := hub.New(o); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: got %v", what, err)
			}
		}
	}
}
