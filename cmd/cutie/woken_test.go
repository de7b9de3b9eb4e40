package main_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// An owner that slept while another daemon took the home refuses nothing by what it knew
// before: neither a report of a job whose lease was extended at the new owner, nor a request
// for a job submitted there.
func TestAWokenOwnerRefusesNothingByOldState(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	// Each request has a connection of its own, which the sleeping daemon accepts when it wakes.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(i int, method, path, lease string) (*http.Response, string, error) {
		path, form, _ := strings.Cut(path, " ")
		req, err := http.NewRequest(method, c.nodes[i].node+path, strings.NewReader(form))
		if err != nil {
			return nil, "", err
		}
		if form != "" {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		} else {
			req.Header.Set("Content-Type", "text/plain")
		}
		if lease != "" {
			req.Header.Set("Cutie-Lease", lease)
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp, string(text), err
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
		leases[i] = must(0, "POST", "consume/jobs?lease=3", "").Header.Get("Cutie-Lease")
	}
	leased := time.Now()
	job := func(n int) string { return "jobs/j00000000000" + string(rune('0'+n)) }
	sleep(t, c.nodes[0].cmd.Process)
	c.owner(1)
	for i := range jobs {
		must(1, "POST", "lease/"+job(i+1)+"?seconds=600", leases[i])
	}
	must(1, "POST", "content/jobs?filename=x", "")
	for time.Since(leased) < 4*time.Second { // the leases as the sleeper knows them end
		time.Sleep(askEvery)
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
	time.Sleep(20 * askEvery) // the requests are in the buffers of the system
	if err := c.nodes[0].cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for o, err := c.ask(0); err != nil || o.Role != "standby"; o, err = c.ask(0) {
		time.Sleep(askEvery)
	}
	for i := range jobs {
		if !reported[i] {
			must(1, "POST", "outcome/"+job(i+1)+" outcome=completed", leases[i])
		}
	}
	// The owner proves that it is one, and refuses.
	if resp, text, err := ask(1, "GET", "state/jobs/j000000000099", ""); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("got %v, %v, %.200s", resp, err, text)
	}
	if resp, text, err := ask(1, "POST", "outcome/"+job(1)+" outcome=completed", "wrong"); err != nil || resp.StatusCode != http.StatusGone {
		t.Errorf("got %v, %v, %.200s", resp, err, text)
	}
}
