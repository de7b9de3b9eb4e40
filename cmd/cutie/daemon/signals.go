package daemon

import (
	"os"
	"os/signal"
	"syscall"
)

// Withstand makes the process outlive who reads its output, a pipe or a terminal:
// what it cannot write then is lost, and nothing else. SIGHUP asks for a new
// access log, from now on and to the end of the process, also while the home is
// opened and closed; what is returned receives one of those that came at once.
func Withstand() <-chan os.Signal {
	signal.Ignore(syscall.SIGPIPE)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return hup
}
