package daemon

import (
	"errors"
	"maps"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"cutie/cmd/cutie/mirror"
	"cutie/publisher"
	"cutie/publisher/hub"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/objects"
)

// A meter counts what the daemon does, and answers Prometheus servers. Figures
// of queues, publishing and push are read when they are asked for.
type meter struct {
	requests *prometheus.CounterVec
	bytes    prometheus.Counter
	seconds  *prometheus.HistogramVec // of requests
	queued   prometheus.Histogram     // seconds of jobs
	worked   prometheus.Histogram
	answer   http.Handler

	mu    sync.RWMutex
	known map[answered]series // found by their labels once
}

// answered is what the labels of an answer are made from.
type answered struct {
	method, route string
	status        int
}

// series are the figures of the answers with the same labels.
type series struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

// newMeter returns a meter with a registry of its own.
func newMeter(of ...prometheus.Collector) *meter {
	long := []float64{.001, .01, .1, 1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}
	m := &meter{
		known: map[answered]series{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cutie_http_requests_total",
			Help: "Answered requests; the status is 0 if the client had gone."}, []string{"method", "status"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "cutie_http_response_bytes_total",
			Help: "Bytes of the bodies of answers."}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cutie_http_request_seconds",
			Help:    "Time from the header of a request to the end of its answer, by route; waiting for a job or a change included.",
			Buckets: []float64{.0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 60}}, []string{"method", "route"}),
		queued: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cutie_job_queue_seconds",
			Help: "Time of a job in its queue, until a consumer took it; time on hold included.", Buckets: long}),
		worked: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cutie_job_work_seconds",
			Help: "Time from taking a job until its consumer reported the outcome.", Buckets: long}),
	}
	r := prometheus.NewRegistry()
	r.MustRegister(append(of, m.requests, m.bytes, m.seconds, m.queued, m.worked, newProgram(),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))...)
	m.answer = promhttp.HandlerFor(r, promhttp.HandlerOpts{DisableCompression: true})
	return m
}

// serve answers a Prometheus server.
func (m *meter) serve(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	m.answer.ServeHTTP(w, r)
	return nil
}

// request counts an answer. Other methods than those of routes count as one.
func (m *meter) request(method, route string, status int, octets int64, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch:
	default:
		method = "other"
	}
	s := m.series(answered{method, route, status})
	s.requests.Inc()
	s.seconds.Observe(took.Seconds())
	m.bytes.Add(float64(octets))
}

// series returns the figures of an answer. There are few: methods, routes and statuses
// are ours.
func (m *meter) series(a answered) series {
	m.mu.RLock()
	s, ok := m.known[a]
	m.mu.RUnlock()
	if !ok {
		s = series{m.requests.WithLabelValues(a.method, strconv.Itoa(a.status)), m.seconds.WithLabelValues(a.method, a.route)}
		m.mu.Lock()
		m.known[a] = s
		m.mu.Unlock()
	}
	return s
}

// taken is the hook of [rest.Options] for a job that a consumer took.
func (m *meter) taken(j *job.Job) {
	m.queued.Observe(j.Consumed.Sub(j.PendingSince()).Seconds())
}

// concluded is the hook for a job whose consumer reported the outcome.
func (m *meter) concluded(j *job.Job) { m.worked.Observe(j.Finished.Sub(j.Consumed).Seconds()) }

// newProgram tells of the program what the collectors of the library do not.
func newProgram() prometheus.Collector {
	return reading(func(s samples) {
		s.gauge("cutie_build_info", "The version, as labels.", "version", "go").add(1, home.Version, runtime.Version())
		cycles := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
		metrics.Read(cycles)
		s.counter("go_gc_cycles_total", "Garbage collections since the daemon began.").add(float64(cycles[0].Value.Uint64()))
	})
}

// A reading is a collector that reads its figures when they are asked for.
type reading func(samples)

// Describe describes nothing: queues come and go.
func (r reading) Describe(chan<- *prometheus.Desc) {}

func (r reading) Collect(to chan<- prometheus.Metric) { r(samples(to)) }

type samples chan<- prometheus.Metric

