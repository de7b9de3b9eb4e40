package main_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Consumers get no job after they left a standby. The wait is in the query or in a form.
func TestConsumersThatLeftAStandbyGetNoJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.homes, c.nodes = append(c.homes, filepath.Join(t.TempDir(), "1")), append(c.nodes, nil)
	c.start(1)
	standby, err := url.Parse(c.nodes[1].node)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string) (status int, text string) {
		req, err := http.NewRequest(method, c.nodes[0].node+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		all, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(all)
	}
	// waiting returns once n requests wait at the owner.
	waiting := func(n int) {
		t.Helper()
		line := fmt.Sprintf("\ncutie_requests_waiting %d\n", n)
		for end := time.Now().Add(startLimit); ; time.Sleep(askEvery) {
			if _, text := ask("GET", "metrics", ""); strings.Contains(text, line) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("not %d requests wait at the owner", n)
			}
		}
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
