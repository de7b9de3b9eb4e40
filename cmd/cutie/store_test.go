package main_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs/objects/objectstest"
	"cutie/testdata/long"
	"cutie/testdata/processes"
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
			must(t, os.RemoveAll(home))
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
	run(t, "submit", "jobs", "/etc/hostname", "--url", a.URL)
	home := filepath.Join(t.TempDir(), "b")
	b := processes.Serve(t, home, options...)
	process := func(d *processes.Daemon) string { return "process " + strconv.Itoa(d.Cmd.Process.Pid) }
	if o, err := askOwner(b.Node); err != nil || o.Role != "standby" || !strings.HasPrefix(o.Owner, process(a)) {
		t.Errorf("without permission: got %+v, %v", o, err)
	}
	b.End(t)
	b = processes.Serve(t, home, append(options, "--takeover")...)
	for o, err := askOwner(a.Node); err != nil || o.Role != "standby"; o, err = askOwner(a.Node) {
		time.Sleep(processes.Again)
	}
	says(t, a.Stderr.String(), "another owner: "+process(b))
	for _, d := range []*processes.Daemon{a, b} {
		if out, err := cutie(t, "list", "jobs", "--url", d.URL); err != nil || !strings.Contains(out, "j000000000001") {
			t.Errorf("got %s, %v", out, err)
		}
	}
	a.End(t)
	b.End(t)
	c := serve(t, options...) // it was closed, so nobody is asked
	if o, err := askOwner(c.Node); err != nil || o.Role != "owner" {
		t.Errorf("got %+v, %v", o, err)
	}
	c.End(t)
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
	must(t, os.WriteFile(large, make([]byte, 300<<10), 0o666))
	for _, file := range []string{"/etc/hostname", large} {
		away.Store(true)
		done := make(chan error)
		go func() {
			_, err := cutie(t, "submit", "jobs", file, "--url", d.URL)
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
	d.End(t)
}

// The credentials of an owner expire at work. It says so, refuses changes, and goes on by
// itself with valid ones; what it acknowledged is there. The daemon asks for half a minute
// before it refuses.
func TestAnOwnerOutlivesItsCredentials(t *testing.T) {
	t.Parallel()
	if !long.On() {
		t.Skip("takes half a minute: CUTIE_LONG=1")
	}
	var expired atomic.Bool
	store := objectstest.Handler(new(objectstest.Memory))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !expired.Load() {
			store.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>ExpiredToken</Code><Message>as the store says it</Message></Error>")
	}))
	defer srv.Close()
	d, err := processes.Begin(t.TempDir(), filepath.Join(t.TempDir(), "home"), "--store", "s3://bucket/home", "--store-endpoint", srv.URL)
	must(t, err)
	defer d.Kill()
	submit := func() (status int, after string) {
		t.Helper()
		resp, _ := send(t, http.DefaultClient, "POST", d.Node+"content/jobs", "payload", "Content-Type", "text/plain")
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	get := func(path string) (status int, text string) {
		t.Helper()
		resp, text, err := processes.Request(http.DefaultClient, "GET", d.Node+path, "")
		if err != nil {
			return 0, err.Error() // it opens the home again
		}
		return resp.StatusCode, text
	}
	if status, _ := submit(); status != http.StatusCreated {
		t.Fatalf("before: %d", status)
	}
	expired.Store(true)
	if status, after := submit(); status != http.StatusServiceUnavailable || after == "" {
		t.Errorf("a change with expired credentials: %d, Retry-After %q", status, after)
	}
	if status, text := get("readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "denies access") {
		t.Errorf("readyz: %d %s", status, text)
	}
	if status, _ := get("state/jobs"); status != http.StatusOK {
		t.Errorf("reading: %d", status)
	}
	if _, text := get("metrics"); !strings.Contains(text, "\ncutie_store_failing 1\n") || !strings.Contains(text, "\ncutie_storage_failed 0\n") {
		t.Error("the metrics do not tell")
	}
	expired.Store(false)
	for end := time.Now().Add(processes.Limit); ; time.Sleep(processes.Again) {
		if status, _ := get("readyz"); status == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not go on")
		}
	}
	if status, _ := submit(); status != http.StatusCreated {
		t.Errorf("after: %d", status)
	}
	if _, text := get("state/jobs?t=json&limit=0"); !strings.Contains(text, `"numPendingJobs":2`) {
		t.Errorf("got %s, want the two acknowledged", text)
	}
	d.End(t)
}

