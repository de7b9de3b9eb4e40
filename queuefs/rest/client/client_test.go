package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/digest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

func TestClientSubmitsEverythingThereIsToSay(t *testing.T) {
	s := newSite(t, nil, 0)
	c := client.New(s.url+"/", nil)
	c.UserAgent = "client/1"
	metas := []queuefs.Meta{
		{},
		{Filename: "a b \"c\" é", MediaType: "text/plain; charset=utf-8", Submitter: "me", Sidecar: " x\n%41é "},
		{Sidecar: strings.Repeat("long ", 2000), MediaType: "text/checkm"},
		{MediaType: "multipart/form-data; boundary=x"},
		{Expect: []digest.Value{digest.Sum(digest.SHA512, []byte("payload")), digest.Sum(digest.Adler32, []byte("payload")), digest.Sum(digest.CRC32, []byte("payload"))}},
		{Expect: []digest.Value{digest.Sum(digest.SHA384, []byte("payload"))}, Sidecar: strings.Repeat("long ", 2000)},
	}
	for i, m := range metas {
		ids, err := c.Submit(ctx, "jobs", upload("payload", m))
		if err != nil || len(ids) != 1 {
			t.Fatalf("%d: got %v, %v", i, ids, err)
		}
		got, err := c.Job(ctx, "jobs", ids[0])
		if err != nil {
			t.Fatal(err)
		}
		by := m.Submitter
		if by == "" {
			by = "client/1"
		}
		if got.Filename != m.Filename || got.MediaType != m.MediaType || got.Sidecar != m.Sidecar || got.Submitter != by ||
			len(got.Digests) != 1+len(m.Expect) || !reflect.DeepEqual(append([]digest.Value{}, got.Digests[1:]...), append([]digest.Value{}, m.Expect...)) {
			t.Errorf("%d: got %+v, want %+v", i, got, m)
		}
		d, err := c.Next(ctx, "jobs", 0)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(d.Body)
		if err != nil || string(body) != "payload" || d.Body.Close() != nil {
			t.Errorf("%d: got %q, %v", i, body, err)
		}
		if d.Queue != "jobs" || d.Job != ids[0] || d.Filename != m.Filename || d.Sidecar != m.Sidecar || d.Size != 7 {
			t.Errorf("%d: got %+v", i, d)
		}
	}
	if _, err := c.Next(ctx, "jobs", time.Millisecond); err != queuefs.ErrEmpty {
		t.Errorf("got %v, want %v", err, queuefs.ErrEmpty)
	}
	for _, err := range c.NextN(ctx, "jobs", 9, 0) {
		if err != queuefs.ErrEmpty {
			t.Errorf("got %v, want %v", err, queuefs.ErrEmpty)
		}
	}
}

func TestClientMovesSeveralJobsAtOnce(t *testing.T) {
	s := newSite(t, nil, 0)
	c := client.New(s.url, nil)
	var uploads []client.Upload
	for i := range 100 {
		text := strings.Repeat(fmt.Sprint(i, " "), i*200)
		u := upload(text, queuefs.Meta{Filename: fmt.Sprint("f", i), Sidecar: fmt.Sprint("s ", i), Expect: []digest.Value{digest.Sum(digest.SHA1, []byte(text))}})
		if i%3 == 0 {
			u.Size = -1
		}
		uploads = append(uploads, u)
	}
	ids, err := c.Submit(ctx, "jobs", uploads...)
	if err != nil || len(ids) != 100 {
		t.Fatalf("got %d jobs, %v", len(ids), err)
	}
	n := 0
	for n < 100 {
		for d, err := range c.NextN(ctx, "jobs", 30, time.Minute) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Job != ids[n] || d.Filename != fmt.Sprint("f", n) || d.Sidecar != fmt.Sprint("s ", n) {
				t.Errorf("%d: got %+v", n, d)
			}
			if n%2 == 0 { // what is not read does no harm
				body, err := io.ReadAll(d.Body)
				if want := strings.Repeat(fmt.Sprint(n, " "), n*200); string(body) != want || err != nil {
					t.Errorf("%d: got %d octets, %v, want %d", n, len(body), err, len(want))
				}
			}
			n++
		}
	}
	s.wantCounts(0, 100, 0)
}

