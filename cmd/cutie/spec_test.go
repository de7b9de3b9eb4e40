package main_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
)

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
			env.Values[daemonKey{}] = new(*daemon)
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
