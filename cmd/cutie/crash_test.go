package main_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs/job"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

const (
	crashClients = 64
	crashLatest  = 700 * time.Millisecond // of load before a kill
)

// underLoad returns how long clients work before a kill: between least and most, or a
// quarter of it in a short test. Each operation is verified afterwards several times.
func underLoad(random *rand.Rand, least, most time.Duration) time.Duration {
	return (least + time.Duration(random.Int64N(int64(most-least)))) / time.Duration(long.N(4, 1))
}

// listEntries is the option for short Change Lists: a round under load closes some.
func listEntries() []string { return []string{"--list-entries", strconv.Itoa(long.N(500, 2000))} }

// TestAcknowledgedWorkSurvivesKills kills the daemon under load at random
// instants, again and again on one home, and compares what it then knows and
// publishes with what its clients were told. In every third round the next
// daemon is killed as well, while it starts.
//
// CUTIE_CRASH_ROUNDS is the number of rounds; by default 3, and 30 if tests are to
// be long. CUTIE_CRASH_SEED repeats the choices of a run, though
// not its timing.
func TestAcknowledgedWorkSurvivesKills(t *testing.T) {
	t.Parallel()
	surviveKills(t, filepath.Join(t.TempDir(), "home"), func(int) []string { return nil }, nil)
}

// surviveKills is the test on a home. options gives the daemon of each round its own. The
// last round goes on until there was enough; nil: as long as the others.
func surviveKills(t *testing.T, home string, options func(round int) []string, enough func() bool) {
	rounds := int(environment(t, "CUTIE_CRASH_ROUNDS", uint64(long.N(3, 30))))
	seed := environment(t, "CUTIE_CRASH_SEED", rand.Uint64())
	t.Logf("CUTIE_CRASH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	// References must stay what they are, so all daemons have one address: a
	// loopback one of its own, so that nobody else takes it meanwhile.
	args := append(listEntries(), "--listen", ownAddress(random)) // lists are closed, and get packages, in each round
	d := processes.Serve(t, home, append(args, options(-1)...)...)
	transport := &http.Transport{MaxIdleConnsPerHost: crashClients}
	hc := &http.Client{Transport: transport, Timeout: time.Minute}
	l := newLedger(t, hc, d.URL)
	clients := newLoaders(crashClients, seed, d.URL, hc)
	begun := time.Now()
	torn := 0 // ends of the journal
	var slowest time.Duration
	for round := range rounds {
		over := func() bool { return round < rounds-1 || enough == nil || enough() }
		w := crash(t, d, clients, underLoad(random, 0, crashLatest), over)
		transport.CloseIdleConnections()
		torn += complained(t, d)
		args := append(slices.Clip(args), options(round)...)
		if round%3 == 1 {
			crashStart(t, home, args, time.Duration(random.Int64N(int64(60*time.Millisecond))))
		}
		begin := time.Now()
		d = processes.Serve(t, home, args...)
		slowest = max(slowest, time.Since(begin))
		l.round(clients, w)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	l.fetch(slices.Collect(maps.Keys(l.jobs)))
	if out, err := cutie(t, "--home", home, "publish", "--now"); err != nil {
		t.Errorf("publish: %v: %s", err, out)
	}
	packages := 0
	for _, f := range []*follower{&l.pending, &l.replica} {
		if err := f.unchanged(); err != nil {
			t.Error(err)
		}
		n, err := f.packages(true)
		if packages += n; err != nil {
			t.Errorf("packages of %s: %v", f.set, err)
		}
	}
	d.End(t)
	torn += complained(t, d)
	if options(rounds) == nil {
		out, err := cutie(t, "check", home)
		if err != nil || !strings.Contains(out, fmt.Sprintf("1 queues, %d jobs, ", len(l.jobs))) || !strings.HasSuffix(out, " 0 mended, 0 problems\n") {
			t.Errorf("check: %v: %s", err, out)
		}
	}
	t.Logf("%d rounds in %v, %d operations acknowledged, %d events, %d jobs, %d and %d closed lists, %d packages, %d torn ends, slowest start %v",
		rounds, time.Since(begun).Round(time.Second), clients[0].count.Load(), l.replica.seq, len(l.jobs), len(l.pending.closed), len(l.replica.closed), packages, torn, slowest.Round(time.Millisecond))
}

// complained reads what a daemon that has ended had to say. There should be
// nothing but that a write was broken off, which was never acknowledged; it
// returns how often.
func complained(t *testing.T, d *processes.Daemon) (torn int) {
	t.Helper()
	for said := range strings.Lines(d.Stderr.String()) {
		if !strings.Contains(said, "the last batch does not verify and was cut") {
			t.Errorf("the daemon said: %s", said)
		}
		torn++
	}
	return torn
}

// environment returns a number that may be set from outside.
func environment(t *testing.T, name string, absent uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return absent
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// crash lets the clients at the daemon and kills it when the time is over, and there was
// enough; nil: there was. It returns when all clients have noticed.
func crash(t *testing.T, d *processes.Daemon, clients []*loader, load time.Duration, enough func() bool) *watcher {
	t.Helper()
	w := &watcher{entries: map[string][]byte{}}
	get := getter(clients[0].http, d.URL)
	errs := make(chan error, len(clients))
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() { errs <- c.run() })
	}
	wg.Go(func() { w.run(get) })
	var early error
	select {
	case early = <-errs:
	case <-time.After(load):
		if enough != nil {
			eventually(t, "enough was done", enough)
		}
	}
	if err := d.Stop(syscall.SIGKILL); err == nil {
		t.Error("daemon survived")
	}
	wg.Wait()
	close(errs)
	if early != nil {
		t.Error(early)
	}
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.Fatalf("the daemon said: %s", d.Stderr.String())
	}
	return w
}

