package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Pages show commands after "$ ", in indented blocks, with the lines that they print.
// They run one after the other in one directory, where cutie is the program of the test.
// Those that start and stop the daemon ("make run", "cutie serve …&", "kill %1") do so
// with a free port in place of 8080. Of a command without lines the output is not
// compared. With -update what they print today is written into the pages.
func TestPagesShowWhatHappens(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	pages, err := filepath.Glob("topics/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../README.md") {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), "\n    $ ") {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			r := &replay{T: t, dir: t.TempDir()}
			now := r.page(string(data))
			if *update && !t.Failed() && now != string(data) {
				if err := os.WriteFile(page, []byte(now), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A replay runs the commands of a page.
type replay struct {
	*testing.T
	dir    string
	daemon *daemon
	vars   string // assignments of variables so far
}

// page runs all commands and returns the page with their output.
func (r *replay) page(text string) string {
	var b strings.Builder
	lines := strings.SplitAfter(text, "\n")
	for len(lines) > 0 {
		line := lines[0]
		lines = lines[1:]
		b.WriteString(line)
		command, ok := strings.CutPrefix(line, "    $ ")
		if !ok {
			continue
		}
		for strings.HasSuffix(line, "\\\n") {
			line, lines = lines[0], lines[1:]
			command += line
			b.WriteString(line)
		}
		shown := ""
		for len(lines) > 0 && (isOutput(lines[0]) || lines[0] == "\n" && len(lines) > 1 && isOutput(lines[1])) {
			shown += strings.TrimPrefix(lines[0], "    ")
			lines = lines[1:]
		}
		got := r.run(strings.TrimSpace(command), shown)
		if shown != "" {
			b.WriteString(indent(got))
		}
	}
	return b.String()
}

func isOutput(line string) bool {
	return strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "    $ ")
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			line = "    " + line
		}
		b.WriteString(line)
	}
	return b.String()
}

// run runs one command, and returns the lines for it: those shown, if they mean the same.
func (r *replay) run(command, shown string) string {
	r.Helper()
	var err error
	switch {
	case command == "make run", strings.HasPrefix(command, "cutie serve") && strings.HasSuffix(command, "&"):
		if r.daemon, err = start(r.dir, filepath.Join(r.dir, "cutie_home"), "--dump-period", "0"); err != nil {
			r.Fatal(err)
		}
		r.Cleanup(r.daemon.kill)
		return shown
	case command == "kill %1":
		if err = r.daemon.stop(syscall.SIGTERM); err != nil {
			r.Fatal(err)
		}
		return shown
	}
	if variable.MatchString(command) {
		r.vars += command + "\n"
		return shown
	}
	url := "http://127.0.0.1:8080/"
	if r.daemon != nil {
		url = r.daemon.url
	}
	cmd := exec.Command("sh", "-ec", strings.NewReplacer("http://127.0.0.1:8080/", url, "bin/cutie", "cutie").Replace(r.vars+command))
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "CUTIE_HOME=", "CUTIE_URL=", "CUTIE_LEASE=")
	out, err := cmd.CombinedOutput()
	got := strings.NewReplacer(url, "http://127.0.0.1:8080/", strings.TrimPrefix(strings.TrimSuffix(url, "/"), "http://"), "127.0.0.1:8080", r.dir, "/home/me", "\r\n", "\n").Replace(string(out))
	if got != "" && !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	if err != nil {
		got += fmt.Sprintf("(%v)\n", err)
	}
	switch {
	case shown == "" && err != nil:
		r.Fatalf("$ %s\n%s", command, got)
	case shown == "", likeness(got) == likeness(shown):
		return shown
	case !*update:
		r.Errorf("$ %s\ngot\n%s\nwant\n%s\n(-update writes it into the page)", command, got, shown)
	}
	return got
}

var variable = regexp.MustCompile(`^[a-z]+=`)

// Words that are new with each run.
var fresh = regexp.MustCompile(strings.Join([]string{
	`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`,
	`(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} [0-9:]+ GMT`,
	`\b\d+(\.\d+)? (ms|s)\b`,
	`curl/[0-9.]+`,
	`Content-Length: \d+`, // of ports and versions of curl
	`Cutie-Lease: \S+`,
	`ETag: \S+`,
}, "|"))

// likeness is a text without the words that are new with each run.
func likeness(text string) string { return fresh.ReplaceAllString(text, "~") }
