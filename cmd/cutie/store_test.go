package main_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"cutie/queuefs/objects/objectstest"
	"cutie/testdata/long"
)

// storeOptions returns the options of daemons with their home in a store.
func storeOptions(t *testing.T, m *objectstest.Memory) []string {
	t.Helper()
	srv := httptest.NewServer(objectstest.Handler(m))
	t.Cleanup(srv.Close)
	return []string{"--store", "s3://bucket/home", "--store-endpoint", srv.URL}
}

// A home in a store is killed again and again under load. In every second round its
// directory is lost, too.
func TestAcknowledgedWorkInAStoreSurvivesKills(t *testing.T) {
	t.Parallel()
	surviveKillsStored(t, storeOptions(t, new(objectstest.Memory)))
}

func TestAcknowledgedWorkInARealStoreSurvivesKills(t *testing.T) {
	t.Parallel()
	if !long.On() {
		t.Skip("CUTIE_LONG is not set: make long sets it")
	}
	surviveKillsStored(t, []string{"--store", "s3://bucket/home", "--store-endpoint", objectstest.Real(t)})
}

func surviveKillsStored(t *testing.T, options []string) {
	options = append(options, "--takeover")
	home := filepath.Join(t.TempDir(), "home")
	surviveKills(t, home, func(round int) []string {
		if round%2 == 1 {
			if err := os.RemoveAll(home); err != nil {
				t.Fatal(err)
			}
		}
		return options
	})
}

// A daemon whose home another one has taken over says by whom, and ends. Without
// permission nothing is taken.
func TestADaemonThatLostItsHomeSaysToWhom(t *testing.T) {
	t.Parallel()
	options := storeOptions(t, new(objectstest.Memory))
	a := serve(t, options...)
	if out, err := cutie(t, "submit", "jobs", "/etc/hostname", "--url", a.url); err != nil {
		t.Fatal(out, err)
	}
	home := filepath.Join(t.TempDir(), "b")
	if _, err := start(t.TempDir(), home, options...); err == nil || !strings.Contains(err.Error(), "owned by process "+strconv.Itoa(a.cmd.Process.Pid)) ||
		!strings.Contains(err.Error(), "hint: ") {
		t.Errorf("without permission: got %v", err)
	}
	b := serveHome(t, home, append(options, "--takeover")...)
	err := a.ended()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 5 || !strings.Contains(a.stderr.String(), "another owner: process "+strconv.Itoa(b.cmd.Process.Pid)) {
		t.Errorf("the former owner ended by %v", err)
	}
	if out, err := cutie(t, "list", "jobs", "--url", b.url); err != nil || !strings.Contains(out, "j000000000001") {
		t.Errorf("the new owner: got %s, %v", out, err)
	}
	if err := b.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	c := serve(t, options...) // it was closed, so nobody is asked
	if err := c.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if _, err := cutie(t, "submit", "jobs", "/etc/hostname", "--home", home); err == nil || !strings.Contains(err.Error(), "is its cache") {
		t.Errorf("the cache without its store: got %v", err)
	}
}

// Clients wait while the store is away, and then get their answers.
func TestAStoreMayBeAwayForAWhile(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	asked := make(chan struct{}, 1<<20)
	m := &objectstest.Memory{Fault: func(objectstest.Request) objectstest.Fault {
		if !away.Load() {
			return objectstest.None
		}
		asked <- struct{}{}
		return objectstest.Before
	}}
	d := serve(t, storeOptions(t, m)...)
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 300<<10), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"/etc/hostname", large} {
		away.Store(true)
		done := make(chan error)
		go func() {
			_, err := cutie(t, "submit", "jobs", file, "--url", d.url)
			done <- err
		}()
		for range 4 {
			<-asked
		}
		away.Store(false)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
