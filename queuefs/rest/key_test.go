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

const keyHeader = "Idempotency-Key"

func TestManifestWithAKeyIsSentAgainForLater(t *testing.T) {
	src := newSource(t, map[string]string{"/a": "hello\n", "/b": "more"})
	s := newSite(t, rest.Options{Fetch: src.client(t)})
	manifest := src.url + "/a\n" + src.url + "/b\n"
	s.postBatch(manifest, keyHeader, "m").want(t, 201)
	b := s.ended(s.postBatch(manifest, keyHeader, "m", "Prefer", "respond-async").want(t, 202).Header.Get("Location"))
	want(t, "batch", fmt.Sprint(b.Status, b.Submitted, b.Name), fmt.Sprint(state.BatchDone, []queuefs.JobID{1, 2}, "b000000000001-2"))
	s.wantNoTemps()
}

// A take that is sent again takes nothing.
func TestATakeWithAKeyIsCountedOnce(t *testing.T) {
	taken := 0
	s := newSite(t, rest.Options{Taken: func(*queuefs.Job) { taken++ }})
	s.submit("a", queuefs.Meta{})
	for range 2 {
		s.do("POST", "/consume/jobs?lease=60", "", keyHeader, "k").want(t, 200)
	}
	want(t, "taken", taken, 1)
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
