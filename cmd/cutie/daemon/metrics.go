package daemon

import (
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/callback"
	"cutie/publisher"
	"cutie/publisher/websub"
	"cutie/queuefs"
)

// A meter answers with what the daemon counts.
type meter struct {
	svc *queuefs.Service
	pub interface {
		State() []publisher.SetState
		Failure() error
	}
	send  interface{ States() []callback.State }
	hub   interface{ States() []websub.State } // nil: there is none
	http  *requestCount
	start time.Time
}

func (d *daemon) meter(count *requestCount) *meter {
	m := &meter{svc: d.svc, pub: d.pub, send: d.send, http: count, start: time.Now()}
	if d.push != nil {
		m.hub = d.push.hub
	}
	return m
}

func (m *meter) serve(w http.ResponseWriter, _ *http.Request) error {
	e := &exposition{text: make([]byte, 0, 16<<10)}
	m.queues(e)
	m.publishing(e)
	m.callbacks(e)
	m.push(e)
	m.http.expose(e)
	m.process(e)
	h := w.Header()
	h.Set("Content-Type", expositionType)
	h.Set("Content-Length", strconv.Itoa(len(e.text)))
	h.Set("Cache-Control", "no-store")
	w.Write(e.text)
	return nil
}

// queues tells of the queues as they are, and of the storage below them.
func (m *meter) queues(e *exposition) {
	var states []queuefs.QueueState
	for _, q := range m.svc.Queues() {
		states = append(states, q.State())
	}
	each := func(name, kind, help string, sample func(s *queuefs.QueueState, queue string)) {
		e.begin(name, kind, help)
		for i := range states {
			sample(&states[i], states[i].Info.ID)
		}
	}
	each("cutie_jobs", gauge, "Jobs by the directory that they stand in.", func(s *queuefs.QueueState, queue string) {
		e.sample(float64(s.Pending), "queue", queue, "status", "pending")
		e.sample(float64(s.Consumed), "queue", queue, "status", "consumed")
		e.sample(float64(s.Deleted), "queue", queue, "status", "deleted")
	})
	for _, f := range []struct {
		name, help string
		of         func(*queuefs.QueueState) int64
	}{
		{"cutie_jobs_held", "Pending jobs on hold, which are passed over.", func(s *queuefs.QueueState) int64 { return s.Held }},
		{"cutie_jobs_leased", "Consumed jobs whose consumer is to report.", func(s *queuefs.QueueState) int64 { return s.Leased }},
		{"cutie_jobs_failed", "Jobs whose outcome is an error.", func(s *queuefs.QueueState) int64 { return s.Failed }},
	} {
		each(f.name, gauge, f.help, func(s *queuefs.QueueState, queue string) { e.sample(float64(f.of(s)), "queue", queue) })
	}
	each("cutie_events_total", counter, "Events of a queue since it was made: every change of a job is one.",
		func(s *queuefs.QueueState, queue string) { e.sample(float64(s.Seq), "queue", queue) })
	each("cutie_queue_paused", gauge, "1 if a queue hands out no jobs.",
		func(s *queuefs.QueueState, queue string) { e.sample(truth(!s.Info.Paused.IsZero()), "queue", queue) })
	for _, f := range []struct {
		name, help string
		of         func(*queuefs.QueueState) time.Time
	}{
		{"cutie_last_event_timestamp_seconds", "When the last event of a queue was, or the queue was made.", func(s *queuefs.QueueState) time.Time { return s.LastEvent }},
		{"cutie_oldest_pending_timestamp_seconds", "When the job at the head of a queue was submitted; absent if there is none.", func(s *queuefs.QueueState) time.Time { return s.Oldest }},
	} {
		each(f.name, gauge, f.help, func(s *queuefs.QueueState, queue string) {
			if t := f.of(s); !t.IsZero() {
				e.sample(seconds(t), "queue", queue)
			}
		})
	}
	e.one("cutie_jobs_unfiled", gauge, "Jobs whose files are behind the journal: that many are written at a stop, or looked at after a crash.", float64(m.svc.Unfiled()))
	e.one("cutie_index_bytes", gauge, "Memory that the index of all jobs takes.", float64(m.svc.IndexSize()))
	syncs, took := m.svc.JournalSyncs()
	e.one("cutie_journal_syncs_total", counter, "Syncs of the journal since the daemon began; what comes together shares one.", float64(syncs))
	e.one("cutie_journal_sync_seconds_total", counter, "Time that they took.", took.Seconds())
	e.one("cutie_storage_failed", gauge, "1 if a sync has failed: nothing is accepted until the daemon is started again.", truth(m.svc.Err() != nil))
}

