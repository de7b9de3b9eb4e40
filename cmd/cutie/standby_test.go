package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs/objects/objectstest"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// A cluster is daemons with one home in a store, under one base URI.
type cluster struct {
	*testing.T
	options []string
	own     [][]string // of each daemon; nil: none
	direct  []string   // where each answers; nil: as it says
	base    string     // URI
	client  *http.Client
	door    atomic.Pointer[string] // address of the daemon that the base URI leads to
	nodes   []*processes.Daemon
	homes   []string
}

// takeoverAfter is the silence of an owner in these tests.
const takeoverAfter = time.Second

func newCluster(t *testing.T, n int, options ...string) *cluster {
	t.Helper()
	c := &cluster{T: t, base: "http://home.example.org:8080/"}
	c.options = slices.Concat(storeOptions(t, new(objectstest.Memory)), []string{"--base-uri", c.base, "--takeover-after", takeoverAfter.String()}, options)
	c.client = through(t, func() string { return *c.door.Load() })
	dir := t.TempDir()
	c.nodes, c.homes = make([]*processes.Daemon, n), make([]string, n)
	for i := range n {
		c.homes[i] = filepath.Join(dir, fmt.Sprint("home", i))
		c.start(i)
	}
	c.enter(0)
	return c
}

// through returns a client that reaches the base URI by a daemon.
func through(t *testing.T, node func() string) *http.Client {
	dialer := new(net.Dialer)
	transport := &http.Transport{MaxIdleConnsPerHost: crashClients, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if strings.HasPrefix(addr, "home.example.org:") {
			addr = node()
		}
		return dialer.DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// start starts a daemon.
func (c *cluster) start(i int) {
	c.Helper()
	options := c.options
	if c.own != nil {
		options = slices.Concat(options, c.own[i])
	}
	d, err := processes.Begin(c.TempDir(), c.homes[i], options...)
	must(c, err)
	if c.direct != nil {
		d.Node = c.direct[i]
	}
	c.nodes[i] = d
	c.Cleanup(func() {
		d.Kill()
		if said := d.Stderr.String(); c.Failed() && said != "" {
			c.Logf("daemon %d said: %s", i, said)
		}
	})
}

// enter lets the base URI lead to a daemon.
func (c *cluster) enter(i int) {
	u, err := url.Parse(c.nodes[i].Node)
	must(c, err)
	c.door.Store(&u.Host)
	c.client.CloseIdleConnections()
}

// An ownership is what a daemon says of its home.
type ownership struct {
	Role, Owner, URL string
	Batch            uint64
	Finishing        int
}

// ask asks a daemon.
func (c *cluster) ask(i int) (ownership, error) { return askOwner(c.nodes[i].Node) }

func askOwner(node string) (o ownership, err error) {
	resp, err := http.Get(node + "owner")
	if err != nil {
		return o, err
	}
	defer resp.Body.Close()
	return o, json.NewDecoder(resp.Body).Decode(&o)
}

// owner waits for an owner among some daemons.
func (c *cluster) owner(of ...int) int {
	c.Helper()
	for end := time.Now().Add(processes.Limit); time.Now().Before(end); time.Sleep(processes.Again) {
		for _, i := range of {
			if o, err := c.ask(i); err == nil && o.Role == "owner" {
				return i
			}
		}
	}
	c.Fatal("nobody owns the home")
	return 0
}

// get gets a document of a daemon.
func (c *cluster) get(i int, path string) (text []byte) {
	c.Helper()
	req, err := http.NewRequest("GET", c.nodes[i].Node+path, nil)
	must(c, err)
	resp, err := http.DefaultClient.Do(req)
	for end := time.Now().Add(processes.Limit); reopens(err) && time.Now().Before(end); time.Sleep(processes.Again) {
		resp, err = http.DefaultClient.Do(req)
	}
	if err == nil {
		text, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		c.Fatalf("%s: %v, %.200s", path, err, text)
	}
	return text
}

// reopens reports whether a daemon takes no connections: a standby whose files are behind a
// release opens the home again.
func reopens(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// same checks that all daemons have the same state, and publish the same documents.
func (c *cluster) same(owner int, documents ...string) {
	c.Helper()
	want, err := c.ask(owner)
	must(c, err)
	end := time.Now().Add(processes.Limit)
	for i := range c.nodes {
		for c.nodes[i].Cmd.ProcessState == nil {
			got, err := c.ask(i)
			if err != nil && !reopens(err) {
				c.Fatal(err)
			}
			if err == nil && got.Batch >= want.Batch {
				break
			}
			if time.Now().After(end) {
				c.Fatalf("daemon %d does not come after the owner %d: %+v, want %+v", i, owner, got, want)
			}
			time.Sleep(processes.Again)
		}
	}
	for _, path := range documents {
		want := c.get(owner, path)
		for i := range c.nodes {
			if c.nodes[i].Cmd.ProcessState != nil {
				continue
			}
			if got := undumped(c.get(i, path)); !bytes.Equal(got, undumped(want)) {
				c.Errorf("%s of daemon %d differs from that of the owner %d: got %d octets, want %d\n%s", path, i, owner, len(got), len(want), difference(got, want))
			}
		}
	}
}

// undumped is a document without the link to Resource Dumps: when they are made is up to
// each daemon.
func undumped(text []byte) []byte {
	return archivesLink.ReplaceAll(text, nil)
}

var archivesLink = regexp.MustCompile(`<rs:ln rel="archives"[^>]*>\n`)

// difference shows where two texts begin to differ.
func difference(got, want []byte) string {
	n := 0
	for n < min(len(got), len(want)) && got[n] == want[n] {
		n++
	}
	from := max(0, n-100)
	return fmt.Sprintf("got  %.300q\nwant %.300q", got[from:], want[from:])
}

// documents are of the queue jobs.
var documents = []string{"state/jobs?t=json&limit=1000", "queues/jobs/queue-info.txt",
	published + "pending/resourcelist.xml", published + "pending/changelist.xml", published + "replica/changelist.xml", published + "replica/resourcelist.xml"}

func TestStandbysServeWhatTheirOwnerDoes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	if got := c.owner(0, 1, 2); got != 0 {
		t.Fatalf("daemon %d owns the home", got)
	}
	for i := range 3 {
		for range 4 {
			resp, err := http.Post(c.nodes[i].Node+"content/jobs", "text/plain", strings.NewReader("payload"))
			if err != nil || resp.StatusCode != http.StatusCreated {
				t.Fatalf("submit at daemon %d: %v, %v", i, resp, err)
			}
			resp.Body.Close()
		}
	}
	resp, err := http.Post(c.nodes[1].Node+"consume/jobs", "", nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("take at a standby: %v, %v", resp, err)
	}
	resp.Body.Close()
	c.same(0, documents...)
	for i := range 2 {
		if out, _ := cutie(t, "doctor", "--home", c.homes[i]); !strings.Contains(out, "the other daemons of the home are led to "+c.nodes[i].Node+", for this machine alone") || strings.Contains(out, "is not reached at "+c.nodes[0].Node) || !strings.Contains(out, "ready\n") {
			t.Errorf("the doctor of daemon %d: got %s", i, out)
		}
	}
	for i, wants := range []map[string]string{
		{"state?t=anvl": "role: owner\n", "metrics": "\ncutie_image_failing 0\n", "readyz": "ok\nowner\n", "": "This daemon owns the home"},
		{"state?t=anvl": "role: standby\n", "metrics": "\ncutie_owner 0\n", "readyz": "ok\nstandby, ", "": "behind its owner"},
	} {
		for path, want := range wants {
			if got := string(c.get(i, path)); !strings.Contains(got, want) {
				t.Errorf("/%s of daemon %d: got %.2000s", path, i, got)
			}
		}
	}
}

// A standby passes changes on, or refuses them, as it is told.
func TestWhatAStandbyDoesWithChanges(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.nodes, c.homes = slices.Grow(c.nodes, 2)[:3], append(c.homes, filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2"))
	options := c.options
	for i, way := range []string{"proxy", "refuse"} {
		c.options = append(slices.Clip(options), "--standby-changes", way)
		c.start(i + 1)
	}
	stays := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for i, want := range []int{http.StatusCreated, http.StatusCreated, http.StatusServiceUnavailable} {
		resp, text := send(t, stays, "POST", c.nodes[i].Node+"content/jobs", "payload", "Content-Type", "text/plain")
		if resp.StatusCode != want || want == http.StatusServiceUnavailable && (resp.Header.Get("Retry-After") == "" || !strings.Contains(text, c.nodes[0].Node)) {
			t.Errorf("at daemon %d: got %s, %.300s", i, resp.Status, text)
		}
	}
	// Another daemon may have passed it here, to the owner of before. It is not passed on for ever.
	for passed, want := range map[string]int{"1": http.StatusCreated, "2": http.StatusServiceUnavailable, "x": http.StatusServiceUnavailable} {
		resp, _ := send(t, stays, "POST", c.nodes[1].Node+"content/jobs", "payload", "Content-Type", "text/plain", "Cutie-Passed", passed)
		if resp.StatusCode != want {
			t.Errorf("passed on %s times: got %s", passed, resp.Status)
		}
	}
	// Through the socket of the home nobody has rights at the owner.
	if out, err := cutie(t, "submit", "jobs", "/etc/hostname", "--home", c.homes[1]); err == nil || !strings.Contains(err.Error(), "standby; the owner of the home is "+c.nodes[0].Node) {
		t.Errorf("by the socket: got %s, %v", out, err)
	}
	c.same(0, documents...)
}

// The owner is killed again and again under load, and a standby goes on. What it has
// acknowledged is there, and nothing was handed out twice.
func TestAStandbyTakesOverFromAKilledOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, listEntries()...)
	seed := environment(t, "CUTIE_CRASH_SEED", rand.Uint64())
	t.Logf("CUTIE_CRASH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	l := newLedger(t, c.client, c.base)
	clients := newLoaders(crashClients, seed, c.base, c.client)
	owner := 0
	var slowest time.Duration
	for round := range int(environment(t, "CUTIE_CRASH_ROUNDS", uint64(long.N(1, 20)))) {
		c.enter(owner)
		w := crash(t, c.nodes[owner], clients, underLoad(random, 0, crashLatest), nil)
		killed, begun := owner, time.Now()
		owner = c.owner((killed+1)%3, (killed+2)%3)
		slowest = max(slowest, time.Since(begun))
		c.enter(owner)
		l.round(clients, w)
		c.same(owner, documents...)
		complained(t, c.nodes[killed])
		if random.IntN(2) == 0 {
			must(t, os.RemoveAll(c.homes[killed]))
		}
		c.start(killed)
		c.same(owner, documents...)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	t.Logf("%d operations acknowledged, %d jobs, slowest takeover %v", clients[0].count.Load(), len(l.jobs), slowest)
}

// sleep stops a process, and returns when all its threads have stopped.
func sleep(t *testing.T, p *os.Process) {
	t.Helper()
	must(t, p.Signal(syscall.SIGSTOP))
	for awake := true; awake; {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid))
		if err != nil || len(tasks) == 0 {
			t.Fatalf("tasks: got %q, %v", tasks, err)
		}
		awake = slices.ContainsFunc(tasks, func(name string) bool {
			text, err := os.ReadFile(name)
			return err == nil && !bytes.Contains(text, []byte(") T "))
		})
	}
}

// The home goes from daemon to daemon under load, and no client sees an error.
func TestAHandOverLosesNoRequest(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var done atomic.Int64
	var slowest atomic.Int64
	for i := range 16 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				begun := time.Now()
				resp, err := http.Post(c.nodes[i%2].Node+"content/jobs", "text/plain", strings.NewReader("payload"))
				if err != nil {
					t.Error(err)
					return
				}
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					t.Errorf("%s: %.200s", resp.Status, text)
					return
				}
				done.Add(1)
				if took := int64(time.Since(begun)); took > slowest.Load() {
					slowest.Store(took)
				}
			}
		})
	}
	for _, step := range [][]string{{"takeover", "1"}, {"handover", "1"}, {"takeover", "1"}, {"takeover", "0"}} {
		for n := done.Load(); done.Load() < n+100 && !t.Failed(); {
			time.Sleep(processes.Again)
		}
		out, err := cutie(t, step[0], "--url", c.nodes[step[1][0]-'0'].Node)
		if want := map[string]string{"takeover": "owner; ", "handover": "standby; "}[step[0]]; err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("%v: got %s, %v", step, out, err)
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d submissions, the slowest %v", done.Load(), time.Duration(slowest.Load()))
	owner := c.owner(0, 1)
	c.same(owner, documents...)
	var state queueAnswer
	if err := json.Unmarshal(c.get(owner, "state/jobs?t=json&limit=0"), &state); err != nil || int64(state.Sequence) != done.Load() {
		t.Errorf("%d events of %d submissions, %v", state.Sequence, done.Load(), err)
	}
}

