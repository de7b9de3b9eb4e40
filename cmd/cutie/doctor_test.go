package main_test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cutie/cmd/cutie/doctor"
)

// The doctor sees where the references of a running daemon lead, and reads figures that
// the daemon has.
func TestDoctorOfADaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := serveHome(t, filepath.Join(dir, "home"))
	out, err := cutie(t, "doctor", "--home", filepath.Join(dir, "home"))
	if err != nil || !strings.Contains(out, "served by process") || !strings.Contains(out, "lead to "+d.url) || !strings.Contains(out, "ready\n") {
		t.Errorf("got %v\n%s", err, out)
	}
	// Wrong settings are a fault beside others.
	bad := filepath.Join(dir, "bad.toml")
	if err := os.WriteFile(bad, []byte("max-conns = 'many'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err = cutie(t, "doctor", "--home", filepath.Join(dir, "home"), "--config", bad); err == nil ||
		!strings.Contains(out, "fault: settings: "+bad+":1: --max-conns") || !strings.Contains(out, "served by process") {
		t.Errorf("got %v\n%s", err, out)
	}
	_, text := send(t, http.DefaultClient, "GET", d.url+"metrics", "")
	for _, name := range doctor.Figures() {
		if !strings.Contains(text, "# TYPE "+name+" ") && !strings.Contains(name, "callback") && !strings.Contains(name, "mirror") && !strings.Contains(name, "image") && !strings.Contains(name, "_store_") {
			t.Errorf("the daemon has no %s", name)
		}
	}

	// A job whose payload is lost is put on hold when it is asked for; others may be, too.
	for range 2 {
		send(t, http.DefaultClient, "POST", d.url+"content/jobs", "hello")
	}
	send(t, http.DefaultClient, "POST", d.url+"hold/jobs/j000000000002", "")
	payload := filepath.Join(dir, "home", "queues", "jobs", "payload", "j000000000001")
	waitFor(t, "the payload has its file", func() bool { return os.Remove(payload) == nil })
	send(t, http.DefaultClient, "POST", d.url+"consume/jobs", "")
	if out, err = cutie(t, "doctor", "--home", filepath.Join(dir, "home")); err == nil ||
		!strings.Contains(out, "jobs: 1 jobs are on hold without a good payload, first j000000000001: payload of j000000000001: no such file") ||
		!strings.Contains(out, "cutie release jobs JOB") {
		t.Errorf("got %v\n%s", err, out)
	}

	// Another service answers at the base URI, or nobody.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	for base, want := range map[string]string{d.url: "another service", "http://" + ln.Addr().String() + "/": "refused"} {
		home := filepath.Join(t.TempDir(), "home")
		serveHome(t, home, "--base-uri", base)
		var stdout strings.Builder
		cmd := exec.Command("cutie", "doctor", "--home", home)
		cmd.Stdout = &stdout
		if err := cmd.Run(); err == nil || !strings.Contains(stdout.String(), want) || !strings.Contains(stdout.String(), "cure: --base-uri") {
			t.Errorf("got %v and, without %q,\n%s", err, want, stdout.String())
		}
	}
}
