package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"cutie/testdata/long"
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
		env.Setenv("CUTIE_URL", d.url)
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
			env.Values[daemonKey{}] = new(*daemon)
			return setup(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"serve": serveCommand,
			"end":   endCommand,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// background starts a daemon that ends with the script.
func background(env *testscript.Env, home string) (*daemon, error) {
	// Culling waits for packages; here nobody wants any.
	d, err := start(env.WorkDir, home, "--dump-period", "0")
	if err == nil {
		env.Defer(d.kill)
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

// daemonKey finds the daemon that a script has started.
type daemonKey struct{}

// serveCommand is "serve HOME option…": it starts a daemon and sets URL.
func serveCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: serve HOME option…")
	}
	d, err := start(ts.MkAbs("."), filepath.Clean(args[0]), args[1:]...)
	if err != nil {
		ts.Fatalf("%v", err)
	}
	ts.Defer(d.kill)
	ts.Setenv("URL", d.url)
	*ts.Value(daemonKey{}).(**daemon) = d
}

// endCommand is "end": it ends the daemon as a supervisor would, and the daemon
// must end well. The word stop would end the script, as if all were well.
func endCommand(ts *testscript.TestScript, neg bool, args []string) {
	d := *ts.Value(daemonKey{}).(**daemon)
	if neg || len(args) > 0 || d == nil {
		ts.Fatalf("usage: end, after serve")
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		ts.Fatalf("daemon ended badly: %v", err)
	}
}
