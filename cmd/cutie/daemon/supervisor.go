package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"cutie/queuefs"
)

// A supervisor is the service manager behind NOTIFY_SOCKET, if the daemon has one: it
// hears when the daemon is ready, reloads or stops, its condition, and signs of life (see
// sd_notify(3)). Without one nothing happens.
//
// A daemon whose storage has failed must be started again, and says so by being silent:
// the watchdog of the manager restarts it then.
type supervisor struct {
	log      zerolog.Logger
	watchdog time.Duration // within which a sign of life must come; 0: none is wanted
	status   string        // told last
	stop     chan bool     // closed at the end of stopping
	wait     sync.WaitGroup
}

func newSupervisor(log zerolog.Logger) *supervisor {
	s := &supervisor{log: log}
	var err error
	if s.watchdog, err = sd.SdWatchdogEnabled(false); err != nil {
		log.Warn().Err(err).Msg("no sign of life for the service manager")
	}
	return s
}

// tell sends lines to the manager. A missing manager is no reason to stop.
func (s *supervisor) tell(format string, a ...any) {
	if _, err := sd.SdNotify(false, fmt.Sprintf(format, a...)); err != nil {
		s.log.Warn().Err(err).Msg("service manager not told")
	}
}

func (s *supervisor) ready(at string) {
	s.status = "serving " + at
	s.tell("READY=1\nSTATUS=%s", s.status)
}

// reloading reports the run of do, for the Type=notify-reload of systemd.service(5).
func (s *supervisor) reloading(do func()) {
	s.tell("RELOADING=1\n%s", sd.SdNotifyMonotonicUsec())
	do()
	s.tell("READY=1")
}

// extension is how long the manager waits for the next word of a stopping daemon.
const extension = 20 * time.Second

// stopping tells that the daemon stops, and until stopped is called that it goes on doing
// so: after a burst there are many files to be written.
func (s *supervisor) stopping() {
	if s.stop != nil {
		return
	}
	s.stop = make(chan bool)
	s.tell("STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=%d", extension.Microseconds())
	s.wait.Go(func() {
		tick := time.NewTicker(extension / 4)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
				s.tell("EXTEND_TIMEOUT_USEC=%d", extension.Microseconds())
			}
		}
	})
}

func (s *supervisor) stopped() {
	if s.stop != nil {
		close(s.stop)
		s.wait.Wait()
	}
}

// every is the pause between two signs of life.
func (s *supervisor) every() time.Duration {
	if s.watchdog > 0 {
		return min(s.watchdog/3, lookEvery)
	}
	return lookEvery
}

// beat gives a sign of life, and tells how the daemon is if that has changed. ready is
// what /readyz answers, failed the error of the storage.
func (s *supervisor) beat(ready, failed error, at string) {
	status := "serving " + at
	if ready != nil {
		status = "not ready: " + ready.Error()
	}
	if status != s.status {
		s.tell("STATUS=%s", status)
	}
	s.status = status
	if s.watchdog > 0 && failed == nil {
		s.tell("WATCHDOG=1")
	}
}

// supervised is the loop of the supervisor.
func (d *daemon) supervised(leaving context.Context, at string) loop {
	return loop{"service manager", d.supervisor.every(), func(context.Context) error {
		d.supervisor.beat(d.ready(leaving), d.failure(), at)
		return nil
	}}
}

// failure returns why the daemon must be started again; nil if it goes on by itself.
func (d *daemon) failure() error {
	if err := d.svc.Err(); !errors.Is(err, queuefs.ErrAway) {
		return err
	}
	return nil
}

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
