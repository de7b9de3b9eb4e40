package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// result is the figures of one run.
type result struct {
	Server       string        `json:"server,omitempty"` // "": cutie, measured alone
	Phase        string        `json:"phase"`
	Clients      int           `json:"clients"`
	Size         int           `json:"size"`  // bytes of a job
	Batch        int           `json:"batch"` // most jobs in one request
	Jobs         int64         `json:"jobs"`  // moved
	Seconds      float64       `json:"seconds"`
	OpsPerSecond float64       `json:"ops_per_second"` // jobs moved, not requests
	P50          float64       `json:"p50_ms"`         // of one successful request
	P99          float64       `json:"p99_ms"`
	P999         float64       `json:"p999_ms"`
	Errors       int64         `json:"errors"`
	Failures     []failure     `json:"failures,omitempty"` // the most frequent ten
	Usage        *processUsage `json:"usage,omitempty"`    // of the server, where it is known

	each []int64 // jobs moved in each second of a run with a duration
}

// failure is an error and how often it came.
type failure struct {
	Text  string `json:"text"`
	Count int64  `json:"count"`
}

// report is the results of several runs, as they are kept in a file.
type report struct {
	Runs []result `json:"runs"`
}

// writeJSON prints the report as one JSON object.
func (r report) writeJSON(w io.Writer) error {
	if r.Runs == nil {
		r.Runs = []result{}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// writeTable prints the report for people, a run a line. Empty columns are left
// out; without runs nothing is printed.
func (r report) writeTable(w io.Writer) error {
	if len(r.Runs) == 0 {
		return nil
	}
	var servers, usage bool
	for _, run := range r.Runs {
		servers = servers || run.Server != ""
		usage = usage || run.Usage != nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if servers {
		fmt.Fprint(t, "server\t")
	}
	fmt.Fprint(t, "phase\tclients\toctets\tbatch\tmoved\tseconds\tmoved/s\tp50 ms\tp99 ms\tp99.9 ms\terrors\t")
	if usage {
		fmt.Fprint(t, "cpu s\trss MB\t")
	}
	fmt.Fprintln(t)
	for _, run := range r.Runs {
		if servers {
			fmt.Fprintf(t, "%s\t", run.Server)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%.2f\t%.0f\t%.3f\t%.3f\t%.3f\t%d\t", run.Phase, run.Clients, run.Size,
			run.Batch, run.Jobs, run.Seconds, run.OpsPerSecond, run.P50, run.P99, run.P999, run.Errors)
		if u := run.Usage; u != nil {
			fmt.Fprintf(t, "%.2f\t%.1f\t", u.CPUSeconds, float64(u.RSS)/1e6)
		} else if usage {
			fmt.Fprint(t, "-\t-\t")
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
