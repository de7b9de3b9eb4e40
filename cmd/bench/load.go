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
	create  = "create" // queues
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
	size    int                     // bytes of a job
	batch   int                     // most jobs in a request
	jobs    int64                   // to be submitted or consumed; 0: no limit
	lasts   time.Duration           // 0: no limit
	rate    int                     // operations a second of all clients; 0: no limit
	do      func(*httpClient) error // the operation, if it is another than to submit or take
	queues  *atomic.Int64           // counts queues, if each operation has one of its own; else nil
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
	end := s.watch()
	r.start = time.Now()
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { r.loop(ctx, c) })
	}
	all.Wait()
	took := time.Since(r.start)
	res := result{setting: setting{Size: l.size, Clients: l.clients}}.row(l.phase, r.moved, took)
	res.Batch, res.Errors, res.Failure = l.batch, r.errors, r.failure
	res.quantiles(r.times)
	res.RSS, res.Disk = end()
	after, err := s.spent()
	if err == nil {
		err = ctx.Err()
	}
	res.spent = after - before
	res.CPU = micros(res.spent, res.Jobs)
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
			if r.do != nil {
				failure = r.do(c.(*httpClient))
			} else {
				failure = c.submit(n)
			}
			if failure == nil {
				times, did = append(times, time.Since(began)), n
			}
		}
		if (r.phase == mixed || r.phase == consume) && failure == nil {
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

// quantiles sets those of times, which it sorts.
func (r *result) quantiles(times []time.Duration) {
	slices.Sort(times)
	r.P50, r.P99, r.P999 = quantile(times, 0.5), quantile(times, 0.99), quantile(times, 0.999)
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
	Anon    int64   `json:"anon_bytes"` // memory but for that of files, after a start
	Disk    int64   `json:"disk_bytes"` // most space of its files
	Errors  int64   `json:"errors"`
	Failure string  `json:"failure,omitempty"` // one of the errors

	spent time.Duration
	ratio float64 // of the rate of the first server to the one of this row
	each  []int64 // jobs moved in each second of a load that lasts
}

// row is a result in the same setting, but for the phase, and without batches.
func (r result) row(phase string, jobs int64, took time.Duration) result {
	r.Phase, r.Batch = phase, 1
	return result{setting: r.setting, Jobs: jobs, Seconds: took.Seconds(), Rate: float64(jobs) / max(took.Seconds(), 1e-9)}
}

// columns of the table that are medians over the rounds.
var columns = []struct {
	name, format string
	value        func(*result) float64
}{
	{"moved", "%.0f", func(r *result) float64 { return float64(r.Jobs) }},
	{"seconds", "%.2f", func(r *result) float64 { return r.Seconds }},
	{"moved/s", "%.0f", func(r *result) float64 { return r.Rate }},
	{"ratio", "%.2f", func(r *result) float64 { return r.ratio }},
	{"p50 ms", "%.2f", func(r *result) float64 { return r.P50 }},
	{"p99 ms", "%.2f", func(r *result) float64 { return r.P99 }},
	{"p99.9 ms", "%.2f", func(r *result) float64 { return r.P999 }},
	{"cpu µs", "%.1f", func(r *result) float64 { return r.CPU }},
	{"RSS MB", "%.0f", func(r *result) float64 { return float64(r.RSS) / 1e6 }},
	{"anon MB", "%.0f", func(r *result) float64 { return float64(r.Anon) / 1e6 }},
	{"disk MB", "%.0f", func(r *result) float64 { return float64(r.Disk) / 1e6 }},
	{"errors", "%.0f", func(r *result) float64 { return float64(r.Errors) }},
}

// writeTable prints the medians of equal settings, a server a line.
func writeTable(w io.Writer, all []result) error {
	first := map[setting]float64{} // rate of the first server
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "kind\tphase\tbytes\tclients\tbatch\tserver\truns\t")
	for _, c := range columns {
		fmt.Fprint(t, c.name, "\t")
	}
	fmt.Fprintln(t)
	for _, runs := range inRows(all) {
		s, rate := runs[0].peerless(), median(runs, func(r *result) float64 { return r.Rate })
		if _, known := first[s]; !known {
			first[s] = rate
		}
		for i := range runs {
			runs[i].ratio = first[s] / max(rate, 1e-9)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\t%d\t", s.Kind, s.Phase, s.Size, s.Clients, runs[0].Batch, runs[0].Server, len(runs))
		for _, c := range columns {
			if v := median(runs, c.value); v != 0 || c.name == "errors" {
				fmt.Fprintf(t, c.format+"\t", v)
			} else {
				fmt.Fprint(t, "-\t") // not measured
			}
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// peerless is the setting without what differs between servers: peers move one job a
// request beside batches.
func (r *result) peerless() setting {
	s := r.setting
	s.Batch = 0
	return s
}

// inRows gathers the results of one setting and server; rows of one setting follow each other.
func inRows(all []result) (rows [][]result) {
	for _, r := range all {
		at := len(rows)
		for i, row := range rows {
			if row[0].peerless() == r.peerless() {
				if at = i + 1; row[0].Server == r.Server {
					rows[i], at = append(row, r), -1
					break
				}
			}
		}
		if at >= 0 {
			rows = slices.Insert(rows, at, []result{r})
		}
	}
	return rows
}

func median(runs []result, of func(*result) float64) float64 {
	var values []float64
	for i := range runs {
		values = append(values, of(&runs[i]))
	}
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}
