package main_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// Readers learn scheme and host of a callback. The rest is in no document, in no log,
// and in no file but one, also if it was set by hand or by a former version.
func TestURLOfACallbackIsASecret(t *testing.T) {
	t.Parallel()
	var told atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/kept-apart") {
			told.Add(1)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer receiver.Close()
	home := filepath.Join(t.TempDir(), "home")
	d := serveHome(t, home, "--allow-fetch", "127.0.0.1")
	info := filepath.Join(home, "queues/jobs/queue-info.txt")
	check := func(how string) {
		t.Helper()
		before := told.Load()
		if resp, text := send(t, http.DefaultClient, "POST", d.url+"content/jobs", "x"); resp.StatusCode != 201 {
			t.Fatalf("got %s, %s", resp.Status, text)
		}
		until(t, how+": told", func() bool { return told.Load() > before })
		until(t, how+": hidden", func() bool { return !strings.Contains(readFile(t, info), "kept-apart") })
		for _, path := range []string{"state/jobs", "state/jobs?t=anvl", "queues/jobs/queue-info.txt", "metrics", "uws/jobs/capabilities",
			".well-known/resourcesync/jobs/replica/resourcelist.xml"} {
			_, text := send(t, http.DefaultClient, "GET", d.url+path, "")
			if strings.Contains(text, "kept-apart") {
				t.Errorf("%s: /%s: got %s", how, path, text)
			}
			if strings.Contains(path, "info") && !strings.Contains(text, "callback: "+receiver.URL+"\n") {
				t.Errorf("%s: got %s, want the host", how, text)
			}
		}
	}
	if _, err := cutie(t, "--home", home, "set", "jobs", "--callback", receiver.URL+"/kept-apart?key=1"); err != nil {
		t.Fatal(err)
	}
	check("set")
	// What everybody sees can be given back.
	if resp, text := send(t, http.DefaultClient, "POST", d.url+"state/jobs", "callback="+receiver.URL, "Content-Type", "application/x-www-form-urlencoded"); resp.StatusCode != 200 {
		t.Fatalf("got %s, %s", resp.Status, text)
	}
	check("given back")
	text := strings.Replace(readFile(t, info), "callback: "+receiver.URL, "callback: "+receiver.URL+"/kept-apart2", 1)
	if err := os.WriteFile(info, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "read and concealed", func() bool { return !strings.Contains(readFile(t, info), "kept-apart2") })
	check("by hand")
	if st, err := os.Stat(filepath.Join(home, "callback-urls", "jobs")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", st, err)
	}
	if got := readFile(t, filepath.Join(home, "callback-urls", "jobs")); !strings.HasPrefix(got, receiver.URL+"/kept-apart2\nseal: ") {
		t.Errorf("got %q", got)
	}
	if strings.Contains(d.stderr.String(), "kept-apart") {
		t.Errorf("got %s", d.stderr.String())
	}
}
