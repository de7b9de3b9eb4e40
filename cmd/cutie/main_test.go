package main

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"cutie/queuefs/objects/objectstest"
)

// TestMain makes the program available to tests by its name: as "cutie" in
// PATH, in a process of its own.
func TestMain(m *testing.M) {
	// Built with the race detector, each process would sleep a second at its
	// end.
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	// The homes of tests are in memory where the system has a place for them: each has a
	// journal of 64 MiB.
	if os.Getenv("TMPDIR") == "" && roomy("/dev/shm") {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	// Those of the object stores of tests, which do not look at them.
	os.Setenv("AWS_ACCESS_KEY_ID", objectstest.Key)
	os.Setenv("AWS_SECRET_ACCESS_KEY", objectstest.Secret)
	// Tests wait for processes and for storage more than they work.
	flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	testscript.Main(m, map[string]func(){"cutie": main})
}

// roomy reports whether a directory is there and has space for the homes of some tests
// at a time.
func roomy(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= 4<<30
}
