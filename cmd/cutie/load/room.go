package load

import (
	"os"
	"runtime"
)

// LeaveRoom makes this process use at most half of the processors until the
// function that it returns is called, for the server has to run as well, and so
// do clients who would otherwise wake one another across processors. It does
// nothing where GOMAXPROCS is set in the environment.
func LeaveRoom() (back func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	before := runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2))
	return func() { runtime.GOMAXPROCS(before) }
}
