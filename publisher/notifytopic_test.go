package publisher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/publisher/hub"
	"cutie/publisher/names"
	"cutie/sitemap"
)

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
