package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
)

// subject is the server of runs without a name.
const subject = "cutie"

// readReports reads the runs of several JSON files.
func readReports(names []string) (report, error) {
	var all report
	if len(names) == 0 {
		return all, errors.New("no file named")
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return all, err
		}
		var r report
		if err := json.Unmarshal(data, &r); err != nil {
			return all, fmt.Errorf("%s: %w", name, err)
		}
		for _, run := range r.Runs {
			if run.Server == "" {
				run.Server = subject
			}
			all.Runs = append(all.Runs, run)
		}
	}
	return all, nil
}

// setting is equal in comparable runs.
type setting struct {
	phase         string
	size, clients int
}

// cell is one server at one setting, in requests of up to batch jobs.
type cell struct {
	setting
	server string
	batch  int
}

// writeRatios prints the rate of cutie for every setting, beside it the rates of
// the peers and the ratios. The rate of a cell is the median of its runs. Peers
// do one job a request, also beside batches of cutie.
func writeRatios(w io.Writer, report report) error {
	runs := make(map[cell][]result)
	var rows []cell // of cutie, in the order of the runs
	var servers []string
	for _, run := range report.Runs {
		c := cell{setting{run.Phase, run.Size, run.Clients}, run.Server, max(run.Batch, 1)}
		if run.Server == subject && runs[c] == nil {
			rows = append(rows, c)
		}
		if run.Server != subject && !slices.Contains(servers, run.Server) {
			servers = append(servers, run.Server)
		}
		runs[c] = append(runs[c], run)
	}
	if len(rows) == 0 {
		return errors.New("no run of " + subject + " to compare with")
	}

	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "phase\toctets\tclients\tbatch\truns\t%s/s\tp99 ms\tcpu µs/job\trss MB\terrors\t", subject)
	for _, s := range servers {
		fmt.Fprintf(t, "%s/s\tratio\t", s)
	}
	fmt.Fprintln(t)
	for _, row := range rows {
		own := runs[row]
		rate := median(own, func(r result) float64 { return r.OpsPerSecond })
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%.0f\t%.2f\t%s\t%d\t", row.phase, row.size, row.clients, row.batch, len(own),
			rate, median(own, func(r result) float64 { return r.P99 }), spent(own), errorsOf(own))
		for _, s := range servers {
			other := runs[cell{row.setting, s, 1}]
			if len(other) == 0 {
				fmt.Fprint(t, "-\t-\t")
				continue
			}
			theirs := median(other, func(r result) float64 { return r.OpsPerSecond })
			fmt.Fprintf(t, "%.0f\t%.2f\t", theirs, rate/theirs)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// spent is two cells: processor time a job and resident memory.
func spent(runs []result) string {
	for _, r := range runs {
		if r.Usage == nil || r.Jobs == 0 {
			return "-\t-"
		}
	}
	cpu := median(runs, func(r result) float64 { return 1e6 * r.Usage.CPUSeconds / float64(r.Jobs) })
	rss := median(runs, func(r result) float64 { return float64(r.Usage.RSS) / 1e6 })
	return fmt.Sprintf("%.1f\t%.1f", cpu, rss)
}

func errorsOf(runs []result) (n int64) {
	for _, r := range runs {
		n += r.Errors
	}
	return n
}

// median returns the median of one figure of at least one run.
func median(runs []result, of func(result) float64) float64 {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = of(r)
	}
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}
