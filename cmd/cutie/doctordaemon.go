package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/mirror"
	"cutie/queuefs/bulk"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
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
	{"cutie_published_lost", "queue", 0, durable.Warning, "publishing", "damaged lists or packages were set aside", "mirrors that are far behind take a new Resource Dump; look at the disk and its log"},
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
	case status != http.StatusOK && strings.Contains(text, ledger.ErrNoSpace.Error()):
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
	if unix.Statfs(*e.home, &fs) == nil {
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
		var first job.Job
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
		if at := audited[queue]; e.Mirror.Audit > 0 && !at.IsZero() && e.now.Sub(at) > 2*e.Mirror.Audit {
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

const (
	soon      = 30 * 24 * time.Hour // before a certificate ends
	patience  = 5 * time.Second     // for an answer
	maxAnswer = 16 << 20            // octets of one
)

// sources asks the originals of mirrors for an answer: one never reached has no queue here
// that would tell.
func (e *examination) sources(ctx context.Context) {
	for _, m := range e.Mirror.Sources {
		if mirror.Answers(ctx, strings.TrimSuffix(m.URL, "/")) {
			continue
		}
		e.fault("mirrors", "start it, or look at the network and at --mirror; if it is lost: cutie failover mirror QUEUE, and take it out of --mirror", "the original %s does not answer", m.URL)
	}
}

// certificate looks at the certificate of the daemon.
func (e *examination) certificate() {
	if e.tlsCert == "" {
		return
	}
	const renew = "renew it; a running daemon reads the files again by itself"
	pair, err := tls.LoadX509KeyPair(e.tlsCert, e.tlsKey)
	if err != nil {
		e.fault("certificate", "--tls-cert names the chain in PEM, --tls-key its key", "%v", err)
		return
	}
	leaf := pair.Leaf
	switch left := leaf.NotAfter.Sub(e.now); {
	case left < 0:
		e.fault("certificate", renew, "%s ended on %s", e.tlsCert, leaf.NotAfter.Format(time.DateOnly))
	case e.now.Before(leaf.NotBefore):
		e.fault("certificate", "look at the clock of this machine", "%s begins on %s", e.tlsCert, leaf.NotBefore.Format(time.DateOnly))
	case left < soon:
		e.warn("certificate", renew, "%s ends on %s", e.tlsCert, leaf.NotAfter.Format(time.DateOnly))
	default:
		e.ok("certificate", "%s is good until %s", e.tlsCert, leaf.NotAfter.Format(time.DateOnly))
	}
	if u, err := url.Parse(e.Listen.BaseURI); err == nil && u.Host != "" {
		if err := leaf.VerifyHostname(u.Hostname()); err != nil {
			e.fault("certificate", "get one for this name, or put the right one in --base-uri", "%v", err)
		}
	}
	if info, err := os.Stat(e.tlsKey); err == nil && info.Mode().Perm()&0o077 != 0 {
		e.warn("certificate", "chmod 600 "+e.tlsKey, "others can read the key")
	}
}

// identity is as much of the state of a service as tells one from another.
type identity struct {
	Identifier string `json:"identifier"`
	BaseURI    string `json:"baseURI"`
}

// references looks where the references in documents lead: to this daemon, if it runs.
func (e *examination) references(ctx context.Context) {
	if e.daemon == nil {
		return
	}
	var own, there identity
	if _, err := get(ctx, e.daemon.HTTP, e.daemon.Base+"state?t=json", &own); err != nil {
		e.fault("daemon", "see its log", "it does not tell its state: %v", err)
		return
	}
	base := own.BaseURI
	e.Listen.BaseURI = base
	const cure = "--base-uri is the address clients use; look at the proxy, the firewall and the names before it"
	status, err := get(ctx, http.DefaultClient, base+"state?t=json", &there)
	var unknown x509.UnknownAuthorityError
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.ok("references", "they lead to %s, which wants to know who asks", base)
	case errors.As(err, &unknown):
		e.warn("references", "clients need the certificate of its authority", "they lead to %s: %v", base, err)
	case err != nil:
		e.fault("references", cure, "they lead to %s: %v", base, err)
	case there.Identifier != own.Identifier:
		e.fault("references", cure, "they lead to %s, which is another service, %q", base, there.Identifier)
	case loopback(base):
		e.ok("references", "they lead to %s, for clients on this machine alone", base)
	default:
		e.ok("references", "they lead to %s, which is this daemon", base)
	}
}

func loopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// get reads an answer in JSON, or as text.
func get(ctx context.Context, c *http.Client, uri string, into any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", uri, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, fmt.Errorf("no answer within %v", patience)
		}
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return resp.StatusCode, err
	}
	if text, ok := into.(*string); ok {
		*text = string(body)
		return resp.StatusCode, nil
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("%s", strings.ToLower(resp.Status))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return resp.StatusCode, fmt.Errorf("the answer is not a state of cutie: %w", err)
	}
	return resp.StatusCode, nil
}

