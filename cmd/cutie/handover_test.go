package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// A slowBody is a body of a request. Its daemon gets the first octet, and the others when
// they are let go.
type slowBody struct {
	begun func() // called when the daemon reads
	once  sync.Once
	let   <-chan struct{}
	first bool
	rest  io.Reader
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.once.Do(b.begun)
	if !b.first {
		b.first = true
		p[0] = 'x'
		return 1, nil
	}
	<-b.let
	return b.rest.Read(p)
}

// The home goes to and fro under load: small and large bodies, some as slow as the test
// wants, through the owner and through a standby, and consumers
// waiting for jobs. The owner works on until it has the slow ones, and each request is
// answered as if nothing had happened.
func TestAHandOverWaitsForSlowRequests(t *testing.T) {
	t.Parallel()
	const clients, slow, pollers = 64, 24, 8
	// On a busy machine an owner may be silent for a second: no standby may take it for dead.
	// And the test may last for more than a minute: each daemon closes lists for their age by
	// its own clock, so there is none of that here.
	c := newCluster(t, 2, "--takeover-after", "30s", "--period", "0")
	transport := &http.Transport{MaxIdleConnsPerHost: clients, ExpectContinueTimeout: processes.Limit}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: processes.Limit}
	var mu sync.Mutex
	submitted, taken := map[string]int{}, map[string]int{}
	var done atomic.Int64
	// post returns the job of the answer, "" for none; node is the number of a daemon.
	post := func(node int, path, kind string, size int64, body io.Reader, fields ...string) string {
		req, err := http.NewRequest("POST", c.nodes[node].Node+path, body)
		if err != nil {
			t.Error(err)
			return ""
		}
		req.ContentLength = size
		req.Header.Set("Content-Type", kind)
		for i := 0; i+1 < len(fields); i += 2 {
			req.Header.Set(fields[i], fields[i+1])
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
			t.Errorf("%s at daemon %d: %s, %v: %.200s", path, node, resp.Status, err, text)
		}
		done.Add(1)
		at := resp.Header.Get("Location") + resp.Header.Get("Content-Location")
		return at[strings.LastIndexByte(at, '/')+1:]
	}
	note := func(of map[string]int, job string) {
		if job != "" {
			mu.Lock()
			of[job]++
			mu.Unlock()
		}
	}
	stop := make(chan struct{})
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	var wg sync.WaitGroup
	large := strings.Repeat("large", 60<<10)
	for i := range clients - slow - pollers {
		wg.Go(func() {
			for n := i; !stopped() && !t.Failed(); n++ {
				switch {
				case n%40 == 7:
					note(submitted, post(i%2, "content/jobs", "text/plain", int64(len(large)), strings.NewReader(large)))
				case n%40 == 27:
					note(submitted, post(i%2, "content/jobs", "text/plain", -1, strings.NewReader(large)))
				default:
					note(submitted, post(i%2, "content/jobs", "text/plain", 7, strings.NewReader("payload")))
				}
			}
		})
	}
	for i := range pollers {
		wg.Go(func() {
			for !stopped() && !t.Failed() {
				note(taken, post(i%2, "consume/jobs", "application/x-www-form-urlencoded", 6, strings.NewReader("wait=1")))
			}
		})
	}
	owner := c.owner(0, 1)
	for round := range long.N(2, 20) {
		let := make(chan struct{})
		var begun, ended sync.WaitGroup
		for i := range slow {
			begun.Add(1)
			body := &slowBody{begun: begun.Done, let: let, rest: strings.NewReader("slow")}
			size := []int64{5, -1, 5, 1 + int64(len(large))}[i/2%4]
			if size > 5 {
				body.rest = strings.NewReader(large)
			}
			ended.Go(func() {
				note(submitted, post(i%2, "content/jobs", "text/plain", size, body, "Expect", "100-continue"))
			})
		}
		begun.Wait()
		moved := make(chan error)
		var took time.Duration
		go func() {
			begun := time.Now()
			word, at := "handover", owner
			if round%2 == 1 {
				word, at = "takeover", 1-owner
			}
			out, err := cutie(t, word, "--url", c.nodes[at].Node)
			if err != nil {
				err = fmt.Errorf("%s: %s: %w", word, out, err)
			}
			took = time.Since(begun)
			moved <- err
		}()
		for end := time.Now().Add(processes.Limit); ; time.Sleep(processes.Again) {
			o, err := c.ask(owner)
			if err == nil && o.Finishing >= slow {
				break
			}
			select {
			case err := <-moved:
				t.Fatalf("the hand-over is over before the slow requests: %v; %+v", err, o)
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("the owner does not wait for %d slow requests: %+v, %v", slow, o, err)
			}
		}
		for n := done.Load(); done.Load() < n+60 && !t.Failed(); {
			time.Sleep(processes.Again) // the owner works on
		}
		if o, err := c.ask(owner); err != nil || o.Role != "owner" {
			t.Errorf("round %d: the owner gave the home up before it had all: %+v, %v", round, o, err)
		}
		close(let)
		ended.Wait()
		if err := <-moved; err != nil {
			t.Error(err)
		}
		if owner = c.owner(0, 1); t.Failed() {
			break
		}
		t.Logf("round %d: daemon %d has the home after %v", round, owner, took)
	}
	close(stop)
	wg.Wait()
	c.same(owner, documents...)
	var state struct {
		Pending  int `json:"numPendingJobs"`
		Consumed int `json:"numConsumedJobs"`
		Sequence int
	}
	must(t, json.Unmarshal(c.get(owner, "state/jobs?t=json&limit=0"), &state))
	for job, n := range taken {
		if n > 1 || submitted[job] == 0 {
			t.Errorf("%s: handed out %d times, acknowledged %d times", job, n, submitted[job])
		}
	}
	for job, n := range submitted {
		if n > 1 {
			t.Errorf("%s: acknowledged %d times", job, n)
		}
	}
	if state.Pending != len(submitted)-len(taken) || state.Sequence != len(submitted)+len(taken) {
		t.Errorf("got %+v, want %d submitted, %d handed out", state, len(submitted), len(taken))
	}
	t.Logf("%d submitted, %d handed out", len(submitted), len(taken))
}

