package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/testdata/long"
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
	transport := &http.Transport{MaxIdleConnsPerHost: clients, ExpectContinueTimeout: startLimit}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: startLimit}
	var mu sync.Mutex
	submitted, taken := map[string]int{}, map[string]int{}
	var done atomic.Int64
	// post returns the job of the answer, "" for none; node is the number of a daemon.
	post := func(node int, path, kind string, size int64, body io.Reader, fields ...string) string {
		req, err := http.NewRequest("POST", c.nodes[node].node+path, body)
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
			out, err := cutie(t, word, "--url", c.nodes[at].node)
			if err != nil {
				err = fmt.Errorf("%s: %s: %w", word, out, err)
			}
			took = time.Since(begun)
			moved <- err
		}()
		for end := time.Now().Add(startLimit); ; time.Sleep(askEvery) {
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
			time.Sleep(askEvery) // the owner works on
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
	if err := json.Unmarshal(c.get(owner, "state/jobs?t=json&limit=0"), &state); err != nil {
		t.Fatal(err)
	}
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