// cutie store tells how a home in a store is, and names what is damaged there.
func TestAStoreIsLookedAt(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	options := storeOptions(t, m)
	endpoint := options[len(options)-1]
	look := func(word string) (string, int) {
		t.Helper()
		out, err := cutie(t, "store", word, "s3://bucket/home", "--store-endpoint", endpoint)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return out, exit.ExitCode()
		}
		if err != nil {
			t.Fatal(out, err)
		}
		return out, 0
	}
	if out, code := look("status"); code != 3 {
		t.Errorf("without a home: got %d, %s", code, out)
	}
	d := serve(t, append(options, "--store-image", "1000")...)
	numbered := func(n string) bool { return m.Objects()["home/snapshot/0000000000000000000"+n] != nil }
	d.Send(t, "POST", "content/jobs", strings.Repeat("large ", 50<<10))
	eventually(t, "a second image", func() bool {
		d.Send(t, "POST", "content/jobs", "small")
		return numbered("2")
	})
	d.End(t)
	out, code := look("status")
	for _, want := range []string{"owner      process ", "which has closed it", "journal    batches ", "image      ", "job files "} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("status: got %d, %s, want %q", code, out, want)
		}
	}
	var first int
	if at := strings.Index(out, "batches "); at < 0 {
		t.Fatal("no batches in", out)
	} else if _, err := fmt.Sscanf(out[at:], "batches %d", &first); err != nil {
		t.Fatal(err)
	}
	if out, code = look("check"); code != 0 || !strings.Contains(out, " 0 faults\n") {
		t.Errorf("check: got %d, %s", code, out)
	}
	whole := m.Objects()
	for name, data := range whole {
		if name < "home/" {
			continue
		}
		// Batches before the beginning of the journal are of no use, and go at the next image.
		if n, of := strings.CutPrefix(name, "home/journal/"); of && n < fmt.Sprintf("%020d", first) && !claimOf(name, m.Objects()) {
			continue
		}
		m.Set(name, append(data[:len(data)/2:len(data)/2], make([]byte, (len(data)+1)/2)...))
		out, code := look("check")
		m.Set(name, data)
		if strings.Contains(name, "journal/") && code == 1 {
			continue // the end of the journal cannot be told
		}
		if code != 8 && !claimOf(name, whole) || code == 8 && !strings.Contains(out, strings.TrimPrefix(name, "home/")) {
			t.Errorf("%s is damaged: got %d, %s", name, code, out)
		}
	}
}

// claimOf reports whether an object is a claim that is kept for no more than its number.
func claimOf(name string, all map[string][]byte) bool {
	last := ""
	for other := range all {
		if strings.HasPrefix(other, "home/journal/") && other > name && (last == "" || other < last) {
			last = other
		}
	}
	return name == "home/journal/00000000000000000001" && last > "home/journal/00000000000000000002"
}

// lookedAt is all that a daemon shows of the queue jobs: states with results, documents,
// and the dumps it has published.
func lookedAt(t *testing.T, d *processes.Daemon) map[string]string {
	t.Helper()
	all := map[string]string{}
	link := regexp.MustCompile(`<loc>([^<]*)</loc>`)
	for paths := documents; len(paths) > 0; paths = paths[1:] {
		path := paths[0]
		if _, known := all[path]; known {
			continue
		}
		resp, err := http.Get(d.URL + path)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[path] = resp.Status + "\n" + string(body) // a closed list names jobs that are gone
		for _, m := range link.FindAllStringSubmatch(all[path], -1) {
			if to, ok := strings.CutPrefix(m[1], d.URL); ok && strings.HasPrefix(path, published) {
				paths = append(paths, to)
			}
		}
	}
	return all
}

// A home in a directory is moved into a store and served there, and moved back; each time
// it has the same jobs and results, and has published the same, and goes on.
func TestAHomeIsMovedIntoAStoreAndBackByCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	must(t, os.WriteFile(large, []byte(strings.Repeat("large ", 50<<10)), 0o666))
	store := storeOptions(t, new(objectstest.Memory))
	endpoint := store[len(store)-2:]
	move := func(args ...string) string {
		t.Helper()
		return run(t, append(append([]string{"store"}, args...), "--store-endpoint", store[3])...)
	}
	home, back := filepath.Join(dir, "home"), filepath.Join(dir, "back")
	var want map[string]string
	var again []string // the address of the first daemon
	// round serves the home, compares it with the round before, and works. Lists closed in the
	// store after the last image are open again on a fresh machine, so none is closed there.
	round := func(what, home string, options ...string) {
		t.Helper()
		d := processes.Serve(t, home, slices.Concat(options, again)...)
		again = []string{"--listen", strings.Trim(strings.TrimPrefix(d.URL, "http:"), "/")}
		if want != nil {
			got := lookedAt(t, d)
			for path := range want {
				if got[path] != want[path] {
					t.Errorf("%s: %s: %s", what, path, difference([]byte(got[path]), []byte(want[path])))
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s: %d documents, want %d", what, len(got), len(want))
			}
		}
		run(t, "submit", "jobs", "/etc/hostname", large, "--url", d.URL)
		run(t, "work", "jobs", "--drain", "--url", d.URL, "--", "sh", "-c", "echo the result of "+what)
		if len(options) == 0 {
			run(t, "publish", "--now", "--url", d.URL)
		}
		run(t, "submit", "jobs", "/etc/hostname", "--url", d.URL)
		want = lookedAt(t, d)
		if out, err := cutie(t, "store", "push", home, "s3://bucket/second", endpoint[0], endpoint[1]); err == nil {
			t.Errorf("%s: a home in use was pushed: %s", what, out)
		}
		d.End(t)
	}
	round("in the directory", home)
	says(t, move("push", home, "s3://bucket/home"), "which has closed it")
	round("in the store", home, store...)
	round("in the store, by a fresh machine", filepath.Join(dir, "cache"), store...)
	says(t, move("check", "s3://bucket/home"), " 0 faults")
	says(t, move("pull", "s3://bucket/home", back), "where the home has moved")
	_, err := processes.Begin(t.TempDir(), filepath.Join(dir, "cache"), store...)
	if err == nil || !strings.Contains(err.Error(), "has moved from the object store to the directory "+back) {
		t.Errorf("a daemon on the store that the home has left: got %v", err)
	}
	round("in the directory again", back)
	if out, err := cutie(t, "check", back); err != nil {
		t.Errorf("check of the directory: %s, %v", out, err)
	}
	move("push", back, "s3://bucket/home")
	round("in the store again", back, store...)
}

