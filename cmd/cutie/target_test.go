package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/home"
)

func TestADaemonWaitsForAShortLock(t *testing.T) {
	dir, want := t.TempDir(), new(queuefs.Service)
	calls := 0
	got, err := openUnlocked(context.Background(), dir, func() (*queuefs.Service, error) {
		if calls++; calls < 3 {
			return nil, &home.LockedError{Dir: dir}
		}
		return want, nil
	})
	if got != want || err != nil || calls != 3 {
		t.Errorf("got %v, %v after %d calls", got, err, calls)
	}
}

func TestADaemonDoesNotWaitForAnother(t *testing.T) {
	dir := t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(dir, "cutie-socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	calls := 0
	_, err = openUnlocked(context.Background(), dir, func() (*queuefs.Service, error) {
		calls++
		return new(queuefs.Service), nil // a file system without locks
	})
	if locked := (*home.LockedError)(nil); !errors.As(err, &locked) || locked.PID != os.Getpid() || calls != 0 {
		t.Errorf("got %v after %d calls", err, calls)
	}
}

func TestTokenGoesToItsHostOnly(t *testing.T) {
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, "other "+r.Header.Get("Authorization"))
	}))
	defer other.Close()
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, "daemon "+r.Header.Get("Authorization"))
		if r.URL.Path == "/away" {
			http.Redirect(w, r, other.URL, http.StatusFound)
		}
	}))
	defer daemon.Close()
	t.Setenv(tokenVariable, "secret")
	c := &http.Client{Transport: withToken(daemon.URL+"/base/", http.DefaultTransport)}
	for _, url := range []string{daemon.URL + "/base/state", daemon.URL + "/away", other.URL} {
		resp, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	want := []string{"daemon Bearer secret", "daemon Bearer secret", "other ", "other "}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("request %d: got %q, want %q", i, got[i], want[i])
		}
	}
}
