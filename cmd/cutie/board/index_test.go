package board_test

import (
	"context"
	"encoding/xml"
	"io"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/board"
	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/web"
)

// The page of the service shows its reader the queues within their rights, and the form
// to create one to administrators alone.
func TestIndexShowsWhatTheReaderMay(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "A & <b>", Identifier: "x:y"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	svc.SetBaseURI("http://127.0.0.1:8080/base")
	for _, info := range []queuefs.QueueInfo{{Identifier: "one", Name: "<script>&", CullingSize: -1, CullingAge: -1},
		{Identifier: "two", Paused: time.Now(), CullingSize: -1, CullingAge: -1}} {
		if _, err := svc.CreateQueue(ctx, info); err != nil {
			t.Fatal(err)
		}
	}
	b := &board.Board{Service: svc}
	router := web.NewRouter(web.Plain, b.Routes()...)
	for _, tt := range []struct {
		rights  string
		one     bool
		two     bool
		creates bool
	}{
		{"all", true, true, true},
		{"read", true, true, false},
		{"read:two,admin:two", false, true, false},
	} {
		rights, err := access.ParseRights(tt.rights)
		if err != nil {
			t.Fatal(err)
		}
		gate, err := access.New(access.Options{Anonymous: rights})
		if err != nil {
			t.Fatal(err)
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		caller, err := gate.Admit(w.Header(), r, web.Anywhere(web.Read), "", netip.MustParseAddr("127.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		router.ServeHTTP(w, r.WithContext(access.WithCaller(ctx, caller)))
		page := w.Body.String()
		for text, want := range map[string]bool{
			`<a href="http://127.0.0.1:8080/base/state/one?t=xhtml">&lt;script&gt;&amp;</a>`:                        tt.one,
			`<a href="http://127.0.0.1:8080/base/state/two?t=xhtml">two</a> <span class="badge warn">paused</span>`: tt.two,
			`<form method="post" action="http://127.0.0.1:8080/base/state?t=xhtml">`:                                tt.creates,
			"<h1>A &amp; &lt;b&gt;</h1>": true,
			"<script":                    false,
		} {
			if got := strings.Contains(page, text); got != want {
				t.Errorf("%s: page has %s: %v, want %v", tt.rights, text, got, want)
			}
		}
		if got := w.Header().Get("Content-Security-Policy"); w.Code != 200 || got != dashboard.Policy {
			t.Errorf("%s: got %d with policy %q", tt.rights, w.Code, got)
		}
		dec := xml.NewDecoder(strings.NewReader(page))
		for err == nil {
			_, err = dec.Token()
		}
		if err != io.EOF {
			t.Errorf("%s: not well-formed: %v", tt.rights, err)
		}
	}
}