// late is how far a standby may be behind its owner.
const late = 30 * time.Second

// shared looks at the daemons of a home in a store: the owner, and the ways between them.
func (e *examination) shared(ctx context.Context) {
	if e.daemon == nil {
		return
	}
	var own daemon.Ownership
	status, err := get(ctx, e.daemon.HTTP, e.daemon.Base+daemon.OwnerPath[1:], &own)
	if status == http.StatusNotFound {
		return // the home is in its directory
	}
	if err != nil {
		e.fault("store", "see its log", "the daemon does not tell who owns the home: %v", err)
		return
	}
	before := len(e.findings)
	e.node(ctx, &own)
	take := "cutie failover standby --url " + own.Node + " makes this standby the owner"
	behind := e.now.Sub(own.As)
	switch {
	case own.Role == "owner":
	case own.Left:
		e.fault("store", take, "the home has no owner: the last one, %s, has left, and no standby takes over by itself with --takeover-after 0", own.Owner)
	case own.Quiet:
		e.fault("store", "a standby takes over after --takeover-after; with 0: "+take, "the owner, %s, gives no signs of life, and changes are refused", own.Owner)
	case own.URL == "":
		e.fault("store", "start it with --node-url, or with this version", "the owner, %s, does not say where it answers, so changes are refused here", own.Owner)
	default:
		e.reached(ctx, "the owner, "+own.Owner+",", own.URL, "owner", "its --node-url is the address at which the other daemons and the clients reach it; look at the network between")
	}
	if own.Role != "owner" && !own.Left && behind > late {
		e.warn("store", "see its log, and look at the load here and at the way to the store", "this standby is %v behind its owner", behind.Round(time.Second))
	}
	switch {
	case len(e.findings) > before:
	case own.Role == "owner":
		e.ok("store", "this daemon owns the home, at batch %d", own.Batch)
	default:
		e.ok("store", "a standby, %v behind the owner %s", max(behind, 0).Round(time.Millisecond), own.Owner)
	}
}

// node looks whether others reach this daemon.
func (e *examination) node(ctx context.Context, own *daemon.Ownership) {
	const cure = "--node-url is the address at which the other daemons and the clients reach this one"
	e.reached(ctx, "this daemon", own.Node, own.Role, cure)
	if loopback(own.Node) && !loopback(e.Listen.BaseURI) {
		e.warn("store", cure, "the other daemons of the home are led to %s, for this machine alone", own.Node)
	}
}

// reached asks a daemon at a URL for its role.
func (e *examination) reached(ctx context.Context, who, at, want, cure string) {
	var there daemon.Ownership
	status, err := get(ctx, http.DefaultClient, strings.TrimSuffix(at, "/")+daemon.OwnerPath, &there)
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return // it answers, with a certificate not known on this machine
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return // it answers, and wants to know who asks
	case err == nil && there.Role == want && (want == "owner" || same(there.Node, at)):
		return
	case err == nil:
		err = fmt.Errorf("there is a %s of the home at %s", there.Role, there.Node)
	}
	e.fault("store", cure, "%s is not reached at %s: %v", who, at, err)
}

// same reports whether two URLs are of one place.
func same(a, b string) bool {
	x, err := url.Parse(a)
	y, err2 := url.Parse(b)
	return err == nil && err2 == nil && x.Host == y.Host && strings.Trim(x.Path, "/") == strings.Trim(y.Path, "/")
}