// publishing tells how far the publisher is behind the queues.
func (m *meter) publishing(e *exposition) {
	e.one("cutie_publisher_failed", gauge, "1 if nothing is published any more, see the log.", truth(m.pub.Failure() != nil))
	states := m.pub.State()
	for _, f := range []struct {
		name, help string
		of         func(*publisher.SetState) float64
	}{
		{"cutie_published_lag_events", "Events that the lists of a set do not have yet.", func(s *publisher.SetState) float64 { return float64(s.Event - s.Read) }},
		{"cutie_published_lag_seconds", "Time between the last event of a queue and the last that the lists of a set have.", func(s *publisher.SetState) float64 { return s.Lag.Seconds() }},
		{"cutie_published_lists_waiting", "Closed Change Lists of a set that have no packages yet.", func(s *publisher.SetState) float64 { return float64(s.Waiting) }},
		{"cutie_published_bytes", "What the lists, packages and dumps of a set take on disk.", func(s *publisher.SetState) float64 { return float64(s.Octets) }},
		{"cutie_published_failing", "1 if the last package or dump of a set was not made, see cutie publish.", func(s *publisher.SetState) float64 { return truth(s.Err != nil) }},
	} {
		e.begin(f.name, gauge, f.help)
		for i := range states {
			e.sample(f.of(&states[i]), "queue", states[i].Queue, "set", states[i].Set.String())
		}
	}
}

// callbacks tells of the queues whose changes somebody is told.
func (m *meter) callbacks(e *exposition) {
	states := m.send.States()
	for _, f := range []struct {
		name, kind, help string
		of               func(*callback.State) float64
	}{
		{"cutie_callback_waiting", gauge, "Changes that the callback of a queue is still to be told.", func(s *callback.State) float64 { return float64(s.Waiting) }},
		{"cutie_callback_failures", gauge, "Attempts that have failed since the last that did not.", func(s *callback.State) float64 { return float64(s.Failures) }},
		{"cutie_callback_stopped", gauge, "1 if the receiver wants no more.", func(s *callback.State) float64 { return truth(s.Stopped) }},
		{"cutie_callback_delivered_total", counter, "Changes told since the daemon began.", func(s *callback.State) float64 { return float64(s.Delivered) }},
		{"cutie_callback_set_aside_total", counter, "Changes given up since the daemon began.", func(s *callback.State) float64 { return float64(s.SetAside) }},
	} {
		e.begin(f.name, f.kind, f.help)
		for i := range states {
			e.sample(f.of(&states[i]), "queue", states[i].Queue)
		}
	}
}

// push tells how the subscribers of the hub fare, all together: their topics
// may be many.
func (m *meter) push(e *exposition) {
	if m.hub == nil {
		return
	}
	all, failing := 0, 0
	for _, s := range m.hub.States() {
		all++
		if s.Failures > 0 {
			failing++
		}
	}
	e.one("cutie_hub_subscriptions", gauge, "Subscriptions at the hub, those of other hubs among them.", float64(all))
	e.one("cutie_hub_failing", gauge, "Subscriptions whose last attempt has failed.", float64(failing))
}

// process tells of the program, under the names that others use.
func (m *meter) process(e *exposition) {
	e.one("cutie_build_info", gauge, "The version, as labels.", 1, "version", queuefs.Version, "go", runtime.Version())
	samples := []metrics.Sample{{Name: "/sched/goroutines:goroutines"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	of := func(i int) float64 { return float64(samples[i].Value.Uint64()) }
	e.one("go_goroutines", gauge, "Goroutines that there are.", of(0))
	e.one("go_memstats_heap_alloc_bytes", gauge, "Memory of objects on the heap.", of(1))
	e.one("go_memstats_sys_bytes", gauge, "Memory had from the system and not given back.", of(2)-of(3))
	e.one("go_memstats_alloc_bytes_total", counter, "Memory allocated since the daemon began.", of(4))
	e.one("go_gc_cycles_total", counter, "Collections of garbage since the daemon began.", of(5))
	e.one("process_start_time_seconds", gauge, "When the daemon began.", seconds(m.start))
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &use) == nil {
		cpu := time.Duration(use.Utime.Nano() + use.Stime.Nano())
		e.one("process_cpu_seconds_total", counter, "Time of processors used.", cpu.Seconds())
	}
	if n, ok := resident(); ok {
		e.one("process_resident_memory_bytes", gauge, "Memory that is in use of all the program has.", float64(n))
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		e.one("process_open_fds", gauge, "Open files and connections.", float64(len(files)-1)) // but for the directory read here
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		e.one("process_max_fds", gauge, "Open files and connections that there may be.", float64(limit.Cur))
	}
}

// resident returns the octets of memory in use (proc_pid_statm(5)).
func resident() (int64, bool) {
	text, err := os.ReadFile("/proc/self/statm")
	if f := strings.Fields(string(text)); err == nil && len(f) > 1 {
		pages, err := strconv.ParseInt(f[1], 10, 64)
		return pages * int64(os.Getpagesize()), err == nil
	}
	return 0, false
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
