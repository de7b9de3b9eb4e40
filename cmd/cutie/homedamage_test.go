package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cutie/testdata/long"
)

// The experiment: each way to damage the files of a home that other experiments leave out,
// those of rooms above the engine among them. check tells of it and changes nothing, the
// daemon serves what is so, and each hint leads to a command that heals.

// homeDamages damage a file; other is another file of its kind.
var homeDamages = []struct {
	name string
	do   func(b []byte) []byte // nil: something else
}{
	{"flip", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
	{"zero", func(b []byte) []byte { at := len(b) / 2 &^ 511; clear(b[at:min(at+512, len(b))]); return b }},
	{"cut", func(b []byte) []byte { return b[:len(b)/2] }},
	{"empty", func([]byte) []byte { return nil }},
	{"double", func(b []byte) []byte { return append(b, b[len(b)-min(len(b), max(len(b)/3, 1)):]...) }},
	{"delete", nil},
	{"swap", nil},
}

// A damagedHome is a home with files of all kinds, to be copied.
type damagedHome struct {
	dir, receiver string
	want          map[string]string
}

func (h *damagedHome) args() []string {
	return []string{"--allow-fetch", "127.0.0.1", "--listen", "127.0.0.1:0"}
}

// kinds are patterns below the home.
var homeKinds = []string{"callback-urls/*", "hub/subscriptions", "log/index/queues/*/culled", "log/index/queues/*/c0*",
	"cutie-info.txt", "0=cutie_0.3", "cutie-reserve", "cutie-lock", "log/web-access.txt"}

// newDamagedHome makes a home with two queues, whose receivers fail, so that changes wait.
func newDamagedHome(t *testing.T) *damagedHome {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if challenge := r.FormValue("hub.challenge"); r.Method == http.MethodGet {
			io.WriteString(w, challenge)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(receiver.Close)
	h := &damagedHome{dir: filepath.Join(t.TempDir(), "home"), receiver: receiver.URL}
	d := serveHome(t, h.dir, h.args()...)
	const form = "application/x-www-form-urlencoded"
	for _, q := range []string{"a", "b"} {
		d.send(t, "PUT", "state/"+q, url.Values{"callback": {h.receiver + "/" + q}, "description": {"of " + q}}.Encode(), "Content-Type", form)
		d.send(t, "POST", "hub", url.Values{"hub.mode": {"subscribe"}, "hub.callback": {h.receiver + "/hub/" + q},
			"hub.topic": {d.url + ".well-known/resourcesync/" + q + "/pending/change-notification.xml"}}.Encode(), "Content-Type", form)
		for n := range 6 {
			d.send(t, "POST", "content/"+q, strings.Repeat(fmt.Sprint("job ", n, " of ", q, "\n"), n+1), "Content-Type", "text/plain")
		}
		d.send(t, "POST", "consume/"+q, "", "Content-Type", form)
		d.send(t, "POST", "consume/"+q, "", "Content-Type", form)
		run(t, "cull", q, "--size", "1", "--age", "0", "--home", h.dir)
	}
	eventually(t, "subscriptions", func() bool {
		text, err := os.ReadFile(filepath.Join(h.dir, "hub/subscriptions"))
		return err == nil && bytes.Count(text, []byte("expires")) == 2
	})
	d.end(t)
	packs(t, h)
	h.want = h.facts(t, h.dir)
	return h
}

// packs makes enough waiting jobs for packs, in both queues: they can be swapped. A short
// test has them in one queue, for homes are copied with all their jobs.
func packs(t *testing.T, h *damagedHome) {
	t.Helper()
	d := serveHome(t, h.dir, h.args()...)
	for _, q := range []string{"a", "a", "a", "b", "b", "b"}[:long.N(3, 6)] { // packs are of full pages
		var body bytes.Buffer
		for n := range 400 {
			fmt.Fprintf(&body, "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%d\"\r\n\r\nbulk %d of %s\r\n", n, n, q)
		}
		body.WriteString("--x--\r\n")
		d.send(t, "POST", "content/"+q, body.String(), "Content-Type", "multipart/form-data; boundary=x")
	}
	d.end(t)
}

// facts are the queues and jobs of a copy of the home, as a daemon serves them.
func (h *damagedHome) facts(t *testing.T, dir string) map[string]string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "home")
	must(t, copySparse(to, dir))
	d := serveHome(t, to, h.args()...)
	defer d.stop(syscall.SIGTERM)
	return factsOf(t, d)
}