// A daemon does not begin with a store that it cannot use: it says why, and the way out.
func TestAStoreOfNoUseIsRefused(t *testing.T) {
	t.Parallel()
	lists := func(r *http.Request) bool { return r.Method == "GET" && r.URL.Query().Get("list-type") != "" }
	always := func(*http.Request) bool { return true }
	method := func(name string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == name && !lists(r) }
	}
	const rights = "hint: the credentials of AWS_ACCESS_KEY_ID"
	for name, c := range map[string]struct {
		fails        func(*http.Request) bool // nil: none does, and the store replaces what is there
		status       int
		code         string
		what, wayOut string
	}{
		"unknown key":       {always, 403, "InvalidAccessKeyId", "write an object: ", rights},
		"wrong secret":      {always, 403, "SignatureDoesNotMatch", "write an object: ", rights},
		"expired":           {always, 400, "ExpiredToken", "write an object: ", rights},
		"no right to put":   {method("PUT"), 403, "AccessDenied", "write an object: ", rights},
		"no right to get":   {method("GET"), 403, "AccessDenied", "read an object: ", rights},
		"no right to list":  {lists, 403, "AccessDenied", "list objects: ", rights},
		"no right to erase": {method("DELETE"), 403, "AccessDenied", "delete an object: ", rights},
		"no bucket":         {always, 404, "NoSuchBucket", "no such bucket", "hint: make the bucket first"},
		"another clock":     {always, 403, "RequestTimeTooSkewed", "the clock of this machine", "hint: run a time service"},
		"another region":    {always, 400, "AuthorizationHeaderMalformed", "another region", "hint: AWS_REGION is the region"},
		"unconditional":     {nil, 0, "", "does not honour conditional writes", "hint: cutie needs a store with conditional writes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &objectstest.Memory{}
			if c.fails == nil {
				m.Fault = func(objectstest.Request) objectstest.Fault { return objectstest.Lax }
			}
			store := objectstest.Handler(m)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.fails == nil || !c.fails(r) {
					store.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(c.status)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as the store says it</Message></Error>", c.code)
			}))
			defer srv.Close()
			refusesStore(t, srv.URL, c.what, c.wayOut)
			for name := range m.Objects() {
				if strings.HasPrefix(name, "home/journal/") {
					t.Errorf("there is %s", name)
				}
			}
		})
	}
}

// A daemon whose store is not reached says how it is reached.
func TestAStoreNotReachedIsTold(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotImplemented)
		fmt.Fprint(w, "<!DOCTYPE html>\n<html><body>another service</body></html>")
	})
	plain, secure, gone := httptest.NewServer(page), httptest.NewUnstartedServer(page), httptest.NewServer(page)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused certificates
	secure.StartTLS()
	gone.Close()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	const wayOut = "hint: --store-endpoint, or AWS_ENDPOINT_URL, "
	for name, c := range map[string]struct{ endpoint, what, wayOut string }{
		"another service":       {plain.URL, "not that of a store with the S3 API: Not Implemented", wayOut + "is the URL"},
		"nobody":                {gone.URL, "connection refused", wayOut + "is the URL"},
		"no TLS":                {strings.Replace(plain.URL, "http:", "https:", 1), "HTTP response to HTTPS client", wayOut + "is the URL"},
		"a certificate unknown": {secure.URL, "certificate", wayOut + "has a name that is in the certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusesStore(t, c.endpoint, c.what, c.wayOut)
		})
	}
}

// A daemon does not begin with a home that is damaged in its store: it names the object, and
// the way out.
func TestADamagedStoreIsToldWithAWayOut(t *testing.T) {
	t.Parallel()
	m := &objectstest.Memory{}
	srv := httptest.NewServer(objectstest.Handler(m))
	defer srv.Close()
	const damaged = "journal/00000000000000000001"
	m.Set("home/"+damaged, []byte("no batch"))
	refusesStore(t, srv.URL, damaged+" ", "hint: cutie store check ")
}

// refusesStore starts a daemon with a store, which it must refuse in these words.
func refusesStore(t *testing.T, endpoint string, words ...string) {
	t.Helper()
	d, err := processes.Begin(t.TempDir(), filepath.Join(t.TempDir(), "home"), "--store", "s3://bucket/home", "--store-endpoint", endpoint)
	if err == nil {
		d.Kill()
		t.Fatal("the daemon serves")
	}
	for _, want := range words {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
