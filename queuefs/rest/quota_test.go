package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest"
)

// asUser serves h to a user, perhaps with limits.
func asUser(h http.Handler, name string, limits queuefs.Limits) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := rest.WithUser(r.Context(), name)
		if limits != (queuefs.Limits{}) {
			ctx = quota.WithLimits(ctx, limits)
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	}
}

func TestSubmittersKeepWithinTheirLimits(t *testing.T) {
	s := newService(t)
	if _, err := s.svc.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.Limits = queuefs.Limits{Active: 3, Upload: 1000}; return nil }); err != nil {
		t.Fatal(err)
	}
	h := rest.New(s.svc, rest.Options{Log: s.logged.add})
	t.Cleanup(h.Close)
	as := func(name string, limits queuefs.Limits) {
		srv := httptest.NewServer(asUser(h, name, limits))
		t.Cleanup(srv.Close)
		s.url = srv.URL
	}
	post := func(want int, payload, reason string) {
		t.Helper()
		a := s.do("POST", "/content/jobs?t=anvl", payload)
		if a.StatusCode != want || !strings.Contains(a.body, reason) {
			t.Errorf("got %d %s, want %d, %s", a.StatusCode, a.body, want, reason)
		}
	}
	as("ann", queuefs.Limits{})
	for range 3 {
		post(201, "x", "")
	}
	post(429, "x", "jobs: ann has 3 jobs that wait or are in work, and may have 3")
	s.wantCounts(3, 0, 0)
	if _, err := s.q.Take(ctx, queuefs.Take{By: "worker"}); err != nil {
		t.Fatal(err)
	}
	post(201, strings.Repeat("x", 998), "")
	if _, err := s.q.Take(ctx, queuefs.Take{By: "worker"}); err != nil {
		t.Fatal(err)
	}
	post(429, "xx", "ann has 999 octets in jobs that have not ended, and may have 1000")

	as("bob", queuefs.Limits{Active: 1})
	post(201, "x", "")
	post(429, "x", "bob has 1 jobs")
	as("eve", queuefs.Limits{Active: queuefs.Unlimited})
	for range 5 {
		post(201, "x", "")
	}
	as("", queuefs.Limits{})
	post(201, "x", "")
	if errs := s.logged.all(); len(errs) > 0 {
		t.Errorf("logged %v", errs)
	}
}

// A request sent again after a lost answer makes no job, so no limit refuses it.
func TestLimitsDoNotRefuseARequestSentAgain(t *testing.T) {
	src := newSource(t, map[string]string{"/a": "1", "/b": "2"})
	s := newService(t).serve(rest.Options{Fetch: src.client(t)})
	setLimits(t, s, queuefs.Limits{Active: 1})
	post := func(want int, key, payload string) {
		t.Helper()
		if a := s.do("POST", "/content/jobs?t=anvl", payload, "Idempotency-Key", key); a.StatusCode != want {
			t.Errorf("%s: got %d %s, want %d", key, a.StatusCode, a.body, want)
		}
	}
	post(201, "one", "x")
	post(429, "two", "x")
	post(200, "one", "x")
	post(422, "one", "y")

	setLimits(t, s, queuefs.Limits{Active: 3})
	manifest := func(want int, key string) {
		t.Helper()
		a := s.do("POST", "/content/jobs?t=anvl&type=batch-manifest", checkm(src, "/a", "/b"), "Idempotency-Key", key)
		if a.StatusCode != want {
			t.Errorf("manifest %s: got %d %s, want %d", key, a.StatusCode, a.body, want)
		}
	}
	manifest(201, "many")
	manifest(429, "more")
	manifest(200, "many")
	s.wantCounts(3, 0, 0)
	s.wantNoTemps()
}

func setLimits(t *testing.T, s *site, l queuefs.Limits) {
	t.Helper()
	if _, err := s.svc.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.Limits = l; return nil }); err != nil {
		t.Fatal(err)
	}
}

// checkm is a manifest of files.
func checkm(src *sourceServer, files ...string) string {
	text := "#%checkm_0.7\n"
	for _, f := range files {
		text += src.url + f + "\n"
	}
	return text + "#%eof\n"
}
