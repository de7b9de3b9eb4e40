package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"cutie/queuefs"
	"cutie/queuefs/objects"
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
	if err := d.svc.Err(); !errors.Is(err, objects.ErrAway) {
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

// tune sets the runtime up for the daemon, unless the environment says otherwise. Until
// done is called the limit of memory follows the heap alone, as the home is opened.
func tune() (done func()) {
	// A sync holds its thread for the length of a disk write, so there are
	// more threads than cores to run Go code meanwhile.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(4, 2*runtime.NumCPU()))
	}
	// The live heap is small beside the garbage of requests: the index has no
	// pointers and payloads are not kept. The limit of memory ends the growth.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
	}
	b, stop := newBudget(), make(chan struct{})
	b.opening() // until it is known how large the index is
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				b.opening()
			}
		}
	}()
	return sync.OnceFunc(func() { close(stop) })
}

// memory is the size in bytes above which garbage is collected more often;
// heapLeast of it are always for the heap. The index, 128 MiB for a million jobs,
// is outside of the heap and goes first. The program and the buffers of large
// batches take 35 MiB or so besides, and all together stays below 250 MB.
const (
	memory    = 190 << 20
	heapLeast = 62 << 20
)

// limitFor is the limit of the memory of Go, where live octets of it were no
// garbage: thousands of clients who wait take some 20 KiB each. To collect them
// again and again would not make them less, so a third of it is for garbage.
func limitFor(index, live int64) int64 {
	return max(memory-index, heapLeast, live+live/2)
}

// A budget divides the memory between the index and the heap.
type budget struct {
	limit int64
	live  [2]metrics.Sample
	held  [2]metrics.Sample
	kept  int64 // held after the last giveBack
}

func newBudget() *budget {
	b := new(budget)
	b.live[0].Name, b.live[1].Name = "/gc/heap/live:bytes", "/memory/classes/heap/stacks:bytes"
	b.held[0].Name, b.held[1].Name = "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes"
	return b
}

// inUse returns the live bytes of the heap and the stacks.
func (b *budget) inUse() int64 {
	metrics.Read(b.live[:])
	return int64(b.live[0].Value.Uint64() + b.live[1].Value.Uint64())
}

func (b *budget) set(limit int64) {
	// To set it stops the world, if only for a moment.
	if d := limit - b.limit; d > -(4<<20) && d < 4<<20 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	b.limit = limit
	debug.SetMemoryLimit(limit)
}

// opening sets the limit while a home is opened: what is live grows all the time then,
// and most of it stays.
func (b *budget) opening() {
	live := b.inUse()
	b.set(live + max(live/2, 96<<20))
}

// follow sets the limit by the index and the heap of the moment. The index is measured
// after changes alone: its size is a sum over all queues. Once there was no change for calm
// calls, unused memory goes back to the system.
func (b *budget) follow(svc *queuefs.Service) func() error {
	var seen uint64
	var index int64
	var still int
	return func() error {
		changed, now := svc.Changed(seen)
		still++
		if seen = now; len(changed) > 0 {
			index, still = svc.IndexSize(), 0
		}
		b.set(limitFor(index, b.inUse()))
		if still >= calm {
			b.giveBack()
		}
		return nil
	}
}

// calm is how many calls of follow without a change end a burst.
const calm = 10

// giveBack collects garbage, and gives the memory back, if more is held than after the
// last time, so much that it is worth it.
func (b *budget) giveBack() {
	if b.holds() > b.kept+b.kept/4+48<<20 {
		debug.FreeOSMemory()
		b.kept = b.holds()
	}
}

// holds returns the bytes of memory given by the system.
func (b *budget) holds() int64 {
	metrics.Read(b.held[:])
	return int64(b.held[0].Value.Uint64() - b.held[1].Value.Uint64())
}
