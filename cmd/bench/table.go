package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// setting is equal in results that can be compared.
type setting struct {
	Kind    string `json:"kind"`
	Phase   string `json:"phase"`
	Size    int    `json:"size"` // bytes of a job
	Clients int    `json:"clients"`
	Batch   int    `json:"batch"` // most jobs in a request
}

func (s setting) String() string {
	return fmt.Sprintf("%s %s, %d bytes, %d clients", s.Kind, s.Phase, s.Size, s.Clients)
}

// result is what one server did in one phase.
type result struct {
	setting
	Server  string  `json:"server"`
	Jobs    int64   `json:"jobs"` // moved
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"rate"`   // jobs moved a second
	P50     float64 `json:"p50_ms"` // of a request
	P99     float64 `json:"p99_ms"`
	P999    float64 `json:"p999_ms"`
	CPU     float64 `json:"cpu_us"`     // processor time of the server for each job, microseconds
	RSS     int64   `json:"rss_bytes"`  // most memory
	Disk    int64   `json:"disk_bytes"` // most space of its files
	Errors  int64   `json:"errors"`
	Failure string  `json:"failure,omitempty"` // one of the errors

	spent time.Duration
	each  []int64 // jobs moved in each second of a load that lasts
}

// writeTable prints the medians of equal settings, a server a line.
func writeTable(w io.Writer, all []result) error {
	type row struct {
		setting
		server string
	}
	runs := map[row][]result{}
	first := map[setting]float64{}
	var rows []row
	var settings []setting
	for _, r := range all {
		key := row{r.setting, r.Server}
		key.Batch = 0 // peers move one job a request beside batches
		if runs[key] == nil {
			rows = append(rows, key)
		}
		if !slices.Contains(settings, key.setting) {
			settings = append(settings, key.setting)
		}
		runs[key] = append(runs[key], r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kind\tphase\tbytes\tclients\tbatch\tserver\truns\tmoved\tseconds\tmoved/s\tratio\tp50 ms\tp99 ms\tp99.9 ms\tcpu µs\tRSS MB\tdisk MB\terrors\t")
	for _, s := range settings {
		for _, key := range rows {
			if key.setting != s {
				continue
			}
			same := runs[key]
			med := func(of func(result) float64) float64 { return median(same, of) }
			rate := med(func(r result) float64 { return r.Rate })
			if _, known := first[s]; !known {
				first[s] = rate
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\t%d\t", s.Kind, s.Phase, s.Size, s.Clients, same[0].Batch, key.server, len(same))
			for _, c := range []struct {
				format string
				value  float64
			}{
				{"%.0f", med(func(r result) float64 { return float64(r.Jobs) })},
				{"%.2f", med(func(r result) float64 { return r.Seconds })},
				{"%.0f", rate},
				{"%.2f", first[s] / max(rate, 1e-9)},
				{"%.2f", med(func(r result) float64 { return r.P50 })},
				{"%.2f", med(func(r result) float64 { return r.P99 })},
				{"%.2f", med(func(r result) float64 { return r.P999 })},
				{"%.1f", med(func(r result) float64 { return r.CPU })},
				{"%.0f", med(func(r result) float64 { return float64(r.RSS) / 1e6 })},
				{"%.0f", med(func(r result) float64 { return float64(r.Disk) / 1e6 })},
			} {
				if c.value == 0 {
					fmt.Fprint(t, "-\t") // not measured
				} else {
					fmt.Fprintf(t, c.format+"\t", c.value)
				}
			}
			fmt.Fprintf(t, "%.0f\t\n", med(func(r result) float64 { return float64(r.Errors) }))
		}
	}
	return t.Flush()
}

func median(runs []result, of func(result) float64) float64 {
	var values []float64
	for _, r := range runs {
		values = append(values, of(r))
	}
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}