// crashStart kills a daemon that has just been started.
func crashStart(t *testing.T, home string, args []string, after time.Duration) {
	t.Helper()
	cmd := exec.Command("cutie", append([]string{"serve", "--home", home}, args...)...)
	must(t, processes.Start(cmd))
	kill := time.AfterFunc(after, func() { cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("daemon did not live to be killed: %v", err)
	}
}

// A watcher reads what is published while the clients work. What it has seen
// must still hold after the crash.
type watcher struct {
	baseline [][]byte          // a Resource List of the set pending
	entries  map[string][]byte // of the open Change List, by set
}

func (w *watcher) run(get func(path string) ([]byte, error)) {
	for {
		pages, err := fetchBaseline(get)
		if err != nil {
			return
		}
		w.baseline = pages
		for _, set := range []string{"pending", "replica"} {
			octets, err := get(published + set + "/changelist.xml")
			if err != nil {
				return
			}
			w.entries[set] = nil
			if text := entriesOf(octets); len(text) > 0 {
				w.entries[set] = text
			}
		}
	}
}

// A verbKind is what a client asks for.
type verbKind uint8

const (
	opSubmit verbKind = iota
	opConsume
	opDelete
	opRequeue
)

// An operation is one request and what is known of its end.
type operation struct {
	kind       verbKind
	op         int
	start, end time.Time // of the request; the end if acknowledged
	acked      bool

	files int      // submit: how many
	ids   []job.ID // submit: the jobs; acked only

	most int        // consume: at most so many
	got  []delivery // consume: what came whole, also of an answer that broke off

	job    job.ID  // delete, requeue
	done   bool    // delete: not refused because the job is consumed
	number job.Seq // submit of one, delete, requeue: last event of the job
}

// A delivery is a job as it was handed out.
type delivery struct {
	job job.ID
	ticket
}

// A loader submits, takes and moves jobs, one operation after the other.
type loader struct {
	number int
	base   string
	http   *http.Client
	random *rand.Rand
	ops    int // made so far, over all rounds
	count  *atomic.Int64
	stop   <-chan struct{} // closed when it is to stop; nil: with the daemon
	faults bool            // an error of the server is like no answer
	rest   time.Duration   // after each operation
	wild   bool            // it makes changes of all kinds, and nobody keeps account

	mine  []job.ID    // submitted by this client
	taken []job.ID    // handed out to it, or deleted by it
	log   []operation // of this round
}

// newLoaders makes n of them.
func newLoaders(n int, seed uint64, base string, hc *http.Client) []*loader {
	clients := make([]*loader, n)
	count := new(atomic.Int64)
	for i := range clients {
		clients[i] = &loader{number: i, base: base, http: hc, random: rand.New(rand.NewPCG(seed, uint64(i+1))), count: count}
	}
	return clients
}

// run makes requests until the daemon is gone, or it is to stop. An error is an answer that
// should not have been.
func (c *loader) run() error {
	c.log = c.log[:0]
	for {
		select {
		case <-c.stop:
			return nil
		default:
		}
		c.log = append(c.log, operation{op: c.ops, start: time.Now()})
		c.ops++
		o := &c.log[len(c.log)-1]
		gone, err := c.next(o)
		if err != nil {
			return fmt.Errorf("client %d, operation %d: %w", c.number, o.op, err)
		}
		if gone {
			return nil
		}
		o.acked, o.end = true, time.Now()
		c.count.Add(1)
		time.Sleep(c.rest)
	}
}

// next makes one operation of a mixture in which the queue grows slowly.
func (c *loader) next(o *operation) (gone bool, err error) {
	if c.wild {
		return c.anything(), nil
	}
	n := c.random.IntN(100)
	switch {
	case n < 8 && len(c.mine) > 0:
		o.kind, o.job = opDelete, c.mine[len(c.mine)-1-c.random.IntN(min(len(c.mine), 50))]
		return c.move(o)
	case n < 20 && len(c.taken) > 0:
		o.kind, o.job = opRequeue, c.taken[len(c.taken)-1-c.random.IntN(min(len(c.taken), 50))]
		return c.move(o)
	case n < 50:
		o.kind, o.most = opConsume, 1
		return c.consumeOne(o)
	case n < 60:
		o.kind, o.most = opConsume, 2+c.random.IntN(40)
		return c.consumeSeveral(o)
	case n < 70:
		o.kind, o.files = opSubmit, 2+c.random.IntN(30)
		return c.submitForm(o)
	case n < 73:
		return c.submit(o, 130<<10+c.random.IntN(200<<10))
	default:
		return c.submit(o, c.random.IntN(2<<10))
	}
}

// do sends a request. The daemon is gone if the answer does not come whole.
func (c *loader) do(method, path, contentType, accept string, header http.Header, body []byte) (resp *http.Response, text []byte, err error) {
	r, err := http.NewRequest(method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Accept", accept)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if resp, err = c.http.Do(r); err != nil {
		return nil, nil, nil
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil || c.failed(resp) {
		return nil, text, nil
	}
	return resp, text, nil
}

// failed reports whether nobody knows after the answer what was done.
func (c *loader) failed(resp *http.Response) bool {
	return c.faults && resp.StatusCode >= http.StatusInternalServerError
}

func (c *loader) submit(o *operation, size int) (gone bool, err error) {
	o.kind, o.files = opSubmit, 1
	k := ticket{client: c.number, op: o.op, files: 1, size: size}
	header := http.Header{}
	if s := k.sidecar(); s != "" {
		header.Set("Cutie-Sidecar", url.PathEscape(s))
	}
	resp, text, err := c.do("POST", "content/jobs", "text/plain", "application/json", header, k.payload())
	if resp == nil || err != nil {
		return true, err
	}
	return false, c.submitted(o, resp, text)
}

// submitForm submits several files, which are stored all or none.
func (c *loader) submitForm(o *operation) (gone bool, err error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := range o.files {
		k := ticket{c.number, o.op, i, o.files, c.random.IntN(1 << 10)}
		header := textproto.MIMEHeader{"Content-Type": {"text/plain"},
			"Content-Disposition": {fmt.Sprintf(`form-data; name="file"; filename="file %d"`, i)}}
		if s := k.sidecar(); s != "" {
			header.Set("Cutie-Sidecar", url.PathEscape(s))
		}
		w, err := form.CreatePart(header)
		if err != nil {
			return false, err
		}
		w.Write(k.payload())
	}
	form.Close()
	resp, text, err := c.do("POST", "content/jobs", form.FormDataContentType(), "application/json", nil, body.Bytes())
	if resp == nil || err != nil {
		return true, err
	}
	return false, c.submitted(o, resp, text)
}

func (c *loader) submitted(o *operation, resp *http.Response, text []byte) error {
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("submit: %s: %.200s", resp.Status, text)
	}
	var answer struct { // of a queue, or of a job
		Submitted []string `json:"submittedJobStates"`
		jobAnswer
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	refs := answer.Submitted
	if o.files == 1 {
		refs = []string{answer.ID}
		o.number = answer.Sequence
	}
	for _, ref := range refs {
		id, err := job.ParseID(path.Base(ref))
		if err != nil {
			return err
		}
		o.ids = append(o.ids, id)
	}
	if len(o.ids) != o.files {
		return fmt.Errorf("submit: %d jobs for %d files", len(o.ids), o.files)
	}
	c.mine = append(c.mine, o.ids...)
	return nil
}

// jobAnswer is what is read of a job state.
type jobAnswer struct {
	ID       string  `json:"identifier"`
	Status   string  `json:"status"`
	Sequence job.Seq `json:"sequence"`
}

func (c *loader) consumeOne(o *operation) (gone bool, err error) {
	resp, text, err := c.do("POST", "consume/jobs", "", "application/octet-stream", nil, nil)
	switch {
	case resp == nil || err != nil:
		return true, err
	case resp.StatusCode == http.StatusNoContent:
		return false, nil
	case resp.StatusCode != http.StatusOK:
		return false, fmt.Errorf("consume: %s: %.200s", resp.Status, text)
	}
	return false, c.received(o, textproto.MIMEHeader(resp.Header), text)
}

// consumeSeveral takes many. Of an answer that breaks off the whole parts
// count: those jobs have been handed out.
func (c *loader) consumeSeveral(o *operation) (gone bool, err error) {
	r, err := http.NewRequest("POST", fmt.Sprintf("%sconsume/jobs?max=%d", c.base, o.most), nil)
	if err != nil {
		return false, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return true, nil
	}
	defer resp.Body.Close()
	switch {
	case c.failed(resp):
		return true, nil
	case resp.StatusCode == http.StatusNoContent:
		return false, nil
	case resp.StatusCode != http.StatusOK:
		return false, fmt.Errorf("consume: %s", resp.Status)
	}
	_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return false, err
	}
	for parts := multipart.NewReader(resp.Body, params["boundary"]); ; {
		p, err := parts.NextPart()
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return true, nil
		}
		text, err := io.ReadAll(p)
		if err != nil {
			return true, nil
		}
		if err := c.received(o, p.Header, text); err != nil {
			return false, err
		}
	}
}