// A fresh machine hands out jobs while published documents are on their way from the store.
// Until they are there it publishes nothing; then everything, with what was done meanwhile.
func TestJobsAreHandedOutBeforePublishedDocumentsHaveCome(t *testing.T) {
	t.Parallel()
	var fresh, waited atomic.Bool
	come := make(chan struct{})
	var m *objectstest.Memory
	m = &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
		// Published documents are at the end of the only object of the image.
		if fresh.Load() && r.Op == "Get" && r.To > 0 && strings.Contains(r.Name, "image/") && r.To == int64(len(m.Objects()[r.Name])) {
			waited.Store(true)
			<-come
		}
		return objectstest.None
	}}
	options := append(storeOptions(t, m), "--store-image", "1000")
	d := serve(t, options...)
	for m.Objects()["home/snapshot/00000000000000000001"] == nil {
		run(t, "submit", "jobs", "/etc/hostname", "--url", d.URL)
	}
	d.End(t)
	address := strings.Trim(strings.TrimPrefix(d.URL, "http:"), "/")
	fresh.Store(true)
	started := make(chan *processes.Daemon, 1)
	go func() {
		d, err := processes.Begin(t.TempDir(), filepath.Join(t.TempDir(), "cache"), append(options, "--listen", address)...)
		if err != nil {
			t.Error(err)
		}
		started <- d
	}()
	get := func(method, path string) (*http.Response, string) {
		req, err := http.NewRequest(method, d.URL+path, nil)
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, ""
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp, string(body)
	}
	for { // until it listens
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			break
		}
		time.Sleep(processes.Again)
	}
	taken, job := get("POST", "consume/jobs")
	for taken != nil && strings.Contains(job, "the home is being opened") { // it listens a moment before it hands out jobs
		time.Sleep(processes.Again)
		taken, job = get("POST", "consume/jobs")
	}
	if taken == nil || taken.StatusCode != http.StatusOK || !strings.HasSuffix(taken.Header.Get("Content-Location"), "/content/jobs/j000000000001") {
		t.Errorf("take: got %v, %s", taken, job)
	}
	for _, path := range []string{published, published + "pending/changelist.xml", "metrics"} {
		if resp, body := get("GET", path); resp == nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: got %v, %s", path, resp, body)
		}
	}
	if resp, body := get("DELETE", "state/jobs"); resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a queue goes: got %v, %s", resp, body)
	}
	for !waited.Load() {
		time.Sleep(processes.Again)
	}
	close(come)
	if d = <-started; d == nil {
		return
	}
	t.Cleanup(d.Kill)
	all := lookedAt(t, d)
	says(t, all[published+"pending/changelist.xml"], "payload/j000000000001", `change="deleted"`)
	d.End(t)
}
