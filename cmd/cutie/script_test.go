package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
	"go.etcd.io/bbolt"

	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// The scripts in testdata/any hold wherever the queue is. They run three times in a
// long test; else each target has every third script, and TestTargetsAnswerTheSame
// compares the targets. Each begins with the one queue "jobs", which is empty.

func TestAnyTargetByURL(t *testing.T) {
	scripts(t, inTurn(t, 0), func(env *testscript.Env) error {
		d, err := background(env, env.WorkDir+"/.home")
		if err != nil {
			return err
		}
		env.Setenv("CUTIE_URL", d.URL)
		return nil
	})
}

func TestAnyTargetBySocket(t *testing.T) {
	scripts(t, inTurn(t, 1), func(env *testscript.Env) error {
		_, err := background(env, env.WorkDir+"/.home")
		env.Setenv("CUTIE_HOME", env.WorkDir+"/.home")
		return err
	})
}

func TestAnyTargetDirectly(t *testing.T) {
	scripts(t, inTurn(t, 2), func(env *testscript.Env) error {
		home := env.WorkDir + "/.home"
		env.Setenv("CUTIE_HOME", home)
		if err := exec.Command("cutie", "init", home).Run(); err != nil {
			return err
		}
		return exec.Command("cutie", "createQueue", "jobs", "--home", home).Run()
	})
}

// The scripts in testdata/home begin with nothing and start what they need.
func TestHome(t *testing.T) {
	scripts(t, files(t, "testdata/home"), func(*testscript.Env) error { return nil })
}

// inTurn returns the scripts in testdata/any for one of three targets.
func inTurn(t *testing.T, target int) (some []string) {
	t.Helper()
	for i, file := range files(t, "testdata/any") {
		if long.On() || i%3 == target {
			some = append(some, file)
		}
	}
	return some
}

// files returns the scripts in a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %d scripts, %v", dir, len(all), err)
	}
	return all
}

func scripts(t *testing.T, files []string, setup func(*testscript.Env) error) {
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Values[daemonKey{}] = new(*processes.Daemon)
			return setup(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"serve": serveCommand,
			"end":   endCommand,

			"damage": damageCommand,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// background starts a daemon that ends with the script.
func background(env *testscript.Env, home string) (*processes.Daemon, error) {
	// Culling waits for packages; here nobody wants any.
	d, err := processes.Begin(env.WorkDir, home, "--dump-period", "0")
	if err == nil {
		env.Defer(d.Kill)
	}
	return d, err
}

// exits is the script command "exits CODE program argument…": like exec, for
// a program that ends with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE program argument…")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// damageCommand is "damage HOME KIND": it changes the last row of a kind in the table.
func damageCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage HOME KIND")
	}
	db, err := bbolt.Open(ts.MkAbs(filepath.Join(args[0], "log/table")), 0o600, &bbolt.Options{Timeout: time.Second})
	ts.Check(err)
	ts.Check(errors.Join(db.Update(func(tx *bbolt.Tx) error {
		rows := tx.Bucket([]byte(args[1]))
		key, value := rows.Cursor().Last()
		return rows.Put(bytes.Clone(key), append([]byte("x"), value...))
	}), db.Close()))
}

// daemonKey finds the daemon that a script has started.
type daemonKey struct{}

// serveCommand is "serve HOME option…": it starts a daemon and sets URL.
func serveCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: serve HOME option…")
	}
	d, err := processes.Begin(ts.MkAbs("."), filepath.Clean(args[0]), args[1:]...)
	if err != nil {
		ts.Fatalf("%v", err)
	}
	ts.Defer(d.Kill)
	ts.Setenv("URL", d.URL)
	*ts.Value(daemonKey{}).(**processes.Daemon) = d
}

// endCommand is "end": it ends the daemon as a supervisor would, and the daemon
// must end well. The word stop would end the script, as if all were well.
func endCommand(ts *testscript.TestScript, neg bool, args []string) {
	d := *ts.Value(daemonKey{}).(**processes.Daemon)
	if neg || len(args) > 0 || d == nil {
		ts.Fatalf("usage: end, after serve")
	}
	if err := d.Stop(syscall.SIGTERM); err != nil {
		ts.Fatalf("daemon ended badly: %v", err)
	}
}

var update = flag.Bool("update", false, "write the answers that scripts are held against")