// A family is the samples of one name.
type family struct {
	to   samples
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (s samples) gauge(name, help string, labels ...string) family {
	return family{s, prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

func (s samples) counter(name, help string, labels ...string) family {
	return family{s, prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

func (f family) add(value float64, labels ...string) {
	f.to <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

// truth is 1 for true.
func truth(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// collectors are the figures of the daemon.
func (d *daemon) collectors() []prometheus.Collector {
	of := []prometheus.Collector{storageMetrics(d.svc), publishingMetrics(d.pub), hubMetrics(d.push.hub), reading(func(to samples) {
		to.gauge("cutie_requests_waiting", "Requests over the network that wait for a job or a change.").add(float64(d.crowd.Waiting()))
	})}
	if d.memory != nil {
		of = append(of, reading(func(to samples) {
			to.gauge("cutie_request_buffers_bytes", "Memory for what is kept of requests, see serve --max-buffers.").add(float64(d.memory.Taken()))
		}))
	}
	if d.node != nil {
		of = append(of, d.node.metrics())
	}
	return of
}

// storageMetrics tells of the queues as they are, and of the storage.
func storageMetrics(svc *queuefs.Service) reading {
	return func(to samples) {
		queues := svc.Queues()
		of := to.ofQueues(len(queues))
		defer of.end()
		jobs := of.gauge("cutie_jobs", "Jobs by the directory that they stand in.", sum, "status")
		held := of.gauge("cutie_jobs_held", "Pending jobs on hold, which are passed over.", sum)
		leased := of.gauge("cutie_jobs_leased", "Consumed jobs whose consumer is to report.", sum)
		failed := of.gauge("cutie_jobs_failed", "Jobs whose outcome is an error.", sum)
		events := of.counter("cutie_events_total", "Events of a queue since it was made: every change of a job is one.")
		paused := of.gauge("cutie_queue_paused", "1 if a queue hands out no jobs.", sum)
		mirrors := mirrorFigures(of)
		lost := of.gauge("cutie_queue_lost", "1 if a queue is not served because its directory is lost.", sum)
		for _, l := range svc.Lost() {
			lost.add(1, l.Queue)
		}
		last := of.gauge("cutie_last_event_timestamp_seconds", "Time of the last event of a queue, or of its making.", greatest)
		oldest := of.gauge("cutie_oldest_pending_timestamp_seconds", "Submission of the job at the head of a queue; absent if there is none.", least)
		for _, q := range queues {
			s := q.State()
			id := s.Info.ID
			jobs.add(float64(s.Pending), id, "pending")
			jobs.add(float64(s.Consumed), id, "consumed")
			jobs.add(float64(s.Deleted), id, "deleted")
			held.add(float64(s.Held), id)
			leased.add(float64(s.Leased), id)
			failed.add(float64(s.Failed), id)
			events.add(float64(s.Seq), id)
			paused.add(truth(!s.Info.Paused.IsZero()), id)
			lost.add(0, id)
			mirrors(&s)
			if !s.LastEvent.IsZero() {
				last.add(seconds(s.LastEvent), id)
			}
			if !s.Oldest.IsZero() {
				oldest.add(seconds(s.Oldest), id)
			}
		}
		syncs := svc.JournalSyncs()
		to.gauge("cutie_jobs_unfiled", "Jobs whose files are behind the journal: they are written at a stop, or read after a crash.").add(float64(svc.Behind()))
		to.gauge("cutie_index_bytes", "Memory of the index of all jobs.").add(float64(svc.IndexSize()))
		to.counter("cutie_journal_syncs_total", "Syncs of the journal since the daemon began; operations at the same time share one.").add(float64(syncs.Count))
		to.counter("cutie_journal_sync_seconds_total", "Time of these syncs.").add(syncs.Took.Seconds())
		within := map[float64]uint64{}
		for i, n := range syncs.Within {
			within[journal.SyncTimes[i].Seconds()] = uint64(n)
		}
		to <- prometheus.MustNewConstHistogram(prometheus.NewDesc("cutie_journal_sync_seconds", "Time of a sync of the journal.", nil, nil),
			uint64(syncs.Count), syncs.Took.Seconds(), within)
		to.gauge("cutie_storage_full", "1 if there is no free space: submissions and results are refused with 507.").add(truth(svc.Full() || !svc.HasSpace(0)))
		to.gauge("cutie_storage_failed", "1 if a sync has failed: nothing is accepted until the daemon is started again.").add(truth(svc.Err() != nil && !errors.Is(svc.Err(), objects.ErrAway)))
	}
}

// publishingMetrics tells how far the publisher is behind the queues.
func publishingMetrics(pub *publisher.Publisher) reading {
	return func(to samples) {
		to.gauge("cutie_publisher_failed", "1 if nothing is published now, see the log.").add(truth(pub.Failure() != nil))
		care := pub.Care()
		to.counter("cutie_scrub_bytes_total", "Bytes of published files read again to verify them, since the daemon began.").add(float64(care.Bytes))
		to.counter("cutie_scrub_passes_total", "How often all of them were read.").add(float64(care.Passes))
		if !care.Ended.IsZero() {
			to.gauge("cutie_scrub_last_pass_timestamp_seconds", "When all of them had been read last.").add(seconds(care.Ended))
		}
		to.counter("cutie_published_given_up_total", "Damaged published files that were set aside, since the daemon began.").add(float64(care.Lost))
		sets := pub.State()
		of := to.ofQueues(len(sets) / 2)
		defer of.end()
		left := of.gauge("cutie_published_left_out", "Files that packages of changes of a set lack: they were gone when the packages were made.", sum, "set")
		lost := of.gauge("cutie_published_lost", "Damaged files of a set that were set aside, since it was opened last.", sum, "set")
		events := of.gauge("cutie_published_lag_events", "Events that the lists of a set do not have yet.", sum, "set")
		lag := of.gauge("cutie_published_lag_seconds", "Time between the last event of a queue and the last in the lists of a set.", greatest, "set")
		waiting := of.gauge("cutie_published_lists_waiting", "Closed Change Lists of a set without packages yet.", sum, "set")
		bytes := of.gauge("cutie_published_bytes", "Disk space of the lists, packages and dumps of a set.", sum, "set")
		failing := of.gauge("cutie_published_failing", "1 if the last package or dump of a set was not made, see cutie publish.", sum, "set")
		for _, s := range sets {
			set := s.Set.String()
			events.add(float64(s.Event-s.Read), s.Queue, set)
			lag.add(s.Lag.Seconds(), s.Queue, set)
			waiting.add(float64(s.Waiting), s.Queue, set)
			left.add(float64(s.Left), s.Queue, set)
			lost.add(float64(s.Lost), s.Queue, set)
			bytes.add(float64(s.Octets), s.Queue, set)
			failing.add(truth(s.Err != nil), s.Queue, set)
		}
	}
}

// hubMetrics tells of the callbacks, each by its queue, and of the subscribers of the hub all
// together: their topics may be many.
func hubMetrics(from *hub.Hub) reading {
	return func(to samples) {
		states := from.States()
		callbacks := slices.IndexFunc(states, func(s hub.State) bool { return s.Queue == "" })
		if callbacks < 0 {
			callbacks = len(states)
		}
		of := to.ofQueues(callbacks)
		waiting := of.gauge("cutie_callback_waiting", "Events of a queue that its callback is still to be sent.", sum)
		failures := of.gauge("cutie_callback_failures", "Attempts that have failed since the last success.", sum)
		stopped := of.gauge("cutie_callback_stopped", "1 if the receiver wants no more.", sum)
		delivered := of.counter("cutie_callback_delivered_total", "Changes sent since the daemon began.")
		missed := of.counter("cutie_callback_missed_total", "Gaps, and jobs that could not be read, since the daemon began.")
		for _, s := range states[:callbacks] {
			waiting.add(float64(s.Waiting), s.Queue)
			failures.add(float64(s.Failures), s.Queue)
			stopped.add(truth(s.Stopped), s.Queue)
			delivered.add(float64(s.Delivered), s.Queue)
			missed.add(float64(s.Missed), s.Queue)
		}
		of.end()
		all, failing, gaps := 0, 0, int64(0)
		for _, s := range states[callbacks:] {
			all++
			gaps += s.Missed
			if s.Failures > 0 {
				failing++
			}
		}
		to.gauge("cutie_hub_subscriptions", "Subscriptions at the hub, those of other hubs among them.").add(float64(all))
		to.gauge("cutie_hub_failing", "Subscriptions whose last attempt has failed.").add(float64(failing))
		to.gauge("cutie_hub_gaps", "Gaps in what the present subscriptions got since the daemon began.").add(float64(gaps))
	}
}

// maxFigures is how many queues have samples of their own. With more of them a figure is
// one sample of all queues together, with an empty label queue: a server asks for it
// every few seconds, and is not to get, and keep, a million samples.
const maxFigures = 1000

// figures are families with samples for each queue.
type figures struct {
	samples
	together bool
	all      []*figure
}

// ofQueues returns figures of n queues. Its end must follow.
func (s samples) ofQueues(n int) *figures { return &figures{samples: s, together: n > maxFigures} }

// A figure is a family whose first label is the queue.
type figure struct {
	family
	of   *figures
	join func(a, b float64) float64 // of two queues
	sums map[string]float64         // by the other labels
}

func sum(a, b float64) float64 { return a + b }

// greatest and least are for figures not to be added.
func greatest(a, b float64) float64 { return max(a, b) }
func least(a, b float64) float64    { return min(a, b) }

func (f *figures) add(of family, join func(a, b float64) float64) *figure {
	one := &figure{of, f, join, map[string]float64{}}
	f.all = append(f.all, one)
	return one
}

func (f *figures) gauge(name, help string, join func(a, b float64) float64, labels ...string) *figure {
	return f.add(f.samples.gauge(name, help, append([]string{"queue"}, labels...)...), join)
}

func (f *figures) counter(name, help string, labels ...string) *figure {
	return f.add(f.samples.counter(name, help, append([]string{"queue"}, labels...)...), sum)
}

// add adds the value of a queue.
func (f *figure) add(value float64, queue string, labels ...string) {
	if !f.of.together {
		f.family.add(value, append([]string{queue}, labels...)...)
		return
	}
	key := strings.Join(labels, "\x00")
	if before, some := f.sums[key]; some {
		value = f.join(before, value)
	}
	f.sums[key] = value
}

// end gives the samples of all queues together.
func (f *figures) end() {
	for _, one := range f.all {
		for _, key := range slices.Sorted(maps.Keys(one.sums)) {
			labels := []string{""}
			if key != "" {
				labels = append(labels, strings.Split(key, "\x00")...)
			}
			one.family.add(one.sums[key], labels...)
		}
	}
}

// mirrorOptions are the settings of the mirrors, with the log.
func (d *daemon) mirrorOptions() mirror.Options {
	o := d.Mirror
	o.Addresses = d.fetch.Addresses()
	o.Tell = func(name, text string) { d.Log.Warn().Str("mirror", name).Msg(text) }
	return o
}

// mirrorFigures returns what adds the figures of a queue that is a mirror.
func mirrorFigures(of *figures) func(*ledger.State) {
	behind := of.gauge("cutie_mirror_lag_events", "Events of the original that a mirror knows of and does not have.", sum)
	synced := of.gauge("cutie_mirror_synced_timestamp_seconds", "When a mirror last had all events of its original; absent before.", least)
	contact := of.gauge("cutie_mirror_contact_timestamp_seconds", "When the original of a mirror last answered; absent before.", least)
	failing := of.gauge("cutie_mirror_failing", "1 if a mirror does not follow its original now.", sum)
	audited := of.gauge("cutie_mirror_audit_timestamp_seconds", "When a mirror was last compared with its original; absent before.", least)
	faults := of.gauge("cutie_mirror_audit_faults", "Files that were not as at the original then.", sum)
	return func(s *ledger.State) {
		if !s.Mirror.Live() {
			return
		}
		id, p, audit := s.Info.ID, &s.Progress, &s.Mirror.Audit
		behind.add(float64(max(int64(p.Known)-int64(s.Seq), 0)), id)
		failing.add(truth(p.Trouble != "" || s.Mirror.Bad != ""), id)
		if !p.Synced.IsZero() {
			synced.add(seconds(p.Synced), id)
		}
		if !p.Contact.IsZero() {
			contact.add(seconds(p.Contact), id)
		}
		if !audit.Time.IsZero() {
			audited.add(seconds(audit.Time), id)
			faults.add(float64(audit.Faults), id)
		}
	}
}
