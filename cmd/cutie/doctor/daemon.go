package doctor

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/durable"
	"cutie/queuefs/state"
)

// A figure is a metric of the daemon with a bound.
type figure struct {
	name, label string
	above       float64
	level       durable.Level
	about       string
	text        string // goes on after the value of the label
	cure        string
}

// figures are the metrics to look at; package daemon has them.
var figures = []figure{
	{"cutie_storage_failed", "", 0, durable.Faulty, "daemon", "a sync has failed, and nothing is accepted", "look at the disk and its log, then start the daemon again"},
	{"cutie_publisher_failed", "", 0, durable.Faulty, "publishing", "nothing is published now", "see the log; it is tried again by itself"},
	{"cutie_published_lag_seconds", "queue", 300, durable.Warning, "publishing", "its lists are minutes behind its events", "see the log; a load beyond what the disk carries does this"},
	{"cutie_published_failing", "queue", 0, durable.Warning, "publishing", "its last package or dump was not made", "cutie publish --status says why"},
	{"cutie_published_damaged", "queue", 0, durable.Warning, "publishing", "published files are damaged and being made again", "look at the disk and its log"},
	{"cutie_published_lost", "queue", 0, durable.Warning, "publishing", "closed lists or packages could not be made again", "mirrors that are far behind take a new Resource Dump; look at the disk and its log"},
	{"cutie_hub_failing", "", 0, durable.Warning, "push", "subscribers are not reached", "GET /hub names them; each is tried again for its lease"},
	{"cutie_callback_failures", "queue", 3, durable.Warning, "push", "its callback is not reached", "cutie set QUEUE --callback URL names another, see the log"},
	{"cutie_callback_stopped", "queue", 0, durable.Warning, "push", "the receiver of its callback wants no more", "cutie set QUEUE --callback URL sets it again"},
	{"cutie_queue_lost", "queue", 0, durable.Faulty, "home", "its directory is lost, and it is not served", "put the directory back in queues/ and start the daemon again; or cutie rmqueue --lost QUEUE"},
	{"cutie_store_failing", "", 0, durable.Faulty, "store", "the store takes no changes, and nothing is accepted", "see the log for why: look at the store, the way there, and the credentials; the daemon goes on by itself"},
	{"cutie_image_failing", "", 0, durable.Warning, "store", "the last image of the home was not made", "see the log; it is tried again by itself, and until then a new machine reads the more of the journal"},
	{"cutie_image_lag_records", "", oldImage, durable.Warning, "store", "the last image of the home is old: a new machine reads millions of records before it serves", "see the log for why no image is made; a lower --store-image makes more of them"},
	{"cutie_mirror_failing", "queue", 0, durable.Faulty, "mirrors", "does not follow its original", "cutie ls QUEUE says why; if the original is lost: cutie failover mirror QUEUE"},
	{"cutie_mirror_audit_faults", "queue", 0, durable.Faulty, "mirrors", "differs from its original", "cutie audit --mirror QUEUE names the files; cutie rmqueue --mirror QUEUE lets it begin anew"},
}

// oldImage is four times the records after which an image is due.
const oldImage = 4 << 20

// maxNamed is how many queues one finding names.
const maxNamed = 5

// alive looks at what the running daemon says of itself.
func (e *examination) alive(ctx context.Context) {
	if e.daemon == nil {
		return
	}
	var text string
	status, err := get(ctx, e.daemon.HTTP, e.daemon.Base+"readyz", &text)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if n := len(lines) - 1; n > 0 && (lines[n] == "owner" || strings.HasPrefix(lines[n], "standby, ")) {
		lines = lines[:n] // see shared
	}
	text = strings.Join(lines, "; ")
	switch {
	case err != nil:
		e.fault("daemon", "see its log; if it hangs, kill -QUIT prints where", "%v", err)
		return
	case status != http.StatusOK && strings.Contains(text, queuefs.ErrNoSpace.Error()):
		e.full()
	case status != http.StatusOK:
		e.fault("daemon", "see its log", "not ready: %s", strings.TrimPrefix(text, "not ready: "))
	case text != "ok":
		e.warn("daemon", "see its log", "%s", strings.TrimPrefix(text, "ok; "))
	default:
		e.ok("daemon", "ready")
	}
	if _, err = get(ctx, e.daemon.HTTP, e.daemon.Base+"metrics", &text); err != nil {
		e.fault("daemon", "see its log", "its metrics: %v", err)
		return
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		e.fault("daemon", "see its log", "its metrics: %v", err)
		return
	}
	e.measured(families)
	e.mirrored(families)
	e.held(ctx, families)
}

