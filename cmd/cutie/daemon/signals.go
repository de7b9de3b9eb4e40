package daemon

import (
	"os"
	"os/signal"
	"syscall"
)

// Withstand makes the process outlive the reader of its output, a pipe or a
// terminal: only that output is lost then. From now on SIGHUP asks for a new
// access log, also while the home is opened and closed; the channel receives one
// of several signals at once.
func Withstand() <-chan os.Signal {
	signal.Ignore(syscall.SIGPIPE)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return hup
}