func TestClientMethods(t *testing.T) {
	s := newSite(t, nil, 0)
	c := client.New(s.url, nil)
	info := queuefs.QueueInfo{Identifier: "uc3:cutie/01", Name: "Queue 01", Description: "a b", CullingSize: 5, CullingAge: 0, VerifyOnRead: true}
	q, err := c.CreateQueue(ctx, info)
	got := q.Info
	want := info
	want.ID, want.Created = "uc3+cutie=01", got.Created
	if err != nil || got != want {
		t.Errorf("created %+v, %v, want %+v", got, err, want)
	}
	if _, err := c.CreateQueue(ctx, info); !errors.Is(err, queuefs.ErrQueueExists) {
		t.Errorf("again: got %v", err)
	}
	// A queue may be called by identifier, cleaned identifier and name.
	for _, name := range []string{"uc3:cutie/01", "uc3+cutie=01", "Queue 01"} {
		if _, err := c.Submit(ctx, name, upload("x", queuefs.Meta{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	q, err = c.Queue(ctx, "Queue 01", bulk.Filter{Status: queuefs.Pending, After: 1, Limit: 1})
	if err != nil || q.Pending != 3 || fmt.Sprint(q.Jobs.IDs) != "[j000000000002]" || !q.Jobs.More {
		t.Errorf("queue: got %+v, %v", q, err)
	}
	if j, err := c.Delete(ctx, "Queue 01", "j000000000001"); err != nil || j.Status != queuefs.Deleted {
		t.Errorf("delete: got %+v, %v", j, err)
	}
	if j, err := c.Requeue(ctx, "Queue 01", "j000000000001"); err != nil || j.Status != queuefs.Pending || j.Requeues != 1 {
		t.Errorf("requeue: got %+v, %v", j, err)
	}
	d, err := c.Peek(ctx, "Queue 01", "")
	if err != nil || d.Job != "j000000000001" || d.Queue != "uc3+cutie=01" {
		t.Errorf("peek: got %+v, %v", d, err)
	}
	d.Body.Close()
	svc, err := c.Service(ctx)
	if err != nil || svc.Name != "test" || fmt.Sprint(svc.Queues) != "[jobs uc3+cutie=01]" {
		t.Errorf("service: got %+v, %v", svc, err)
	}
	text, err := c.State(ctx, state.JSON, "jobs", "")
	if err != nil || !bytes.HasPrefix(text, []byte(`{"@context":{"@vocab":"http://uc3.cdlib.org/ontology/mrt/cutie/queue/"},"@type":"queueState",`)) {
		t.Errorf("state: got %s, %v", text, err)
	}
}

func TestClientErrorsAreThoseOfTheEngine(t *testing.T) {
	s := newSite(t, nil, 1000)
	c := client.New(s.url, nil)
	s.submit("x", queuefs.Meta{})
	s.post("/consume/jobs")
	err := func(_ any, err error) error { return err }
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"queue", err(c.Queue(ctx, "none", bulk.Filter{})), queuefs.ErrNoQueue},
		{"queue of a job", err(c.Job(ctx, "none", "j000000000001")), queuefs.ErrNoQueue},
		{"job", err(c.Job(ctx, "jobs", "j000000000009")), queuefs.ErrNoJob},
		{"job that cannot be", err(c.Peek(ctx, "jobs", "x")), queuefs.ErrNoJob},
		{"delete", err(c.Delete(ctx, "jobs", "j000000000001")), queuefs.ErrNotPending},
		{"name", err(c.CreateQueue(ctx, queuefs.QueueInfo{ID: "cutie-x"})), queuefs.ErrBadName},
		{"digest", err(c.Submit(ctx, "jobs", upload("x", queuefs.Meta{Expect: []digest.Value{digest.Sum(digest.MD5, nil)}}))), queuefs.ErrDigest},
		{"form", err(c.State(ctx, state.Form(0), "jobs", "")), state.ErrForm},
		{"empty", err(c.Peek(ctx, "jobs", "")), queuefs.ErrEmpty},
	}
	all := []error{queuefs.ErrNoQueue, queuefs.ErrNoJob, queuefs.ErrNotPending, queuefs.ErrBadName, queuefs.ErrDigest, queuefs.ErrSidecar, queuefs.ErrEmpty, queuefs.ErrTooBig}
	for _, tt := range tests {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, tt.err, tt.want)
		}
		for _, other := range all {
			if other != tt.want && errors.Is(tt.err, other) {
				t.Errorf("%s: %v is %v too", tt.name, tt.err, other)
			}
		}
	}
	var e *web.Error
	if _, err := c.Submit(ctx, "jobs", upload(strings.Repeat("x", 1001), queuefs.Meta{})); !errors.As(err, &e) || e.Status != 413 {
		t.Errorf("got %v, want 413", err)
	}
	if _, err := c.Submit(ctx, "jobs"); err == nil {
		t.Error("nothing was submitted")
	}
	short := upload("x", queuefs.Meta{})
	short.Size = 2
	if _, err := c.Submit(ctx, "jobs", short); err == nil {
		t.Error("a payload that is too short was submitted")
	}
	if _, err := c.Submit(ctx, "jobs", short, short); err == nil {
		t.Error("payloads that are too short were submitted")
	}
	failing := client.Upload{Size: -1, Open: func() (io.ReadCloser, error) { return nil, errors.New("cannot open") }}
	if _, err := c.Submit(ctx, "jobs", upload("x", queuefs.Meta{}), failing); err == nil || !strings.Contains(err.Error(), "cannot open") {
		t.Errorf("got %v", err)
	}
	s.wantCounts(0, 1, 0)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Next(ended, "jobs", time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestClientSaysWhatIsNoAnswerOfTheProtocol(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"502":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>proxy", http.StatusBadGateway) },
		"304":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) },
		"Location": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Location", "/content/q/j000000000001")
			w.(http.Flusher).Flush()
		},
		"EOF": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Location", "/content/q/j000000000001")
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "short")
		},
	}
	for want, h := range answers {
		srv := httptest.NewServer(h)
		d, err := client.New(srv.URL, nil).Next(ctx, "q", 0)
		if err == nil {
			_, err = io.ReadAll(d.Body)
			d.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		srv.Close()
	}
}
