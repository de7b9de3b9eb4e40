package main_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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
	m := new(objectstest.Memory)
	surviveKillsStored(t, storeOptions(t, m), func() bool {
		for name := range m.Objects() {
			if strings.HasPrefix(name, "home/snapshot/") { // an image
				return true
			}
		}
		return false
	})
}

func TestAcknowledgedWorkInARealStoreSurvivesKills(t *testing.T) {
	t.Parallel()
	if !long.On() {
		t.Skip("CUTIE_LONG is not set: make long sets it")
	}
	surviveKillsStored(t, []string{"--store", "s3://bucket/home", "--store-endpoint", objectstest.Real(t)}, nil)
}

// storeImage is the option for some images in each round under load.
func storeImage() string { return strconv.Itoa(long.N(60000, 300000)) }

func surviveKillsStored(t *testing.T, options []string, enough func() bool) {
	options = append(options, "--takeover", "--store-image", storeImage())
	home := filepath.Join(t.TempDir(), "home")
	surviveKills(t, home, func(round int) []string {
		if round%2 == 1 {
			if err := os.RemoveAll(home); err != nil {
				t.Fatal(err)
			}
		}
		return options
	}, enough)
}

// A daemon whose home another one has taken over says by whom, and follows it. Without
// --takeover nothing is taken from an owner that lives.
func TestADaemonThatLostItsHomeSaysToWhom(t *testing.T) {
	t.Parallel()
	options := storeOptions(t, new(objectstest.Memory))
	a := serve(t, options...)
	if out, err := cutie(t, "submit", "jobs", "/etc/hostname", "--url", a.url); err != nil {
		t.Fatal(out, err)
	}
	home := filepath.Join(t.TempDir(), "b")
	b := serveHome(t, home, options...)
	process := func(d *daemon) string { return "process " + strconv.Itoa(d.cmd.Process.Pid) }
	if o, err := askOwner(b.node); err != nil || o.Role != "standby" || !strings.HasPrefix(o.Owner, process(a)) {
		t.Errorf("without permission: got %+v, %v", o, err)
	}
	if err := b.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	b = serveHome(t, home, append(options, "--takeover")...)
	for o, err := askOwner(a.node); err != nil || o.Role != "standby"; o, err = askOwner(a.node) {
		time.Sleep(askEvery)
	}
	if said := a.stderr.String(); !strings.Contains(said, "another owner: "+process(b)) {
		t.Errorf("the former owner said %s", said)
	}
	for _, d := range []*daemon{a, b} {
		if out, err := cutie(t, "list", "jobs", "--url", d.url); err != nil || !strings.Contains(out, "j000000000001") {
			t.Errorf("got %s, %v", out, err)
		}
	}
	if err := a.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := b.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	c := serve(t, options...) // it was closed, so nobody is asked
	if o, err := askOwner(c.node); err != nil || o.Role != "owner" {
		t.Errorf("got %+v, %v", o, err)
	}
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
