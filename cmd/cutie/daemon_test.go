package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// serve runs a daemon on a fresh home for the length of a test.
func serve(t *testing.T, args ...string) *processes.Daemon {
	t.Helper()
	return processes.Serve(t, filepath.Join(t.TempDir(), "home"), args...)
}

// environ is the environment without variables for tests and settings.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CUTIE_") })
}

// cutie runs a command to its end and returns what it printed.
func cutie(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.Command("cutie", args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "CUTIE_HOME=", "CUTIE_URL=")
	var e bytes.Buffer
	cmd.Stderr = &e
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, e.String())
	}
	return string(out), err
}

// run is cutie for a command that must do what it is told.
func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := cutie(t, args...)
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// says checks that a text has all these words in it.
func says(t testing.TB, got string, want ...string) {
	t.Helper()
	for _, want := range want {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q in it", got, want)
		}
	}
}

// A run of tests that is killed leaves no process behind.
func TestProcessesEndWithTheRunThatStartedThem(t *testing.T) {
	if os.Getenv("PROCESSES_RUN") != "" {
		sleeper := exec.Command("sleep", "600")
		must(t, processes.Start(sleeper))
		os.Stdout.WriteString("sleeper " + strconv.Itoa(sleeper.Process.Pid) + "\n")
		select {}
	}
	run := exec.Command(os.Args[0], "-test.run", "^TestProcessesEndWithTheRunThatStartedThem$")
	run.Env = append(os.Environ(), "PROCESSES_RUN=1")
	out, err := run.StdoutPipe()
	must(t, err)
	must(t, processes.Start(run))
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "sleeper "); ok {
			pid, _ = strconv.Atoi(text)
		}
	}
	if pid == 0 {
		t.Fatal("the run started no process")
	}
	must(t, run.Process.Kill())
	run.Wait()
	// Whoever inherits the process may be slow to wait for it: a zombie has ended.
	for end := time.Now().Add(30 * time.Second); !processEnded(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the process outlives the run")
		}
	}
}

// processEnded reports whether a process has ended. The init of a container may not collect it.
func processEnded(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// A daemon goes on when those who read its log and its output have left.
func TestADaemonOutlivesWhoReadsItsOutput(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	cmd := exec.Command("cutie", "serve", "--home", home, "--listen", "127.0.0.1:0")
	cmd.Dir = t.TempDir()
	out, err := cmd.StdoutPipe()
	must(t, err)
	log, err := cmd.StderrPipe()
	must(t, err)
	must(t, processes.Start(cmd))
	t.Cleanup(func() { cmd.Process.Kill() })
	url := ""
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == "open" {
			url = f[1]
		}
	}
	out.Close()
	log.Close()
	record := filepath.Join(home, "log/web-access.txt")
	eventually(t, "an access log", func() bool { // it is written once in a second
		send(t, http.DefaultClient, "GET", url+"livez", "")
		_, err := os.Stat(record)
		return err == nil
	})
	must(t, os.Rename(record, record+".moved"))
	must(t, cmd.Process.Signal(syscall.SIGHUP))
	eventually(t, "a new access log, of which a line was logged", func() bool {
		_, err := os.Stat(record)
		return err == nil
	})
	send(t, http.DefaultClient, "GET", url+"livez", "")
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	must(t, cmd.Wait()) // it has logged more lines
}

// SIGHUP ends no daemon, neither one that begins nor one that stops.
func TestSIGHUPEndsNoDaemon(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	done := make(chan struct{})
	for range 3 {
		d := processes.Serve(t, home)
		process := d.Cmd.Process
		go func() {
			defer func() { done <- struct{}{} }()
			for process.Signal(syscall.SIGHUP) == nil { // until it has ended
			}
		}()
		err := d.Stop(syscall.SIGTERM)
		<-done
		must(t, err)
	}
}