func factsOf(t *testing.T, d *daemon) map[string]string {
	t.Helper()
	facts := map[string]string{}
	get := func(path string) string {
		resp, text := send(t, http.DefaultClient, "GET", d.url+path, "")
		return resp.Status + " " + strings.ReplaceAll(text, d.url, "")
	}
	for _, q := range []string{"a", "b"} {
		facts[q] = get("state/" + q + "?t=json&limit=1000")
		for n := 1; n <= 8; n++ {
			name := fmt.Sprintf("%s/j%012d", q, n)
			facts[name] = get("state/" + name + "?t=json")
			facts[name+" payload"] = fmt.Sprintf("%x", sha256.Sum256([]byte(get("queues/"+q+"/payload/"+filepath.Base(name)))))
		}
	}
	return facts
}

// copySparse copies a home; the prepared octets of its journal take no space in the copy,
// where the system knows how.
func copySparse(to, from string) error {
	if exec.Command("cp", "-R", "--sparse=always", from, to).Run() == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from)))
}

func TestDamageToTheFilesBesideTheEngine(t *testing.T) {
	h := newDamagedHome(t)
	for i, kind := range homeKinds {
		files, err := filepath.Glob(filepath.Join(h.dir, kind))
		if err != nil || len(files) == 0 {
			t.Errorf("no %s: %v", kind, err)
			continue
		}
		for k, damage := range homeDamages {
			if damage.name == "swap" && len(files) < 2 || (i+k)%long.N(len(homeDamages), 2) != 0 { // a short test damages each kind once
				continue
			}
			t.Run(strings.ReplaceAll(kind, "/", "-")+"/"+damage.name, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "home")
				must(t, copySparse(dir, h.dir))
				file := func(n int) string { return filepath.Join(dir, strings.TrimPrefix(files[n], h.dir)) }
				switch damage.name {
				case "delete":
					err = os.Remove(file(0))
				case "swap":
					err = exchange(file(0), file(1))
				default:
					var b []byte
					if b, err = os.ReadFile(file(0)); err == nil && len(b) > 0 {
						err = os.WriteFile(file(0), damage.do(b), 0o600)
					}
				}
				must(t, err)
				h.examine(t, dir)
			})
		}
	}
}

func exchange(a, b string) error {
	for _, p := range [][2]string{{a, a + "~"}, {b, a}, {a + "~", b}} {
		if err := os.Rename(p[0], p[1]); err != nil {
			return err
		}
	}
	return nil
}

// examine checks a damaged home, serves a copy of it, and heals it by the hints.
func (h *damagedHome) examine(t *testing.T, dir string) {
	before := stamps(t, dir)
	told := h.check(t, dir)
	after := stamps(t, dir)
	for _, own := range []string{dir, filepath.Join(dir, "log"), filepath.Join(dir, "cutie-lock"), filepath.Join(dir, "log/cmd-access.txt")} {
		delete(before, own)
		delete(after, own)
	}
	if !maps.Equal(before, after) {
		t.Error("check alone has changed files")
	}
	served := filepath.Join(t.TempDir(), "home")
	must(t, copySparse(served, dir))
	d, err := start(t.TempDir(), served, h.args()...)
	switch {
	case err == nil:
		if differs := differences(h.want, factsOf(t, d)); len(differs) > 0 && told == "" {
			t.Errorf("%q differ, and check finds nothing", differs)
		}
		if err := d.stop(syscall.SIGTERM); err != nil {
			t.Errorf("the daemon ended with %v: %s", err, d.stderr.String())
		}
	case told == "":
		t.Errorf("the daemon refuses a home that check finds good: %v", err)
	}
	for n := 0; told != ""; n++ {
		if n == 3 {
			t.Fatalf("not healed: %s", told)
		}
		h.follow(t, dir, told)
		told = h.check(t, dir)
	}
	if differs := differences(h.want, h.facts(t, dir)); len(differs) > 0 {
		t.Errorf("after the cure %q differ", differs)
	}
}