// An owner that slept while another daemon took the home acknowledges nothing of its own,
// and then is a standby that says to whom it lost the home. It refuses nothing by what it
// knew before: neither a report of a job whose lease was extended at the new owner, nor a
// request for a job submitted there. What was acknowledged is there.
func TestAWokenOwnerRefusesNothingByOldState(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	// Each request has a connection of its own, which the sleeping daemon accepts when it wakes.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: processes.Limit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(i int, method, path, lease string) (*http.Response, string, error) {
		path, form, _ := strings.Cut(path, " ")
		header := []string{"Content-Type", "text/plain"}
		if form != "" {
			header[1] = "application/x-www-form-urlencoded"
		}
		if lease != "" {
			header = append(header, "Cutie-Lease", lease)
		}
		return processes.Request(client, method, c.nodes[i].Node+path, form, header...)
	}
	must := func(i int, method, path, lease string) *http.Response {
		t.Helper()
		resp, text, err := ask(i, method, path, lease)
		if err != nil || resp.StatusCode >= 300 {
			t.Fatalf("%s %s at daemon %d: %v, %v, %.200s", method, path, i, resp, err, text)
		}
		return resp
	}
	const jobs = 8
	var leases [jobs]string
	for i := range jobs {
		must(0, "POST", "content/jobs?filename=x", "")
		leases[i] = must(0, "POST", "consume/jobs?lease=8", "").Header.Get("Cutie-Lease")
	}
	leased := time.Now()
	job := func(n int) string { return "jobs/j00000000000" + string(rune('0'+n)) }
	sleep(t, c.nodes[0].Cmd.Process)
	c.owner(1)
	for i := range jobs {
		must(1, "POST", "lease/"+job(i+1)+"?seconds=600", leases[i])
	}
	must(1, "POST", "content/jobs?filename=x", "")
	for time.Since(leased) < 9*time.Second { // the leases as the sleeper knows them end
		time.Sleep(processes.Again)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	reported := map[int]bool{}
	try := func(method, path, lease string, done func()) {
		resp, text, err := ask(0, method, path, lease)
		switch {
		case err != nil: // it closes its connections to open the home again
		case resp.StatusCode == http.StatusServiceUnavailable:
			if resp.Header.Get("Retry-After") == "" {
				t.Errorf("%s %s: 503 without Retry-After: %.200s", method, path, text)
			}
		case resp.StatusCode >= 400:
			t.Errorf("%s %s: got %s: %.200s", method, path, resp.Status, text)
		case resp.StatusCode < 300:
			done()
		}
	}
	for i := range jobs {
		wg.Go(func() {
			try("POST", "outcome/"+job(i+1)+" outcome=completed", leases[i], func() {
				mu.Lock()
				reported[i] = true
				mu.Unlock()
			})
		})
		wg.Go(func() { try("GET", "state/"+job(jobs+1), "", func() {}) })
		wg.Go(func() { try("POST", "hold/"+job(jobs+1), "", func() {}) })
	}
	submitted := jobs + 1
	wg.Go(func() { try("POST", "content/jobs?filename=late", "", func() { submitted++ }) })
	time.Sleep(20 * processes.Again) // the requests are in the buffers of the system
	if err := c.nodes[0].Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for o, err := c.ask(0); err != nil || o.Role != "standby"; o, err = c.ask(0) {
		time.Sleep(processes.Again)
	}
	for i := range jobs {
		if !reported[i] {
			must(1, "POST", "outcome/"+job(i+1)+" outcome=completed", leases[i])
		}
	}
	says(t, c.nodes[0].Stderr.String(), "another owner: process "+strconv.Itoa(c.nodes[1].Cmd.Process.Pid))
	c.same(1, documents...)
	var state queueAnswer
	if err := json.Unmarshal(c.get(1, "state/jobs?t=json&limit=1000"), &state); err != nil || len(state.Refs) != submitted {
		t.Errorf("%d jobs of %d that were acknowledged, %v", len(state.Refs), submitted, err)
	}
	// The owner proves that it is one, and refuses.
	if resp, text, err := ask(1, "GET", "state/jobs/j000000000099", ""); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("got %v, %v, %.200s", resp, err, text)
	}
	if resp, text, err := ask(1, "POST", "outcome/"+job(1)+" outcome=completed", "wrong"); err != nil || resp.StatusCode != http.StatusGone {
		t.Errorf("got %v, %v, %.200s", resp, err, text)
	}
}

