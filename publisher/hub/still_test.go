package hub_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/publisher/hub"
)

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
