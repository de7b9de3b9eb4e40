package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// The phases of a load.
const (
	submit  = "submit"
	consume = "consume"
	mixed   = "mixed" // every client submits and takes in turn
)

// A client does one operation after another, on a connection of its own. After an error
// it is not used again. Errors are complaints about the server or the jobs it handed out.
type client interface {
	submit(n int) error      // n jobs, all on stable storage
	take(n int) (int, error) // up to n jobs; 0 if none is pending
	close()
}

// A load is a number of clients that do the same at once.
type load struct {
	phase   string
	clients int
	size    int           // bytes of a job
	batch   int           // most jobs in a request
	jobs    int64         // to be submitted or consumed; 0: no limit
	lasts   time.Duration // 0: no limit
	rate    int           // operations a second of all clients; 0: no limit
}

// running is what the clients of a load share.
type running struct {
	load
	start time.Time
	turn  atomic.Int64 // operations at a rate
	left  atomic.Int64
	each  []atomic.Int64 // jobs moved in each second, of a load that lasts

	mu      sync.Mutex
	times   []time.Duration
	moved   int64
	errors  int64
	failure string
}

// run connects all clients, lets them begin together, and returns what they did.
func (l load) run(ctx context.Context, s *server) (result, error) {
	r := &running{load: l}
	r.left.Store(l.jobs)
	if l.lasts > 0 {
		r.each = make([]atomic.Int64, l.lasts/time.Second+2)
	}
	clients := make([]client, l.clients)
	for i := range clients {
		c, err := s.connect(ctx, l)
		if err != nil {
			return result{}, err
		}
		defer c.close()
		clients[i] = c
	}
	before, err := s.spent()
	if err != nil {
		return result{}, err
	}
	w := s.watch()
	r.start = time.Now()
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { r.loop(ctx, c) })
	}
	all.Wait()
	took := time.Since(r.start)
	used := w.end()
	after, err := s.spent()
	if err == nil {
		err = ctx.Err()
	}
	slices.Sort(r.times)
	res := result{
		setting: setting{Phase: l.phase, Size: l.size, Clients: l.clients, Batch: l.batch},
		Jobs:    r.moved, Seconds: took.Seconds(), Rate: float64(r.moved) / max(took.Seconds(), 1e-9),
		P50: quantile(r.times, 0.5), P99: quantile(r.times, 0.99), P999: quantile(r.times, 0.999),
		CPU: micros(after-before, r.moved), RSS: used.rss, Disk: used.disk,
		Errors: r.errors, Failure: r.failure, spent: after - before,
	}
	for i := range int(l.lasts / time.Second) {
		res.each = append(res.each, r.each[i].Load())
	}
	return res, err
}

// claim returns for how many jobs the next operation is; 0 at the end.
func (r *running) claim(ctx context.Context) int {
	if r.rate > 0 {
		n := r.turn.Add(1)
		at := r.start.Add(time.Duration(n) * time.Second / time.Duration(r.rate))
		if sleep(ctx, time.Until(at)) != nil {
			return 0
		}
	}
	if ctx.Err() != nil || r.lasts > 0 && time.Since(r.start) >= r.lasts {
		return 0
	}
	if r.jobs == 0 {
		return r.batch
	}
	return int(min(int64(r.batch), max(0, r.left.Add(-int64(r.batch))+int64(r.batch))))
}

func (r *running) loop(ctx context.Context, c client) {
	var times []time.Duration
	var moved int64
	var failure error
	for failure == nil {
		n := r.claim(ctx)
		if n == 0 {
			break
		}
		did, end := 0, false
		if r.phase != consume {
			began := time.Now()
			if failure = c.submit(n); failure == nil {
				times, did = append(times, time.Since(began)), n
			}
		}
		if r.phase != submit && failure == nil {
			began := time.Now()
			var got int
			if got, failure = c.take(n); got > 0 {
				times, did = append(times, time.Since(began)), did+got
			}
			end = got == 0 && r.phase == consume // in a mixed load others may have taken it
		}
		moved += int64(did)
		if at := int(time.Since(r.start) / time.Second); at < len(r.each) {
			r.each[at].Add(int64(did))
		}
		if end {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times, r.moved = append(r.times, times...), r.moved+moved
	if failure != nil && ctx.Err() == nil {
		r.errors++
		r.failure = failure.Error()
	}
}

// expect counts jobs that were submitted and did not come as errors.
func (r *result) expect(jobs int64) {
	if missing := jobs - r.Jobs; missing > 0 && r.Errors == 0 {
		r.Errors, r.Failure = missing, fmt.Sprintf("%d of %d submitted jobs did not come", missing, jobs)
	}
}

// quantile returns the milliseconds not exceeded by the fraction f of sorted times; zero
// without times.
func quantile(times []time.Duration, f float64) float64 {
	if len(times) == 0 {
		return 0
	}
	return float64(times[min(int(f*float64(len(times))), len(times)-1)]) / float64(time.Millisecond)
}

func micros(d time.Duration, jobs int64) float64 {
	return float64(d) / float64(time.Microsecond) / float64(max(jobs, 1))
}

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