// check returns what check says of a home, "" if it is content.
func (h *damagedHome) check(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("cutie", "check", dir).CombinedOutput()
	if err == nil {
		return ""
	}
	return string(out)
}

var hinted = regexp.MustCompile(`hint: cutie (set QUEUE|serve|check [-a-z ]+)`)

// follow does what a hint says.
func (h *damagedHome) follow(t *testing.T, dir, told string) {
	t.Helper()
	m := hinted.FindStringSubmatch(told)
	if m == nil {
		t.Fatalf("no hint leads on: %s", told)
	}
	switch words := strings.Fields(m[1]); words[0] {
	case "set":
		for _, q := range []string{"a", "b"} {
			run(t, "set", q, "--home", dir, "--callback", h.receiver+"/"+q)
		}
	case "serve":
		must(t, serveHome(t, dir, h.args()...).stop(syscall.SIGTERM))
	default:
		if out, err := cutie(t, append(words, dir)...); err != nil {
			t.Logf("%q: %v: %s", words, err, out) // another hint may follow
		}
	}
}

// differences are the names of facts that differ, but for the numbers of events and times
// of properties set again.
func differences(want, got map[string]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if steadyFacts(want[name]) != steadyFacts(got[name]) {
			names = append(names, name)
		}
	}
	return names
}

func steadyFacts(text string) string {
	status, body, _ := strings.Cut(text, " {")
	var facts map[string]any
	if json.Unmarshal([]byte("{"+body), &facts) != nil {
		return text
	}
	for _, name := range []string{"lastEvent", "sequence"} {
		delete(facts, name)
	}
	return fmt.Sprint(status, facts)
}

// TestADamagedPayloadIsNoticed flips a bit of stored payloads of 2 MiB, which the daemon hands
// out unread. The answers have the digests of the submission, and clients verify them: get
// and peek fail.
func TestADamagedPayloadIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, payload := filepath.Join(dir, "home"), bytes.Repeat([]byte("payload\n"), 2<<20/8)
	must(t, os.WriteFile(filepath.Join(dir, "text"), payload, 0o600))
	d, err := start(dir, home)
	must(t, err)
	run := func(args ...string) (string, error) {
		cmd := exec.Command("cutie", append(args, "-u", d.url)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for range 5 {
		if out, err := run("put", "jobs", "text"); err != nil {
			t.Fatalf("put: %v: %s", err, out)
		}
	}
	if err := d.stop(syscall.SIGTERM); err != nil { // with all files written
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(home, "queues/jobs/payload/*"))
	if err != nil || len(files) != 5 {
		t.Fatalf("got payloads %q, %v", files, err)
	}
	payload[1<<20] ^= 1
	for _, file := range files[:4] {
		must(t, os.WriteFile(file, payload, 0o600))
	}
	if d, err = start(dir, home); err != nil {
		t.Fatal(err)
	}
	defer d.stop(syscall.SIGTERM)
	const want = "digest verification failed"
	for _, args := range [][]string{
		{"peek", "jobs", "-o", "got"},
		{"get", "jobs", "-o", "got"},
		{"get", "jobs", "--lease", "1h", "-o", "got"},
	} {
		out, err := run(args...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: got %v, %s, want %q", args, err, out, want)
		}
	}
	resp, err := http.Get(d.url + "content/jobs/j000000000005?t=application/octet-stream")
	must(t, err)
	resp.Body.Close()
	other, err := http.Get(d.url + "queues/jobs/payload/j000000000005")
	must(t, err)
	other.Body.Close()
	if got, want := resp.Header.Get("Repr-Digest"), other.Header.Get("Repr-Digest"); got != want || !strings.HasPrefix(got, "sha-256=:") {
		t.Errorf("got Repr-Digest %q, want %q", got, want)
	}
}
