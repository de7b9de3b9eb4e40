package doctor

import (
	"cutie/queuefs/durable"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
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
	e := &examination{Patient: Patient{Audit: time.Hour, Now: time.Unix(1000+7201, 0)}}
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
