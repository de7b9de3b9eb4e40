package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
)

const keyHeader, replayed = "Idempotency-Key", "Idempotency-Replayed"

func TestSubmissionWithAKeyIsSentAgain(t *testing.T) {
	s := newSite(t, rest.Options{})
	post := func(key, body string, status int) answer {
		t.Helper()
		return s.do("POST", "/content/jobs?t=json", body, keyHeader, key).want(t, status)
	}
	first := post(`"order 1"`, "x", 400)
	if got := first.exception(t); !strings.Contains(got, "visible ASCII") {
		t.Errorf("got %s", got)
	}
	first = post(`"order-1"`, "x", 201)
	first.header(t, replayed, "")
	want(t, "key", first.job(t).Key, "order-1")
	for _, key := range []string{`"order-1"`, "order-1"} {
		again := post(key, "x", 200)
		again.header(t, replayed, "true")
		again.header(t, "Location", first.Header.Get("Location"))
		want(t, "job", again.job(t), first.job(t))
	}
	refused := post("order-1", "y", 422)
	refused.header(t, replayed, "")
	if got := refused.exception(t); !strings.Contains(got, "j000000000001") {
		t.Errorf("the job is not named: %s", got)
	}
	s.wantCounts(1, 0, 0)
	for _, bad := range []string{`"open`, `"a"b"`, `"a\b"`, `"`, "ä", strings.Repeat("x", 256)} {
		post(bad, "x", 400)
	}
	post(`"a\"\\b"`, "x", 201)
	want(t, "quoted", post(`a"\b`, "x", 200).job(t).Key, `a"\b`)

	// The answer is the present state of the job.
	s.do("POST", "/consume/jobs", "").want(t, 200)
	want(t, "status", post("order-1", "x", 200).job(t).Status, queuefs.Consumed)
}

func TestFormWithKeysIsSentAgain(t *testing.T) {
	s := newSite(t, rest.Options{})
	post := func(f *form, status int, again string, jobs string, header ...string) {
		t.Helper()
		a := s.postForm(f.end(), append(header, "Accept", "application/json")...).want(t, status)
		a.header(t, replayed, again)
		if jobs == "" {
			return
		}
		if got := fmt.Sprint(a.queue(t).Submitted); got != jobs {
			t.Errorf("got %s, want %s", got, jobs)
		}
	}
	two := func() *form { return newForm().file("a", "x").file("b", "y") }
	post(two(), 201, "", "[j000000000001 j000000000002]", keyHeader, `"f"`)
	post(two(), 200, "true", "[j000000000001 j000000000002]", keyHeader, `"f"`)
	post(two().file("c", "z"), 422, "", "", keyHeader, "f")
	post(newForm().file("a", "x"), 422, "", "", keyHeader, "f")

	parts := func(second string) *form {
		return newForm().file("a", "x", keyHeader+": p").file("b", second, keyHeader+`: "q"`)
	}
	post(parts("y"), 201, "", "[j000000000003 j000000000004]")
	post(parts("y"), 200, "true", "[j000000000003 j000000000004]")
	post(parts("z"), 422, "", "")
	post(parts("y").file("c", "new", keyHeader+": r"), 201, "", "[j000000000003 j000000000004 j000000000005]")
	post(parts("y"), 400, "", "", keyHeader, "f2")
	post(newForm().file("a", "x", keyHeader+": p").file("b", "x", keyHeader+": p"), 400, "", "")

	one := func() *form { return newForm().file("a", "x", keyHeader+": one").field("sidecar", "s") }
	post(one(), 201, "", "")
	post(one(), 200, "true", "")
	s.wantCounts(6, 0, 0)
}

func TestManifestWithAKeyIsSentAgain(t *testing.T) {
	src := newSource(t, map[string]string{"/a": "hello\n", "/b": "more"})
	s := newSite(t, rest.Options{Fetch: src.client(t)})
	manifest := src.url + "/a\n" + src.url + "/b\n"
	first := s.postBatch(manifest, keyHeader, "m").want(t, 201)
	again := s.postBatch(manifest, keyHeader, "m").want(t, 200)
	again.header(t, replayed, "true")
	again.header(t, "Location", first.Header.Get("Location"))
	s.postBatch(src.url+"/a\n", keyHeader, "m").want(t, 422)
	s.wantCounts(2, 0, 0)
	b := s.ended(s.postBatch(manifest, keyHeader, "m", "Prefer", "respond-async").want(t, 202).Header.Get("Location"))
	want(t, "batch", fmt.Sprint(b.Status, b.Submitted, b.Name), fmt.Sprint(state.BatchDone, []queuefs.JobID{1, 2}, "b000000000001-2"))
	if j, err := s.q.Job(2); err != nil || j.Key != "m#2" {
		t.Errorf("got %+v, %v", j, err)
	}
	s.wantNoTemps()
}

