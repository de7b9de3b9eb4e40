package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"cutie/cmd/cutie/daemon"
	"cutie/queuefs/durable"
)

func TestFigures(t *testing.T) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(`# TYPE cutie_storage_failed gauge
cutie_storage_failed 1
# TYPE cutie_publisher_failed gauge
cutie_publisher_failed 0
# TYPE cutie_published_lag_seconds gauge
cutie_published_lag_seconds{queue="a",set="pending"} 299
cutie_published_lag_seconds{queue="b",set="pending"} 301
# TYPE cutie_published_lost gauge
cutie_published_lost{queue="1"} 1
cutie_published_lost{queue="2"} 1
cutie_published_lost{queue="3"} 1
cutie_published_lost{queue="4"} 1
cutie_published_lost{queue="5"} 1
cutie_published_lost{queue="6"} 1
# TYPE cutie_mirror_failing gauge
cutie_mirror_failing{queue="m"} 1
# TYPE cutie_mirror_lag_events gauge
cutie_mirror_lag_events{queue="m"} 7
# TYPE cutie_mirror_audit_timestamp_seconds gauge
cutie_mirror_audit_timestamp_seconds{queue="m"} 1000
`))
	if err != nil {
		t.Fatal(err)
	}
	e := &examination{settings: new(settings), now: time.Unix(1000+7201, 0)}
	e.Mirror.Audit = time.Hour
	e.measured(families)
	e.mirrored(families)
	want := []durable.Finding{
		{Level: durable.Faulty, Path: "daemon", Text: "a sync has failed, and nothing is accepted", Cure: "look at the disk and its log, then start the daemon again"},
		{Level: durable.Warning, Path: "publishing", Text: "b: its lists are minutes behind its events", Cure: "see the log; a load beyond what the disk carries does this"},
		{Level: durable.Warning, Path: "publishing", Text: "1, 2, 3, 4, 5, …: damaged lists or packages were set aside", Cure: "mirrors that are far behind take a new Resource Dump; look at the disk and its log"},
		{Level: durable.Faulty, Path: "mirrors", Text: "m: does not follow its original", Cure: "cutie ls m says why; if the original is lost: cutie failover mirror m"},
		{Level: durable.Warning, Path: "mirrors", Text: "1 not compared with their originals for longer than --mirror-audit, m first", Cure: "cutie audit --mirror m compares it now"},
	}
	for i, f := range e.findings {
		if i >= len(want) || f != want[i] {
			t.Errorf("got %+v", f)
		}
	}
	if len(e.findings) != len(want) {
		t.Errorf("got %d findings, not %d", len(e.findings), len(want))
	}
}

// Each of these daemons with a home in a store has one fault, which is named with its cure.
func TestDaemonsOfAStore(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0).UTC()
	serve := func(r daemon.Ownership, status int) *httptest.Server {
		var srv *httptest.Server
		srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			own := r
			if own.Node == "" {
				own.Node = srv.URL
			}
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(own)
		}))
		t.Cleanup(srv.Close)
		return srv
	}
	nobody := serve(daemon.Ownership{}, http.StatusOK)
	nobody.Close()
	owner := serve(daemon.Ownership{Role: "owner", Batch: 7}, http.StatusOK).URL
	guarded := serve(daemon.Ownership{}, http.StatusUnauthorized).URL
	for name, c := range map[string]struct {
		own        daemon.Ownership
		base       string
		level      durable.Level
		text, cure string
	}{
		"owner":                {daemon.Ownership{Role: "owner", Batch: 7}, "", durable.Fine, "owns the home, at batch 7", ""},
		"standby":              {daemon.Ownership{Role: "standby", Owner: "a", URL: owner, As: now.Add(-time.Second)}, "", durable.Fine, "1s behind the owner a", ""},
		"guarded owner":        {daemon.Ownership{Role: "standby", Owner: "a", URL: guarded, As: now}, "", durable.Fine, "behind the owner a", ""},
		"no owner":             {daemon.Ownership{Role: "standby", Owner: "a", Left: true}, "", durable.Faulty, "the home has no owner", "cutie failover standby --url http://127."},
		"silent owner":         {daemon.Ownership{Role: "standby", Owner: "a", URL: nobody.URL, Quiet: true, As: now}, "", durable.Faulty, "a, gives no signs of life", "--takeover-after"},
		"owner not reached":    {daemon.Ownership{Role: "standby", Owner: "a", URL: nobody.URL, As: now}, "", durable.Faulty, "a, is not reached at " + nobody.URL, "its --node-url"},
		"owner without URL":    {daemon.Ownership{Role: "standby", Owner: "a", As: now}, "", durable.Faulty, "does not say where it answers", "--node-url"},
		"another at the URL":   {daemon.Ownership{Role: "standby", Owner: "a", URL: serve(daemon.Ownership{Role: "standby"}, http.StatusOK).URL, As: now}, "", durable.Faulty, "there is a standby", "its --node-url"},
		"behind":               {daemon.Ownership{Role: "standby", Owner: "a", URL: owner, As: now.Add(-time.Minute)}, "", durable.Warning, "1m0s behind", "the way to the store"},
		"node not reached":     {daemon.Ownership{Role: "owner", Node: nobody.URL}, "", durable.Faulty, "this daemon is not reached at " + nobody.URL, "--node-url"},
		"node on this machine": {daemon.Ownership{Role: "owner"}, "https://queue.example.org/", durable.Warning, "for this machine alone", "--node-url"},
	} {
		srv := serve(c.own, http.StatusOK)
		if c.base == "" {
			c.base = srv.URL + "/"
		}
		e := &examination{settings: new(settings), now: now, daemon: &target{HTTP: srv.Client(), Base: srv.URL + "/"}}
		e.Listen.BaseURI = c.base
		e.shared(t.Context())
		if len(e.findings) != 1 || e.findings[0].Level != c.level || e.findings[0].Path != "store" ||
			!strings.Contains(e.findings[0].Text, c.text) || !strings.Contains(e.findings[0].Cure, c.cure) || (c.cure == "") != (e.findings[0].Cure == "") {
			t.Errorf("%s: got %+v, want %s %q, cure %q", name, e.findings, c.level, c.text, c.cure)
		}
	}
	local := httptest.NewServer(http.NotFoundHandler())
	defer local.Close()
	e := &examination{settings: new(settings), now: now, daemon: &target{HTTP: local.Client(), Base: local.URL + "/"}}
	if e.shared(t.Context()); len(e.findings) > 0 {
		t.Errorf("a home in its directory: got %+v", e.findings)
	}
}
