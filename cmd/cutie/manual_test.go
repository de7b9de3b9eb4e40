package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// commands are the names of all of them.
func commands(t *testing.T) []string {
	t.Helper()
	out, err := cutie(t, "help", "-q")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out)
}

func TestManualPagesAreClean(t *testing.T) {
	t.Parallel()
	formatters := [][]string{{"mandoc", "-T", "lint", "-W", "warning"}, {"groff", "-man", "-Tutf8", "-ww", "-z"}}
	found := false
	for _, name := range append([]string{""}, commands(t)...) {
		page, err := cutie(t, append([]string{"help", "--man"}, strings.Fields(name)...)...)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "page.1")
		if err := os.WriteFile(file, []byte(page), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, f := range formatters {
			if _, err := exec.LookPath(f[0]); err != nil {
				continue
			}
			found = true
			out, err := exec.Command(f[0], append(f[1:], file)...).CombinedOutput()
			for line := range strings.Lines(string(out)) {
				// A build outside a repository has no date.
				if !strings.Contains(line, "missing date") {
					t.Errorf("%s: %s: %s", name, f[0], line)
				}
			}
			if err != nil && len(out) == 0 {
				t.Errorf("%s: %s: %v", name, f[0], err)
			}
		}
	}
	if !found {
		t.Skip("neither mandoc nor groff is installed")
	}
}

// Examples are run in a world with all that they speak of.
const world = `
cutie init
cutie createQueue jobs
cutie createQueue empty
mkdir -p inbox
echo text >inbox/text
cp inbox/text log.txt
: >report.pdf
cutie put jobs log.txt log.txt log.txt log.txt log.txt -q
cutie get jobs --lease=1h -o job
cutie holdJob jobs j000000000002 -q
cutie get jobs --lease=1h -o other
cutie get jobs --lease=1h -o last
cutie putResult jobs j000000000004 log.txt --lease @last.lease
`

// wants are scripts that the examples of a command need besides.
var wants = map[string]string{
	"get":     "cutie put jobs log.txt log.txt log.txt log.txt -q\n",
	"requeue": "cutie done jobs j000000000001 --lease @job.lease -q\n",
	"publish": "mkdir srv; cutie init srv/cutie\n",
	"export":  "mkdir srv\n",
	"check":   "cutie init archive\n",
	"backup":  "echo >users.txt\n",
	"restore": "cutie backup srv/backup\n",
	"rmqueue": "cutie createQueue gone; rm -r cutie_home/queues/gone\n",
}

// served are commands whose examples need a running daemon.
var served = []string{"watch", "publish", "export", "work", "sync", "audit"}

// copied are commands whose examples need a copy of that daemon.
var copied = []string{"audit"}

// elsewhere are commands whose examples are not run: they need other servers, or
// have no end.
var elsewhere = []string{"batch", "uws", "rdm", "serve", "failover", "import", "bench", "store"}

func TestExamplesWork(t *testing.T) {
	t.Parallel()
	made := filepath.Join(t.TempDir(), "world")
	if err := os.Mkdir(made, 0o777); err != nil {
		t.Fatal(err)
	}
	sh(t, made, world)
	for _, name := range commands(t) {
		help, err := cutie(t, "help", name)
		if err != nil {
			t.Fatal(err)
		}
		_, examples, ok := strings.Cut(help, "\nexamples:\n")
		if !ok {
			t.Errorf("%s has no examples", name)
		}
		if slices.Contains(elsewhere, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "world")
			if err := copySparse(dir, made); err != nil {
				t.Fatal(err)
			}
			sh(t, dir, wants[name])
			if slices.Contains(served, name) {
				url := serveHome(t, filepath.Join(dir, "cutie_home")).url
				examples := strings.ReplaceAll(examples, "http://127.0.0.1:8080", url)
				if slices.Contains(copied, name) {
					sh(t, dir, "cutie sync "+url+" mirror\n")
				}
				runExamples(t, dir, examples)
				return
			}
			runExamples(t, dir, examples)
		})
	}
}

// run runs examples, except those without an end.
func runExamples(t *testing.T, dir, examples string) {
	for line := range strings.Lines(examples) {
		if !strings.Contains(line, " --follow") && !strings.HasPrefix(strings.TrimSpace(line), "cutie serve ") {
			sh(t, dir, strings.ReplaceAll(line, "/srv/", dir+"/srv/"))
		}
	}
}

// sh runs a script that is to succeed.
func sh(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = environ()
	var e bytes.Buffer
	cmd.Stderr = &e
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v: %s", strings.TrimSpace(script), err, e.String())
	}
}

// Each code of help is one that a command ends with.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	d := serveHome(t, home, "--anonymous", "read")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	mirror := filepath.Join(t.TempDir(), "mirror")
	sh(t, t.TempDir(), "cutie sync "+d.url+" "+mirror+"; rm "+mirror+"/queues/jobs/queue-info.txt\n")
	for want, args := range [][]string{
		{"status", "-H", home},
		{"status", "--url", "http://127.0.0.1:1/"},
		{"status", "--nonsense"},
		{"ls", "nosuch", "-H", home},
		{"get", "jobs", "-H", home},
		{"createQueue", "jobs", "-H", home},
		{"put", "jobs", file, "--url", d.url},
		{"put", "jobs", file, "-H", home, "--digest", "md5:00000000000000000000000000000000"},
		{"audit", mirror},
	} {
		cmd := exec.Command("cutie", args...)
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%q: got exit code %d, want %d", args, got, want)
		}
	}
}