// The scripts in testdata/spec are requests of the specification as they are
// typed with curl, each beside the command that asks for the same (Cutie 0.3,
// 5), and what an operator does on a bad evening. They say what is answered, to
// the octet but for what no two runs have in common.
func TestSpecification(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/spec",
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("CUTIE_HOME", filepath.Join(env.WorkDir, "home"))
			env.Values[daemonKey{}] = new(*processes.Daemon)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"serve":   serveCommand,
			"end":     endCommand,
			"answers": answers,
			"same":    same,
			"crlf":    crlf,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// plain says the same of every run: what differs has its name in capitals.
var plain = []struct {
	re   *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "DATE"},
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+/`), "BASE/"},
	{regexp.MustCompile(`\b[0-9a-f]{32}(--)?\r`), "BOUNDARY$1\r"},
	{regexp.MustCompile(`boundary=[0-9a-f]{32}`), "boundary=BOUNDARY"},
	{regexp.MustCompile(`curl/[0-9][0-9.A-Za-z-]*`), "CLIENT"},
	{regexp.MustCompile(`cutie/[0-9.]+ \([^)\n]*\)`), "CLIENT"},
	{regexp.MustCompile(`in \d+ \w+|\d+ \w+ ago|just now`), "AGO"},
	{regexp.MustCompile(`cutie:[A-Za-z0-9.-]+:[0-9a-f]{16}`), "SERVICE"},
}

// said is what was printed last ("stdout"), or a file holds, in the words of
// every run.
func said(ts *testscript.TestScript, name string) string {
	text := ts.ReadFile(name)
	for _, p := range plain {
		text = p.re.ReplaceAllString(text, p.name)
	}
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// answers is the script command "answers FILE [ANSWER]": what was printed last,
// or what the file ANSWER holds, is what FILE says. With -update FILE is written.
func answers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: answers FILE [ANSWER]")
	}
	got := said(ts, append(args, "stdout")[1])
	if *update {
		ts.Check(rewrite(filepath.Join("testdata/spec", ts.Name()+".txt"), args[0], got))
		return
	}
	if want := ts.ReadFile(args[0]); got != want {
		ts.Fatalf("answer is not %s\ngot:\n%s\nwant:\n%s", args[0], got, want)
	}
}

// same is the script command "same A B": two answers say the same.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: same A B")
	}
	if a, b := said(ts, args[0]), said(ts, args[1]); a != b {
		ts.Fatalf("%s:\n%s\n%s:\n%s", args[0], a, args[1], b)
	}
}

// rewrite gives a file of a script another text.
func rewrite(script, name, text string) error {
	a, err := txtar.ParseFile(script)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		i = len(a.Files)
		a.Files = append(a.Files, txtar.File{Name: name})
	}
	a.Files[i].Data = []byte(text)
	return os.WriteFile(script, txtar.Format(a), 0o666)
}

// crlf is the script command "crlf FILE…": it ends the lines of files as those
// of messages end.
func crlf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: crlf FILE…")
	}
	for _, name := range args {
		text := strings.ReplaceAll(ts.ReadFile(name), "\n", "\r\n")
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o666))
	}
}

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
	must(t, err)
	for _, page := range append(pages, "../../README.md") {
		data, err := os.ReadFile(page)
		must(t, err)
		if !strings.Contains(string(data), "\n    $ ") {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			r := &replay{T: t, dir: t.TempDir()}
			now := r.page(string(data))
			if *update && !t.Failed() && now != string(data) {
				must(t, os.WriteFile(page, []byte(now), 0o666))
			}
		})
	}
}

// A replay runs the commands of a page.
type replay struct {
	*testing.T
	dir     string
	daemons []*processes.Daemon // in the order of their starts, for kill %N
	there   []string            // pairs of the address of a page and that of the daemon
	back    []string            // the same pairs turned round
	vars    string              // assignments of variables so far
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
	d, err := processes.Begin(r.dir, filepath.Join(r.dir, home), args...)
	must(r, err)
	r.Cleanup(d.Kill)
	address := strings.Trim(strings.TrimPrefix(d.URL, "http:"), "/")
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
		d.Kill()
	} else if err := d.Stop(syscall.SIGTERM); err != nil {
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

// Whatever is printed with -t json, or served as JSON, is plain objects that hold to
// the schemas of their types, as the daemon serves them.
func TestFactsInJSONHoldToTheirSchemas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, users := filepath.Join(dir, "home"), filepath.Join(dir, "users.txt")
	d := processes.Serve(t, home)
	seen := map[string]int{}
	var facts bytes.Buffer // for the validator
	check := func(what, text string) {
		t.Helper()
		for _, object := range objects(t, what, text) {
			var of string
			if json.Unmarshal(object.fields["@type"], &of); of == "" {
				t.Errorf("%s: an object without a type: %s", what, object.text)
				continue
			}
			seen[of]++
			for name := range object.fields {
				if strings.Contains(name, ":") {
					t.Errorf("%s: %s has a prefix", what, name)
				}
			}
			resp, schema := send(t, http.DefaultClient, "GET", d.URL+"schema/"+of+".json", "")
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("schema of %s: %s", of, resp.Status)
			}
			err := json.NewEncoder(&facts).Encode(map[string]any{"what": what, "schema": json.RawMessage(schema), "object": object.text})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	file := filepath.Join(dir, "f")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	for _, args := range [][]string{
		{"put", "jobs", file, file, "-q"}, {"work", "jobs", "-n", "1", "--", "wc"},
		{"user", "add", "ann", "--no-password", "--rights", "read,submit:jobs", "--users", users},
	} {
		at := []string{"--url", d.URL}
		if args[0] == "user" {
			at = nil
		}
		if out, err := cutie(t, append(args[:len(args):len(args)], at...)...); err != nil && args[0] != "work" {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	uws := d.URL + "uws/jobs/async"
	job := run(t, "uws", "create", uws, "a=b")
	job = strings.TrimSpace(job)
	for _, args := range [][]string{
		{"version"}, {"help", "put"},
		{"user", "ls", "--users", users}, {"token", "add", "ann", "--users", users}, {"token", "ls", "--users", users},
		{"uws", "list", uws}, {"uws", "abort", job}, {"uws", "result", job}, {"uws", "show", job}, {"uws", "create", uws, "a=b"},
		{"ls", "-u", d.URL}, {"ls", "jobs", "-u", d.URL}, {"ls", "jobs", "--detail", "-u", d.URL}, {"status", "-u", d.URL},
		{"show", "jobs", "j000000000001", "-u", d.URL}, {"delete", "jobs", "j000000000002", "-u", d.URL},
		{"results", "jobs", "j000000000001", "-u", d.URL}, {"watch", "jobs", "--from", "1", "-n", "3", "-u", d.URL},
		{"export", filepath.Join(dir, "copy"), "-u", d.URL},
		{"cull", "jobs", "--size", "0", "--age", "0", "-u", d.URL},
		{"publish", "--status", "-u", d.URL},
		{"sync", d.URL, filepath.Join(dir, "mirror")}, {"sync", "-n", filepath.Join(dir, "mirror")},
		{"audit", filepath.Join(dir, "mirror")}, {"audit", "--source", d.URL},
		{"backup", filepath.Join(dir, "backup"), "--home", home}, {"restore", filepath.Join(dir, "backup"), "--home", filepath.Join(dir, "restored")},
		{"get", "jobs", "--lease", "1m", "-o", filepath.Join(dir, "payload"), "-u", d.URL},
	} {
		out, err := cutie(t, append(args, "-t", "json")...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		check(strings.Join(args, " "), out)
	}
	for _, path := range []string{"state", "state/jobs", "state/jobs/nosuch", "help", "nosuch", "batch/jobs/b1", "hub", ".well-known/resourcesync/about.json", ".well-known/resourcesync/jobs/replica/about.json"} {
		_, text := send(t, http.DefaultClient, "GET", d.URL+path, "", "Accept", "application/json")
		check(path, text)
	}
	// Errors of commands.
	cmd := exec.Command("cutie", "show", "jobs", "j000000000009", "--url", d.URL, "-t", "json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("got %v", err)
	}
	check("an error", stderr.String())
	d.End(t)
	d = processes.Serve(t, filepath.Join(dir, "other")) // for its schemas
	out, err := cutie(t, "check", home, "-t", "json")
	if err != nil {
		t.Error(err)
	}
	check("check", out)
	valid(t, &facts)
	for _, of := range []string{"version", "helpState", "user", "token", "uwsJob", "queueSummary", "queueState", "jobState", "cutieServiceState",
		"event", "export", "culledJob", "exceptionState", "error", "checkReport", "takenJob", "publishingState", "hubState", "about",
		"syncReport", "auditReport", "sourceReport", "backup", "restored"} {
		if seen[of] == 0 {
			t.Errorf("there was no %s among %v", of, seen)
		}
	}
}

// An object is one of JSON, as it was printed.
type object struct {
	text   json.RawMessage
	fields map[string]json.RawMessage
}

// objects are those in a text: one alone, an array, or one after the other.
func objects(t *testing.T, what, text string) (all []object) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatalf("%s: %v in %s", what, err, text)
		}
		list := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &list); err != nil {
				t.Fatalf("%s: %v in %s", what, err, raw)
			}
		}
		for _, one := range list {
			o := object{text: one}
			if err := json.Unmarshal(one, &o.fields); err != nil || o.fields == nil {
				t.Fatalf("%s: %s is no object", what, one)
			}
			all = append(all, o)
		}
	}
	return all
}

// valid holds facts to their schemas, in a process of its own: the validator makes ready
// when a program starts, and the tests start this one thousands of times.
func valid(t *testing.T, facts io.Reader) {
	t.Helper()
	cmd := exec.Command("go", "run", "../../testdata/schemas")
	cmd.Stdin = facts
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