// Consumers get no job after they left a standby. The wait is in the query or in a form.
func TestConsumersThatLeftAStandbyGetNoJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.homes, c.nodes = append(c.homes, filepath.Join(t.TempDir(), "1")), append(c.nodes, nil)
	c.start(1)
	standby, err := url.Parse(c.nodes[1].Node)
	must(t, err)
	ask := func(method, path, body string) (status int, text string) {
		resp, text := send(t, c.client, method, c.nodes[0].Node+path, body)
		return resp.StatusCode, text
	}
	// waiting returns once n requests wait at the owner.
	waiting := func(n int) {
		t.Helper()
		line := fmt.Sprintf("\ncutie_requests_waiting %d\n", n)
		eventually(t, fmt.Sprintf("%d requests wait at the owner", n), func() bool {
			_, text := ask("GET", "metrics", "")
			return strings.Contains(text, line)
		})
	}
	for _, request := range []string{
		"POST /consume/jobs?wait=60 HTTP/1.1\r\nHost: %s\r\n\r\n",
		"POST /consume/jobs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\nwait=60",
	} {
		waiters := make([]net.Conn, 20)
		for i := range waiters {
			if waiters[i], err = net.Dial("tcp", standby.Host); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(waiters[i], request, standby.Host)
		}
		waiting(len(waiters))
		for _, waiter := range waiters {
			waiter.Close()
		}
		waiting(0)
		if status, text := ask("POST", "content/jobs", "payload"); status != http.StatusCreated {
			t.Fatalf("submission: got %d %s", status, text)
		}
		if status, text := ask("POST", "consume/jobs", ""); status != http.StatusOK {
			t.Errorf("%.30q: the job went to consumers that had left: got %d %s", request, status, text)
		}
	}
}
