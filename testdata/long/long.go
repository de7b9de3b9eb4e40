// Package long decides how far tests go that could go on for ever: processes killed at
// random, a fault at every step, random damage, crowds of clients. By default they do
// a part. With CUTIE_LONG=1, as in "make long", they do all.
//
// With CUTIE_LONG_LIST=FILE, the tests that asked are listed in the file, one to a line:
// the import path of the package, a space and the name of the test, or "?" if the caller
// is outside of a test. A long run after a short one needs these only, see .ci/run.
package long

import (
	"os"
	"runtime"
	"strings"
	"sync"
)

// On reports whether tests do all they can.
func On() bool {
	if list := os.Getenv("CUTIE_LONG_LIST"); list != "" {
		note(list)
	}
	return os.Getenv("CUTIE_LONG") != ""
}

// N returns how often a test does something: few times by default, else many.
func N(few, many int) int {
	if On() {
		return many
	}
	return few
}

var noted sync.Map // lines of the list

// note appends the test that calls to a list, once.
func note(list string) {
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var in string
	name := "?"
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		pkg, function := split(f.Function)
		if pkg == "testing" || pkg == "runtime" {
			break
		}
		if !strings.HasSuffix(pkg, "/testdata/long") {
			in = pkg
		}
		if top, _, _ := strings.Cut(function, "."); strings.HasPrefix(top, "Test") && top != "TestMain" {
			name = top
		}
	}
	line := strings.TrimSuffix(in, "_test") + " " + name + "\n"
	if _, again := noted.LoadOrStore(line, true); again {
		return
	}
	f, err := os.OpenFile(list, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line); err != nil {
		panic(err)
	}
}

// split returns the package and the rest of the name of a function.
func split(function string) (pkg, rest string) {
	dir := strings.LastIndex(function, "/") + 1
	pkg, rest, _ = strings.Cut(function[dir:], ".")
	return function[:dir] + pkg, rest
}
