package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestSocketIsPrivate(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	serveHome(t, home)
	info, err := os.Stat(filepath.Join(home, "cutie-socket"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode(), fs.ModeSocket|0o600; got != want {
		t.Errorf("got mode %v, want %v", got, want)
	}
}

// Profiles show payloads and tokens.
func TestProfilesAreForTheSocket(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	d := serveHome(t, home)
	socket := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(home, "cutie-socket"))
	}}}
	for _, of := range []struct {
		client *http.Client
		url    string
		want   int
	}{
		{socket, "http://home/debug/pprof/goroutine?debug=1", http.StatusOK},
		{socket, "http://home/debug/pprof/profile?seconds=1", http.StatusOK},
		{socket, "http://home/debug/pprof/none", http.StatusNotFound},
		{http.DefaultClient, d.url + "debug/pprof/", http.StatusNotFound},
		{http.DefaultClient, d.url + "debug/pprof/goroutine?debug=1", http.StatusNotFound},
		{http.DefaultClient, d.url + "debug/pprof/profile?seconds=1", http.StatusNotFound},
	} {
		resp, err := of.client.Get(of.url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != of.want || len(body) == 0 {
			t.Errorf("%s: got %s, %d octets, %v, want %d", of.url, resp.Status, len(body), err, of.want)
		}
	}
}

func TestSocketOfALongPath(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), strings.Repeat("long/", 40), "home")
	if err := os.MkdirAll(filepath.Dir(home), 0o777); err != nil {
		t.Fatal(err)
	}
	d := serveHome(t, home)
	if _, err := cutie(t, "createQueue", "second", "--home", home); err != nil {
		t.Error(err)
	}
	// The home is locked, so the daemon did it.
	if out, err := cutie(t, "status", "--url", d.url); err != nil || !strings.Contains(out, "second\t0") {
		t.Errorf("got %q, %v, want the second queue", out, err)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Errorf("daemon ended badly: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(home, "cutie-socket")); !os.IsNotExist(err) {
		t.Errorf("got %v, want no socket", err)
	}
}

func TestCommandsOnOneHomeTakeTurns(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	for _, args := range [][]string{{"init", home}, {"createQueue", "jobs", "--home", home}} {
		if _, err := cutie(t, args...); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	const n = 8
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			var err error
			if ids[i], err = cutie(t, "put", "jobs", file, "--home", home); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.Sort(ids)
	for i, id := range ids {
		if want := fmt.Sprintf("j%012d\n", i+1); id != want {
			t.Errorf("got %q, want %q", id, want)
		}
	}
}

func TestProbes(t *testing.T) {
	t.Parallel()
	d := serve(t)
	for _, path := range []string{"livez", "readyz"} {
		resp, err := http.Get(d.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: got %s, want 200", path, resp.Status)
		}
		resp, err = http.Post(d.url+path, "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: got %s, Allow %q, want 405 and GET, HEAD", path, resp.Status, resp.Header.Get("Allow"))
		}
	}
}

func TestLogIsJSON(t *testing.T) {
	t.Parallel()
	d := serve(t, "--log-format", "json", "--log-level", "debug")
	resp, err := http.Get(d.url + "state")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(d.stderr.String()) {
		var event struct {
			Message, Level, Path string
			Status               int
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		got = append(got, fmt.Sprint(event.Level, " ", event.Message, " ", event.Path, " ", event.Status))
	}
	// The request is logged after its answer, perhaps while the daemon stops.
	stopping := slices.Index(got, "info stopping  0")
	if stopping < 2 || stopping > slices.Index(got, "info requests ended  0") {
		t.Fatalf("got %q, want info stopping between serving and requests ended", got)
	}
	got = slices.Delete(got, stopping, stopping+1)
	want := []string{"info home created  0", "info serving  0", "debug request /state 200", "info requests ended  0", "info stopped  0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
