package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A token that goes ends every wait begun with it, and no job is handed out for it.
func TestRevocationEndsWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, home := filepath.Join(dir, "users.txt"), filepath.Join(dir, "home")
	for _, args := range [][]string{{"ann", "--rights", "all"}, {"bob", "--rights", "all"}} {
		if _, err := cutie(t, append([]string{"user", "add", "--no-password", "--users", users}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	bearer := func(args ...string) string {
		token, err := cutie(t, append([]string{"token", "add", "--users", users}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + strings.TrimSpace(token)
	}
	ann, bob := bearer("ann", "--name", "gone"), bearer("bob")
	var fetched atomic.Bool
	hang := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		fetched.Store(true)
		<-hang
	}))
	defer slow.Close()
	defer close(hang) // before it
	d := serveHome(t, home, "--users", users, "--allow-fetch", "127.0.0.1")
	resp, page := send(t, http.DefaultClient, "POST", d.url+"uws/jobs/async", "a=1", "Authorization", ann, "Content-Type", "application/x-www-form-urlencoded")
	uws := resp.Request.URL.String()
	if resp.StatusCode != 200 {
		t.Fatalf("no job of UWS: %s, %s", resp.Status, page)
	}

	var all sync.WaitGroup
	begin := func(name, method, path, body string, want int, header ...string) {
		req, err := http.NewRequest(method, path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		req.Header.Set("Authorization", ann)
		all.Go(func() {
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != want {
				t.Errorf("%s: got %s, %s, want %d", name, resp.Status, text, want)
			}
		})
	}
	begin("consume", "POST", d.url+"consume/jobs?wait=60", "", 401)
	begin("events", "GET", d.url+"events/jobs", "", 200)
	list := d.url + ".well-known/resourcesync/jobs/pending/changelist.xml"
	resp, _ = send(t, http.DefaultClient, "GET", list, "", "Authorization", ann)
	begin("a document", "GET", list, "", 401, "Prefer", "wait=60", "If-None-Match", resp.Header.Get("Etag"))
	begin("UWS", "GET", uws+"?WAIT=50", "", 401)
	begin("a batch", "POST", d.url+"content/jobs?type=batch-manifest", "#%checkm_0.7\n"+slow.URL+"/f | sha256 | "+strings.Repeat("0", 64)+" | 1 | | f\n#%eof\n", 401,
		"Content-Type", "text/checkm")
	// An upload whose body begins when it is let in, and ends when its token has gone.
	upload, body := io.Pipe()
	slowly := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	all.Go(func() {
		req, err := http.NewRequest("POST", d.url+"content/jobs", upload)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", ann)
		req.Header.Set("Expect", "100-continue")
		resp, err := slowly.Do(req)
		if err != nil {
			t.Errorf("upload: %v", err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode != 401 {
			t.Errorf("upload: got %s, want 401", resp.Status)
		}
	})
	if _, err := io.WriteString(body, "the first of it"); err != nil {
		t.Fatal(err)
	}
	waiting := func() bool {
		_, text := send(t, http.DefaultClient, "GET", d.url+"metrics", "", "Authorization", bob)
		return strings.Contains(text, "cutie_requests_waiting 4")
	}
	until(t, "four requests wait", waiting)
	until(t, "a file is fetched", func() bool { return fetched.Load() })
	if _, err := cutie(t, "token", "rm", "gone", "--users", users); err != nil {
		t.Fatal(err)
	}
	body.Close()
	// It is not known to the daemon yet, perhaps, and the consumer waits.
	if resp, text := send(t, http.DefaultClient, "POST", d.url+"content/jobs", "x", "Authorization", bob); resp.StatusCode != 201 {
		t.Errorf("submission: got %s, %s", resp.Status, text)
	}
	all.Wait()
	if _, state := send(t, http.DefaultClient, "GET", d.url+"state/jobs?t=anvl", "", "Authorization", bob); !strings.Contains(state, "numPendingJobs: 2") {
		t.Errorf("got %s, want that nobody has got a job", state)
	}
}
