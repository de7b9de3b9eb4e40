package queuefs_test

import (
	"os"
	"os/exec"
	"testing"

	"cutie/testdata/tmpfs"
)

// Some tests need a process of their own: one that is killed, or that may
// never come back. They run this test binary again with childVar set.
const childVar = "QUEUEFS_TEST_CHILD"

var children = map[string]func(dir string){
	"clients": crashClients,
	"open":    openAndClose,
	"hold":    holdHome,
	"poor":    openPoor,
	"cull":    cullClients,
	"keyed":   keyedClients,
	"makers":  makeMany,
}

func TestMain(m *testing.M) {
	if child := children[os.Getenv(childVar)]; child != nil {
		child(os.Args[1])
		os.Exit(0)
	}
	tmpfs.Use()
	os.Exit(m.Run())
}

// child prepares a process that runs one of the children on a home.
func child(t testing.TB, name, dir string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, dir)
	cmd.Env = append(os.Environ(), childVar+"="+name, "GORACE=atexit_sleep_ms=0")
	return cmd
}