func (c *loader) received(o *operation, header textproto.MIMEHeader, payload []byte) error {
	id, err := job.ParseID(path.Base(header.Get("Content-Location")))
	if err != nil {
		return fmt.Errorf("consume: Content-Location: %w", err)
	}
	sidecar, err := url.PathUnescape(header.Get("Cutie-Sidecar"))
	if err != nil {
		return fmt.Errorf("consume: %s: %w", id, err)
	}
	k, err := parseTicket(payload, sidecar)
	if err != nil {
		return fmt.Errorf("consume: %s: %w", id, err)
	}
	o.got = append(o.got, delivery{id, k})
	c.taken = append(c.taken, id)
	return nil
}

// move deletes or requeues a job.
func (c *loader) move(o *operation) (gone bool, err error) {
	method, path, want := "POST", "requeue/jobs/", http.StatusOK
	if o.kind == opDelete {
		method, path, want = "DELETE", "content/jobs/", http.StatusAccepted
	}
	resp, text, err := c.do(method, path+o.job.String(), "", "application/json", nil, nil)
	if resp == nil || err != nil {
		return true, err
	}
	if o.kind == opDelete && resp.StatusCode == http.StatusConflict {
		return false, nil
	}
	if resp.StatusCode != want {
		return false, fmt.Errorf("%s %s%s: %s: %.200s", method, path, o.job, resp.Status, text)
	}
	var answer jobAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return false, err
	}
	if to := answer.Status; to != map[verbKind]string{opDelete: "deleted", opRequeue: "pending"}[o.kind] {
		return false, fmt.Errorf("%s %s%s: the job is %s", method, path, o.job, to)
	}
	o.done, o.number = true, answer.Sequence
	if o.kind == opDelete {
		c.taken = append(c.taken, o.job)
	}
	return false, nil
}