func TestTakeWithAKeyIsSentAgain(t *testing.T) {
	taken := 0
	s := newSite(t, rest.Options{Taken: func(*queuefs.Job) { taken++ }})
	for _, p := range []string{"a", "b", "c", "d"} {
		s.submit(p, queuefs.Meta{})
	}
	take := func(query, key, again, body string) answer {
		t.Helper()
		a := s.do("POST", "/consume/jobs?"+query, "", keyHeader, key, "Accept", "application/octet-stream").want(t, 200)
		a.header(t, replayed, again)
		if body != "" {
			want(t, "body", a.body, body)
		}
		return a
	}
	first := take("lease=60", `"k"`, "", "a")
	again := take("lease=60", "k", "true", "a")
	for _, name := range []string{"Cutie-Lease", "Cutie-Lease-Expires", "Cutie-Attempt", "Content-Location"} {
		if again.header(t, name, first.Header.Get(name)); first.Header.Get(name) == "" {
			t.Errorf("there is no %s", name)
		}
	}
	take("max=2", "several", "", "")
	parts := take("max=2", "several", "true", "").parts(t, "multipart/mixed")
	want(t, "several", len(parts), 2)
	take("", "l", "", "d")
	s.do("POST", "/consume/jobs", "", keyHeader, "m").want(t, 204).header(t, replayed, "")
	take("wait=1", "l", "true", "d")
	s.do("POST", "/consume/jobs", "", keyHeader, "not a key").want(t, 400)
	want(t, "taken", taken, 4)
	s.do("POST", "/outcome/jobs/j000000000001?outcome=completed", "", "Cutie-Lease", again.Header.Get("Cutie-Lease")).want(t, 200)
	s.do("POST", "/consume/jobs", "", keyHeader, "k").want(t, 204)
}

// TestABusyKeyMayBeTriedAgain lets a client ask while another one waits with its key.
func TestABusyKeyMayBeTriedAgain(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url+"/", nil)
	waits, leave := context.WithCancel(ctx)
	gone := make(chan error)
	go func() {
		_, err := c.NextFor(waits, "jobs", queuefs.Take{Key: "k"}, time.Minute)
		gone <- err
	}()
	var a answer
	for a.Response == nil || a.StatusCode == 204 { // until the other one is there
		a = s.do("POST", "/consume/jobs?wait=0.05", "", keyHeader, "k")
	}
	a.want(t, 409).header(t, "Retry-After", "1")
	if !strings.Contains(a.exception(t), queuefs.ErrKeyBusy.Error()) {
		t.Errorf("got %s", a.body)
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestClientSendsAgainWithKeys has a service whose every second answer is lost.
func TestClientSendsAgainWithKeys(t *testing.T) {
	s := newSite(t, rest.Options{})
	h := rest.New(s.svc, rest.Options{})
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n%2 == 1 {
			h.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	c := client.New(srv.URL+"/", nil)
	insist := func(do func() error) {
		t.Helper()
		for range 10 {
			if do() == nil {
				return
			}
		}
		t.Error("no answer")
	}
	for i := range 4 {
		insist(func() error {
			m := queuefs.Meta{Key: fmt.Sprint("one", i)}
			if i == 3 {
				m.Sidecar = strings.Repeat("ä", 4000) // in a form
			}
			_, err := c.Submit(ctx, "jobs", upload(fmt.Sprint(i), m))
			return err
		})
	}
	insist(func() error {
		ids, err := c.Submit(ctx, "jobs", upload("x", queuefs.Meta{Key: "a"}), upload("y", queuefs.Meta{Key: "b"}))
		if err == nil && fmt.Sprint(ids) != "[j000000000005 j000000000006]" {
			t.Errorf("got %v", ids)
		}
		return err
	})
	insist(func() error {
		d, err := c.NextFor(ctx, "jobs", queuefs.Take{Key: "k", Lease: time.Hour}, 0)
		if err != nil {
			return err
		}
		defer d.Body.Close()
		if text, err := io.ReadAll(d.Body); err != nil || string(text) != "0" || d.Job != "j000000000001" || d.Lease == "" || d.Attempt != 1 {
			t.Errorf("got %+v with %s, %v", d, text, err)
		}
		return nil
	})
	if n != 12 { // package net/http makes some of the tries itself
		t.Errorf("got %d requests", n)
	}
	s.wantCounts(5, 1, 0)
}
