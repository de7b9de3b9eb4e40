package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cutie/queuefs/batch"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// Manifests that hang take a quarter of the places from one caller, whether it
// waits or not; others have theirs.
func TestOneCallerDoesNotTakeAllPlacesForBatches(t *testing.T) {
	src := newSource(t, map[string]string{"/a": "hello\n"})
	hang := make(chan struct{})
	src.handle = func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}
	s := newService(t)
	h := rest.New(s.svc, rest.Options{Fetch: src.client(t), Log: s.logged.add, Batch: batch.Limits{Running: 8}})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := rest.WithUser(r.Context(), r.Header.Get("X-User"))
		if address := r.Header.Get("X-Address"); address != "" {
			ctx = rest.WithAddress(ctx, address)
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(h.Close)
	s.url = srv.URL
	s.svc.SetBaseURI(srv.URL + "/")

	const async, wait = "respond-async", "/wait\n"
	var begun []string
	for _, who := range [][]string{{"X-User", "ann"}, {"X-User", "bob"}, {"X-Address", "192.0.2.1"}} {
		for range 2 {
			begun = append(begun, s.postBatch(src.url+wait, "Prefer", async, who[0], who[1]).want(t, 202).Header.Get("Location"))
		}
		for _, prefer := range []string{async, ""} {
			a := s.postBatch(src.url+wait, "Prefer", prefer, who[0], who[1]).want(t, 503)
			a.header(t, "Retry-After", "10")
			if got := a.exception(t); !strings.Contains(got, "2 batches") {
				t.Errorf("got %q", got)
			}
		}
	}
	// A user is the same from any address, and an address without a user is one.
	s.postBatch(src.url+wait, "Prefer", async, "X-User", "ann", "X-Address", "192.0.2.9").want(t, 503)
	s.postBatch(src.url+"/a\n", "X-Address", "192.0.2.9").want(t, 201)
	s.postBatch(src.url+"/a\n").want(t, 201)
	close(hang)
	for _, ref := range begun {
		if b := s.ended(ref); b.Status != state.BatchDone {
			t.Errorf("got %+v", b)
		}
	}
	for s.postBatch(src.url+"/a\n", "X-User", "ann").StatusCode == 503 { // until both are over
	}
	s.wantCounts(int64(len(begun)+3), 0, 0)
}
