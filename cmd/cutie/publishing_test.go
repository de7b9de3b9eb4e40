package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cutie/testdata/processes"
)

func ask(t *testing.T, method, url string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp, body.String()
}

func TestRobotsAndPagesOfOthersByChoice(t *testing.T) {
	t.Parallel()
	const published = ".well-known/resourcesync"
	home := filepath.Join(t.TempDir(), "home")
	d := serveHome(t, home)
	if resp, _ := ask(t, "GET", d.url+"robots.txt"); resp.StatusCode != 404 {
		t.Errorf("robots.txt without --robots: %s", resp.Status)
	}
	if resp, _ := ask(t, "GET", d.url+published, "Origin", "https://a.test"); resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without --cors: %v", resp.Header)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}

	d = serveHome(t, home, "--robots", "--cors", "https://a.test")
	resp, body := ask(t, "GET", d.url+"robots.txt")
	want := "User-agent: *\nDisallow:\n\n"
	for _, name := range []string{"resourcelist.xml", "sitemap.xml"} {
		for _, set := range []string{"pending", "replica"} {
			url := d.url + published + "/jobs/" + set + "/" + name
			if name == "sitemap.xml" && set == "pending" { // it has no job, and the schema wants an entry
				if resp, _ := ask(t, "GET", url); resp.StatusCode != 404 {
					t.Errorf("%s without an entry: %s", url, resp.Status)
				}
				continue
			}
			want += "Sitemap: " + url + "\n"
		}
	}
	if resp.StatusCode != 200 || body != want || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("robots.txt: %s, %q, %q", resp.Status, resp.Header.Get("Content-Type"), body)
	}
	resp, _ = ask(t, "GET", d.url+published, "Origin", "https://a.test")
	if resp.Header.Get("Access-Control-Allow-Origin") != "https://a.test" || !strings.Contains(resp.Header.Get("Access-Control-Expose-Headers"), "ETag") {
		t.Errorf("to an origin that may read: %v", resp.Header)
	}
	resp, body = ask(t, "OPTIONS", d.url+"content/jobs", "Origin", "https://a.test", "Access-Control-Request-Method", "POST")
	if resp.StatusCode != 204 || body != "" || resp.Header.Get("Access-Control-Allow-Methods") != "GET, HEAD" {
		t.Errorf("preflight: %s %v", resp.Status, resp.Header)
	}
	if resp, _ = ask(t, "POST", d.url+"content/jobs", "Origin", "https://a.test"); resp.StatusCode != 403 || resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("submission by a page that may read: %s %v", resp.Status, resp.Header)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}

	// Who may read nothing is told of nothing.
	d = serveHome(t, home, "--robots", "--anonymous", "none")
	if resp, body := ask(t, "GET", d.url+"robots.txt"); resp.StatusCode != 200 || body != "User-agent: *\nDisallow:\n\n" {
		t.Errorf("robots.txt for strangers: %s, %q", resp.Status, body)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

func TestPublishingIsAskedByMethod(t *testing.T) {
	d := serveHome(t, filepath.Join(t.TempDir(), "home"))
	for _, tt := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "publish/status", 200, ""},
		{"HEAD", "publish/status", 200, ""},
		{"POST", "publish/status", 405, "GET, HEAD"},
		{"POST", "publish?now", 200, ""},
		{"GET", "publish", 405, "POST"},
		{"GET", "publish/", 404, ""},
		{"GET", "publish/x", 404, ""},
	} {
		resp, body := ask(t, tt.method, d.url+tt.path)
		if resp.StatusCode != tt.status || resp.Header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: %s, Allow %q", tt.method, tt.path, resp.Status, resp.Header.Get("Allow"))
		}
		if tt.status != 200 || tt.method == "HEAD" {
			continue
		}
		var got struct {
			BaseURI string
			Sets    []struct{ Queue, Set string }
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.BaseURI != d.url || len(got.Sets) != 2 || got.Sets[1].Set != "replica" {
			t.Errorf("%s %s: %v, %s", tt.method, tt.path, err, body)
		}
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// TestExportFollows reads a line for each export that had something to do.
func TestExportFollows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, tree := filepath.Join(dir, "home"), filepath.Join(dir, "tree")
	d := serveHome(t, home)
	follow := exec.Command("cutie", "export", tree, "--home", home, "--resources", "--follow", "--every", "100ms")
	follow.Env = append(os.Environ(), "CUTIE_URL=")
	out, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := processes.Start(follow); err != nil {
		t.Fatal(err)
	}
	defer follow.Process.Kill()
	lines := bufio.NewReader(out)
	next := func() {
		t.Helper()
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, " documents, ") {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	next()
	payload := filepath.Join(tree, "queues", "jobs", "payload")
	for _, id := range []string{"j000000000001", "j000000000002"} {
		if resp, body := ask(t, "POST", d.url+"content/jobs", "Content-Type", "application/octet-stream"); resp.StatusCode/100 != 2 {
			t.Fatalf("%s: %s", resp.Status, body)
		}
		for {
			next()
			if _, err := os.Stat(filepath.Join(payload, id)); err == nil {
				break
			}
		}
	}
	if err := follow.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := follow.Wait(); err != nil {
		t.Errorf("interrupted it ends with %v", err)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}
