package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Many queues have their figures together, in as many samples as one.
func TestFiguresOfManyQueuesAreOne(t *testing.T) {
	for _, tt := range []struct {
		queues int
		want   string
	}{
		{2, `jobs{queue=q0,status=a}=0 last{queue=q0}=0 first{queue=q0}=0 jobs{queue=q1,status=a}=1 last{queue=q1}=1 first{queue=q1}=1`},
		{maxFigures + 1, fmt.Sprintf("jobs{queue=,status=a}=%d last{queue=}=%d first{queue=}=0", maxFigures*(maxFigures+1)/2, maxFigures)},
	} {
		to := make(chan prometheus.Metric, 10*maxFigures)
		of := samples(to).ofQueues(tt.queues)
		jobs, last, first := of.counter("jobs", "", "status"), of.gauge("last", "", greatest), of.gauge("first", "", least)
		for n := range tt.queues {
			queue := fmt.Sprint("q", n)
			jobs.add(float64(n), queue, "a")
			last.add(float64(n), queue)
			first.add(float64(n), queue)
		}
		of.end()
		close(to)
		var got []string
		for m := range to {
			var d dto.Metric
			if err := m.Write(&d); err != nil {
				t.Fatal(err)
			}
			var labels []string
			for _, l := range d.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			_, name, _ := strings.Cut(m.Desc().String(), `fqName: "`)
			name, _, _ = strings.Cut(name, `"`)
			got = append(got, fmt.Sprintf("%s{%s}=%v", name, strings.Join(labels, ","), d.GetCounter().GetValue()+d.GetGauge().GetValue()))
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%d queues: got %s, want %s", tt.queues, s, tt.want)
		}
	}
}
