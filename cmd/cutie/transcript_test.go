package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Pages show commands after "$ ", in indented blocks, with the lines that they print.
// They run one after the other in one directory, where cutie is the program of the test.
// Those that start and stop daemons ("make run", "cutie serve … &", "kill %1") do so with
// a free port in place of the one shown. Of a command without lines the output is not
// compared. Where a page waits a minute for a Change Dump ("until curl …"), "cutie publish
// --now" makes it. With -update what they print today is written into the pages.
func TestPagesShowWhatHappens(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "unzip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
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
	dir     string
	daemons []*daemon // in the order of their starts, for kill %N
	there   []string  // pairs of the address of a page and that of the daemon
	back    []string  // the same pairs turned round
	vars    string    // assignments of variables so far
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
	if command == "make run" || strings.HasPrefix(command, "cutie serve") && strings.HasSuffix(command, "&") {
		r.start(strings.Fields(command)[2:])
		return shown
	}
	if m := killing.FindStringSubmatch(command); m != nil {
		r.stop(m[1] != "", m[2])
		return shown
	}
	if variable.MatchString(command) {
		r.vars += command + "\n"
		return shown
	}
	if strings.HasPrefix(command, "until curl ") {
		r.run("cutie publish --now", "")
	}
	cmd := exec.Command("sh", "-ec", strings.NewReplacer(append(r.there, "bin/cutie", "cutie")...).Replace(r.vars+command))
	cmd.Dir = r.dir
	cmd.Env = environ()
	out, err := cmd.CombinedOutput()
	got := strings.NewReplacer(append(r.back, r.dir, "/home/me", "\r\n", "\n")...).Replace(string(out))
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

// start starts a daemon with options of serve, and those of the shell after them.
func (r *replay) start(options []string) {
	r.Helper()
	home, listen := "cutie_home", "127.0.0.1:8080"
	args := []string{"--dump-period", "0"}
	for i := 0; i < len(options); i++ {
		switch o := options[i]; {
		case o == "--home":
			i++
			home = options[i]
		case o == "--listen":
			i++
			listen = options[i]
		case o != "&" && !strings.HasPrefix(o, "2>"):
			args = append(args, strings.NewReplacer(r.there...).Replace(o))
		}
	}
	d, err := start(r.dir, filepath.Join(r.dir, home), args...)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(d.kill)
	address := strings.Trim(strings.TrimPrefix(d.url, "http:"), "/")
	r.daemons = append(r.daemons, d)
	r.there, r.back = append([]string{listen, address}, r.there...), append([]string{address, listen}, r.back...)
}

// stop ends a daemon, in order or not.
func (r *replay) stop(hard bool, which string) {
	r.Helper()
	n, err := strconv.Atoi(which)
	if err != nil || n < 1 || n > len(r.daemons) {
		r.Fatalf("kill: %%%s was not started", which)
	}
	d := r.daemons[n-1]
	if hard {
		d.kill()
	} else if err := d.stop(syscall.SIGTERM); err != nil {
		r.Fatal(err)
	}
}

var killing = regexp.MustCompile(`^kill (-9 )?%(\d)$`)

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
	`async/u\w+`, // jobs of UWS
	`\{\d+\}`,    // lengths of SOIF
	`-[0-9a-f]{8}\.zip`,
	` +\d+  1980-01-01 00:00   manifest\.xml`, // its length hangs on the port
	` +\d+                     \d+ files`,
}, "|"))

// likeness is a text without the words that are new with each run.
func likeness(text string) string { return fresh.ReplaceAllString(text, "~") }
