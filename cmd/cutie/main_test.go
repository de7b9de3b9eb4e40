package main

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"cutie/queuefs/objects/objectstest"
	"cutie/testdata/tmpfs"
)

// TestMain makes the program available to tests by its name: as "cutie" in
// PATH, in a process of its own.
func TestMain(m *testing.M) {
	// Built with the race detector, each process would sleep a second at its
	// end.
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	tmpfs.Use()
	// Those of the object stores of tests, which do not look at them.
	os.Setenv("AWS_ACCESS_KEY_ID", objectstest.Key)
	os.Setenv("AWS_SECRET_ACCESS_KEY", objectstest.Secret)
	// Tests wait for processes and for storage more than they work.
	flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	testscript.Main(m, map[string]func(){"cutie": main})
}