// full tells of a daemon without free space, once: in place of the disk nearly full.
func (e *examination) full() {
	e.findings = slices.DeleteFunc(e.findings, func(f durable.Finding) bool { return f.Path == "disk" && f.Cure == makeSpace })
	free := ""
	var fs unix.Statfs_t
	if unix.Statfs(e.Home, &fs) == nil {
		free = state.FormatSize(int64(fs.Bavail)*fs.Bsize) + " free: "
	}
	e.fault("disk", makeSpace+"; the daemon goes on by itself", "%ssubmissions and results are refused with 507 now, the rest goes on", free)
}

// maxHeldQueues and maxHeldJobs bound a look at jobs on hold.
const (
	maxHeldQueues = 20
	maxHeldJobs   = 1000
)

// held names jobs that are on hold for their payload: an operator did not do that.
func (e *examination) held(ctx context.Context, families map[string]*dto.MetricFamily) {
	looked := 0
	for _, m := range families["cutie_jobs_held"].GetMetric() {
		queue := labelOf(m, "queue")
		if valueOf(m) == 0 || queue == "" {
			continue
		}
		if looked++; looked > maxHeldQueues {
			return
		}
		n := 0
		var first queuefs.Job
		for j, err := range e.daemon.Jobs(ctx, queue, bulk.Filter{Held: true, Limit: maxHeldJobs}) {
			if err != nil {
				e.warn("daemon", "see its log", "jobs on hold of %s: %v", queue, err)
				break
			}
			if strings.HasPrefix(j.HeldFor, "payload of "+j.ID.String()) {
				if n++; n == 1 {
					first = j
				}
			}
		}
		if n > 0 {
			e.fault("home", fmt.Sprintf("bring the payloads back from a copy, and cutie release %s JOB; or cutie rm %s JOB", queue, queue),
				"%s: %d jobs are on hold without a good payload, first %s: %s", queue, n, first.ID, first.HeldFor)
		}
	}
}

// measured compares the figures with their bounds.
func (e *examination) measured(families map[string]*dto.MetricFamily) {
	for _, f := range figures {
		var named []string
		n := 0
		for _, m := range families[f.name].GetMetric() {
			if valueOf(m) <= f.above {
				continue
			}
			queue := labelOf(m, f.label) // a queue has a figure for each of its sets
			if f.label != "" && slices.Contains(named, queue) {
				continue
			}
			if n++; f.label != "" && n <= maxNamed {
				named = append(named, queue)
			}
		}
		if n == 0 {
			continue
		}
		who := strings.Join(named, ", ")
		if n > maxNamed {
			who += ", …"
		}
		if who != "" {
			who += ": "
		}
		e.add(f.level, f.about, strings.ReplaceAll(f.cure, "QUEUE", first(named)), "%s%s", who, f.text)
	}
}

// mirrored looks at the ages of mirrors and their audits.
func (e *examination) mirrored(families map[string]*dto.MetricFamily) {
	behind := families["cutie_mirror_lag_events"].GetMetric()
	if len(behind) == 0 {
		return
	}
	before := len(e.findings)
	audited := map[string]time.Time{}
	for _, m := range families["cutie_mirror_audit_timestamp_seconds"].GetMetric() {
		audited[labelOf(m, "queue")] = time.UnixMicro(int64(valueOf(m) * 1e6))
	}
	var late []string
	for _, m := range behind {
		queue := labelOf(m, "queue")
		if at := audited[queue]; e.Audit > 0 && !at.IsZero() && e.Now.Sub(at) > 2*e.Audit {
			late = append(late, queue)
		}
	}
	if len(late) > 0 {
		e.warn("mirrors", "cutie audit --mirror "+late[0]+" compares it now", "%d not compared with their originals for longer than --mirror-audit, %s first", len(late), late[0])
	}
	if len(e.findings) == before {
		e.ok("mirrors", "%d, %d of them compared with their originals", len(behind), len(audited))
	}
}

func valueOf(m *dto.Metric) float64 {
	if m.Gauge != nil {
		return m.Gauge.GetValue()
	}
	return m.Counter.GetValue()
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func first(names []string) string {
	if len(names) == 0 {
		return "QUEUE"
	}
	return names[0]
}

// Figures returns the names of the metrics looked at.
func Figures() (names []string) {
	for _, f := range figures {
		names = append(names, f.name)
	}
	return names
}
