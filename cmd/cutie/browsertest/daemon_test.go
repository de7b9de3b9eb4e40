// Package browsertest tries the pages of a daemon in a browser. It is apart from the other
// tests of the program, so that these link without a driver of browsers.
package browsertest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"cutie/testdata/processes"
	"cutie/testdata/tmpfs"
)

// TestMain builds the daemon once for all tests, as the program "cutie" in PATH.
func TestMain(m *testing.M) {
	flag.Parse()
	tmpfs.Use()
	flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "cutie-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		if _, err := exec.LookPath("chromium"); err == nil {
			if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", dir, "cutie/cmd/cutie").CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "cutie is not built: %v\n%s", err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

// startForBrowser runs a daemon on a fresh home for the length of a test.
func startForBrowser(t *testing.T) *processes.Daemon {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed: pages are not tried in a browser")
	}
	return processes.Serve(t, filepath.Join(t.TempDir(), "home"))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