// A daemon that cannot serve leaves nothing behind, and one that is told to stop
// says so before it waits for anybody.
func TestADaemonSaysWhatItDoesBeforeItDoesIt(t *testing.T) {
	t.Parallel()
	d := serve(t, "--log-level", "info")
	home := filepath.Join(t.TempDir(), "second")
	_, err := cutie(t, "serve", "--home", home, "--listen", strings.Trim(strings.TrimPrefix(d.URL, "http:"), "/"))
	if err == nil || !strings.Contains(err.Error(), "port in use") || !strings.Contains(err.Error(), "hint: --listen 127.0.0.1:0 takes a free port") {
		t.Errorf("got %v, want the port in use", err)
	}
	if _, err := os.Lstat(home); !os.IsNotExist(err) {
		t.Errorf("a home was made all the same: %v", err)
	}

	// A submission in progress delays the stop.
	body, more := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		r, err := http.NewRequest("POST", d.URL+"content/jobs", body)
		if err == nil {
			r.Header.Set("Expect", "100-continue") // so that the body is read when the daemon wants it
			var resp *http.Response
			if resp, err = (&http.Transport{ExpectContinueTimeout: time.Minute}).RoundTrip(r); err == nil {
				resp.Body.Close()
			}
		}
		sent <- err
	}()
	io.WriteString(more, "x")
	must(t, d.Cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "stopping in the log", func() bool { return strings.Contains(d.Stderr.String(), `"message":"stopping"`) })
	if strings.Contains(d.Stderr.String(), "requests ended") {
		t.Error("the daemon did not wait for the submission")
	}
	more.Close()
	if err := errors.Join(<-sent, d.Ended()); err != nil {
		t.Error(err)
	}
}

// A daemon under a service manager says when it is ready, that it lives, that it reloads,
// and that it stops.
func TestAServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	must(t, err)
	defer manager.Close()
	cmd := exec.Command("cutie", "serve", "--home", filepath.Join(dir, "home"), "--listen", "127.0.0.1:0", "--log-level", "warn")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "notify"), "WATCHDOG_USEC=3000000")
	must(t, processes.Start(cmd))
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	hear := func(want string) {
		t.Helper()
		buf := make([]byte, 4096)
		for {
			manager.SetReadDeadline(time.Now().Add(processes.Limit))
			n, err := manager.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %s: %v", want, err)
			}
			if strings.HasPrefix(string(buf[:n]), want) {
				return
			}
		}
	}
	hear("READY=1\nSTATUS=serving http://127.0.0.1:")
	hear("WATCHDOG=1")
	must(t, cmd.Process.Signal(syscall.SIGHUP))
	hear("RELOADING=1\nMONOTONIC_USEC=")
	hear("READY=1")
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	hear("STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestSettingsAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "cutie.toml")
	write := func(text string) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(text), 0o666))
	}
	write("max-waits = 5\nmax-conns = 20\n")
	d := processes.Serve(t, filepath.Join(dir, "home"), "--config", file, "--log-keep", "3")
	// hangup sends SIGHUP, and returns what the daemon logs until the last word of it.
	hangup := func(last string) string {
		t.Helper()
		before := len(d.Stderr.String())
		must(t, d.Cmd.Process.Signal(syscall.SIGHUP))
		for end := time.Now().Add(processes.Limit); time.Now().Before(end); time.Sleep(processes.Again) {
			if text := d.Stderr.String()[before:]; strings.Contains(text, last) {
				return text
			}
		}
		t.Fatalf("got %s, want %q", d.Stderr.String()[before:], last)
		return ""
	}
	log := func() string {
		t.Helper()
		before := len(d.Stderr.String())
		resp, err := http.Get(d.URL + "livez")
		must(t, err)
		resp.Body.Close()
		if got := hangup("access log reopened"); len(got) == 0 {
			t.Fatal("nothing is logged")
		}
		return d.Stderr.String()[before:]
	}
	const done, stay = "settings read again", "settings of before stay in force"
	if got := hangup(done); strings.Contains(got, "need a restart") {
		t.Errorf("got %s, want no changes", got)
	}
	if got := log(); strings.Contains(got, "/livez") {
		t.Errorf("got %s, want no lines of requests", got)
	}
	write("max-waits = 5\nmax-conns = 30\nlog-level = \"debug\"\nlog-keep = 9\nkeep = \"5h\"\nrobots = true\n")
	says(t, hangup(done), `"settings":["max-conns","robots"]`)
	says(t, log(), "/livez")
	about := d.Send(t, "GET", ".well-known/resourcesync/jobs/replica/about.json", "")
	says(t, about, `"keep": 18000,`)
	for _, wrong := range []string{"max-waits = 0", "keep-size = \"200%\"", "allow-fetch = [\"a b\"]", "log-level = \"loud\"", "what = 1", "x", "trace-ratio = \"7\""} {
		write(wrong + "\n")
		hangup(stay)
	}
	says(t, log(), "/livez")
	write("max-conns = 20\nlog-level = \"info\"\n")
	if got := hangup(done); strings.Contains(got, "need a restart") {
		t.Errorf("got %s, want all as at the start", got)
	}
	d.End(t)
}