// A ticket says of a payload who submitted it and when. Payload and sidecar
// are made of it alone, so that any job that turns up can be checked.
type ticket struct {
	client, op  int // the op-th operation of a client
	file, files int // one of so many files of the operation, from 0
	size        int // octets of the payload, without its first line
}

// payload is a line with the ticket and size octets that follow from it.
func (k ticket) payload() []byte {
	b := fmt.Appendf(nil, "client %d op %d file %d of %d size %d\n", k.client, k.op, k.file, k.files, k.size)
	random := rand.NewPCG(uint64(k.client)<<32|uint64(k.op), uint64(k.file))
	end := len(b) + k.size
	for len(b) < end {
		b = binary.LittleEndian.AppendUint64(b, random.Uint64())
	}
	return b[:end]
}

// sidecar is that of the payload; every third has none.
func (k ticket) sidecar() string {
	if (k.client+k.op+k.file)%3 == 0 {
		return ""
	}
	return fmt.Sprintf("für %d/%d/%d: 100%% \"as it was\"\nand a second line", k.client, k.op, k.file)
}

// parseTicket returns the ticket of a payload, which must be the whole payload
// and come with its sidecar.
func parseTicket(payload []byte, sidecar string) (k ticket, err error) {
	line, _, _ := bytes.Cut(payload, []byte("\n"))
	if _, err := fmt.Sscanf(string(line), "client %d op %d file %d of %d size %d", &k.client, &k.op, &k.file, &k.files, &k.size); err != nil {
		return k, fmt.Errorf("payload begins with %.60q: %v", line, err)
	}
	if k.size > 1<<20 || !bytes.Equal(payload, k.payload()) {
		return k, fmt.Errorf("payload of %+v is not what was submitted: %d octets", k, len(payload))
	}
	if sidecar != k.sidecar() {
		return k, fmt.Errorf("sidecar of %+v is %q", k, sidecar)
	}
	return k, nil
}
