package rest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
)

// TestTheServiceNamesItsQueuesInPages follows the pages of a home with more queues than
// one has, by their links and with the client.
func TestTheServiceNamesItsQueuesInPages(t *testing.T) {
	s := newSite(t, rest.Options{})
	for n := range state.MaxQueues + 5 {
		if _, err := s.svc.CreateQueue(t.Context(), queuefs.QueueInfo{Identifier: fmt.Sprintf("many%04d", n)}); err != nil {
			t.Fatal(err)
		}
	}
	all := s.svc.Queues()
	next := func(query string) string {
		t.Helper()
		r, err := http.Get(s.url + "/state?t=anvl" + query)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.Header.Get("Link")
	}
	last := all[state.MaxQueues-1].ID()
	if got := next(""); !strings.Contains(got, "after="+last) || !strings.HasSuffix(got, `>; rel="next"`) {
		t.Errorf("got Link %q", got)
	}
	if got := next("&after=" + last); got != "" {
		t.Errorf("last page: got Link %q", got)
	}
	if got := next("&limit=3"); !strings.Contains(got, "after="+all[2].ID()) {
		t.Errorf("limit: got Link %q", got)
	}
	got, err := client.New(s.url, nil).Service(t.Context())
	if err != nil || len(got.Queues) != len(all) {
		t.Fatalf("client: got %d of %d queues, %v", len(got.Queues), len(all), err)
	}
	for i, q := range all {
		if got.Queues[i] != q.ID() {
			t.Fatalf("queue %d is %s, want %s", i, got.Queues[i], q.ID())
		}
	}
}