// memoryLimit is the most private memory of the daemon in these tests. It needs about
// 200 MiB itself: garbage is collected in earnest only above that.
const memoryLimit = 640 << 20

// An attack is many requests that never end, each with a large part of itself sent.
type attack struct {
	head string                  // of each request
	body func(w io.Writer) error // does not end the request
}

// A daemon under a limit of memory outlives requests that are to be kept in memory,
// and answers others meanwhile.
func TestMemoryForRequestsHasALimit(t *testing.T) {
	if long.Race() {
		t.Skip("the race detector has memory of its own")
	}
	const mib = 1 << 20
	octets := strings.Repeat("x", 64<<10)
	send := func(w io.Writer, n int) error {
		for ; n > 0; n -= len(octets) {
			if _, err := io.WriteString(w, octets[:min(n, len(octets))]); err != nil {
				return err
			}
		}
		return nil
	}
	rdm := "POST /rdm/incoming HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-rdm\r\nContent-Length: 20000000\r\n\r\n"
	form := "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 20000000\r\n\r\n"
	for name, a := range map[string]attack{
		"header of a message": {head: rdm, body: func(w io.Writer) error {
			io.WriteString(w, "@RDMHEADER { -\nRDM-Version{15000000}:\t")
			return send(w, 14*mib)
		}},
		"object of a submission": {head: rdm, body: func(w io.Writer) error {
			io.WriteString(w, "@RDMHEADER { -\nRDM-Version{3}:\t1.0\nRDM-Type{11}:\trd-response\nCatalog-Service-ID{25}:\tx-catalog://h:80/attacked\n}\n"+
				"@DOCUMENT { http://example.org/\nPayload{15000000}:\t")
			return send(w, 14*mib)
		}},
		"header of a part": {head: fmt.Sprintf(form, "/content/attacked"), body: func(w io.Writer) error {
			io.WriteString(w, "--b\r\nContent-Disposition: form-data; name=file\r\nX: ")
			return send(w, 9*mib)
		}},
		"header of a part for UWS": {head: fmt.Sprintf(form, "/uws/attacked/async"), body: func(w io.Writer) error {
			io.WriteString(w, "--b\r\nContent-Disposition: form-data; name=a\r\nX: ")
			return send(w, 9*mib)
		}},
		"many small files": {head: fmt.Sprintf(form, "/content/attacked"), body: func(w io.Writer) error {
			for range 60 {
				io.WriteString(w, "--b\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n")
				if err := send(w, 64<<10); err != nil {
					return err
				}
				io.WriteString(w, "\r\n")
			}
			return nil
		}},
	} {
		if !long.On() && slices.Contains([]string{"object of a submission", "header of a part for UWS"}, name) {
			continue // a short test has others with the same form of body
		}
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			d := processes.Serve(t, home, "--anonymous", "read,submit")
			run(t, "--home", home, "create", "attacked")
			limit := unix.Rlimit{Cur: memoryLimit, Max: memoryLimit}
			must(t, unix.Prlimit(d.Cmd.Process.Pid, unix.RLIMIT_DATA, &limit, nil))
			ctx, end := context.WithCancel(t.Context())
			var all, sent sync.WaitGroup
			for i := range 130 {
				sent.Add(1)
				all.Go(func() { besiege(ctx, t, d, i%13, a.head, a.body, sent.Done) })
			}
			sent.Wait()
			if err := answered(d.URL + "state/attacked"); err != nil {
				t.Errorf("meanwhile: %v; %s", err, d.Stderr.String())
			}
			end()
			all.Wait()
			if err := answered(d.URL + "state/attacked"); err != nil {
				t.Errorf("afterwards: %v; %s", err, d.Stderr.String())
			}
		})
	}
}

// besiege sends a request from a loopback address, and keeps it open until ctx ends.
func besiege(ctx context.Context, t *testing.T, d *processes.Daemon, address int, head string, body func(io.Writer) error, sent func()) {
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+address))}
	c, err := (&net.Dialer{LocalAddr: from}).Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(d.URL, "http://"), "/"))
	if err != nil {
		t.Error(err)
		sent()
		return
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(processes.Limit))
	w := bufio.NewWriter(c)
	w.WriteString(head)
	_ = body(w) // the daemon may refuse the rest
	_ = w.Flush()
	sent()
	<-ctx.Done()
}

// answered sends a request of a user who does no harm.
func answered(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
