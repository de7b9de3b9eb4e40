package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/batch"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
)

var ctx = context.Background()

func upload(payload string, m queuefs.Meta) client.Upload {
	return client.Upload{Size: int64(len(payload)), Meta: m, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(payload)), nil
	}}
}

// A site is a service with the queue "jobs" behind a server.
type site struct {
	t   testing.TB
	q   *queuefs.Queue
	url string
}

// newSite makes a site. now nil is the clock of the machine, maxBody 0 the default.
func newSite(t testing.TB, now func() time.Time, maxBody int64) *site {
	t.Helper()
	dir := t.TempDir()
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "test", Identifier: "uc3:test"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 4 << 20, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := svc.Close(); err != nil {
			t.Error(err)
		}
	})
	q, err := svc.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1, VerifyOnWrite: true})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(rest.New(svc, rest.Options{MaxBody: maxBody, Batch: batch.Limits{Now: now}}))
	t.Cleanup(srv.Close)
	svc.SetBaseURI(srv.URL + "/")
	return &site{t: t, q: q, url: srv.URL}
}

// submit submits a job without the client.
func (s *site) submit(payload string, m queuefs.Meta) {
	s.t.Helper()
	sub := s.q.Begin()
	defer sub.Discard()
	d, err := sub.Add(m)
	if err == nil {
		_, err = io.WriteString(d, payload)
	}
	if err == nil {
		_, err = sub.Commit(ctx)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// post sends a request without the client.
func (s *site) post(path string) {
	s.t.Helper()
	resp, err := http.Post(s.url+path, "", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	want(s.t, path, resp.StatusCode, 200)
}

func (s *site) wantCounts(pending, consumed, deleted int64) {
	s.t.Helper()
	q := s.q.State()
	want(s.t, "jobs", [3]int64{q.Pending, q.Consumed, q.Deleted}, [3]int64{pending, consumed, deleted})
}

func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
