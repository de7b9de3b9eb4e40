package main

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// Every loop and every limit of a connection that the daemon has stands here;
// the packages below have none.
const (
	maintainEvery = 200 * time.Millisecond // files follow the journal at most a second late
	tickEvery     = time.Second            // documents on disk follow
	maxConns      = 10_000
	maxHeader     = 32 << 10 // octets
	headerTime    = 10 * time.Second
	idleTime      = 2 * time.Minute
)

// A daemon serves an open home until it is told to stop.
type daemon struct {
	log   zerolog.Logger
	svc   *queuefs.Service
	pub   *publisher.Publisher
	grace time.Duration
}

// run serves on ln and on the socket of the home. It calls ready once clients
// are answered, and returns after the last request and the last tick.
func (d *daemon) run(ctx context.Context, ln net.Listener, ready func() error) error {
	ctx, unhook := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer unhook()

	tcp := limit(ln, maxConns)
	server := &http.Server{
		Handler: &site{
			log:       d.log,
			protocol:  rest.New(d.svc, rest.Options{Log: d.failed}),
			published: d.pub,
			index:     http.HandlerFunc(d.index),
			healthy:   d.svc.Err,
			leaving:   ctx,
			prefix:    basePath(d.svc.Info().BaseURI),
			pace:      defaultPace,
		},
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       rememberDeadline,
		ConnState:         tcp.ended,
		ErrorLog:          stdlog.New(lineLog{d.log}, "", 0),
	}

	socket, err := openSocket(d.svc.Dir())
	if err != nil {
		return err
	}
	defer socket.Close()
	local, err := socket.listen(ctx)
	if err != nil {
		return fmt.Errorf("socket of the home: %w", err)
	}

	var wg sync.WaitGroup
	failed := make(chan error, 2)
	for _, l := range []net.Listener{tcp, local} {
		wg.Go(func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	// The loops outlive the requests: those in progress may wait for a file to
	// be written.
	loops, endLoops := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() { d.every(loops, maintainEvery, "maintain", d.svc.Maintain) })
	wg.Go(func() { d.every(loops, tickEvery, "publish", d.pub.Tick) })

	d.log.Info().Str("home", d.svc.Dir()).Str("listen", ln.Addr().String()).Msg("serving")
	err = ready()
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		}
	}
	// From here a second signal ends the process as it would any other. What
	// was acknowledged is in the journal.
	unhook()
	err = errors.Join(err, d.stop(server))
	endLoops()
	wg.Wait()
	return err
}

// stop ends the server: no new connections, the requests in progress to their
// end, or to the end of the grace.
func (d *daemon) stop(server *http.Server) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), d.grace)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		d.log.Warn().Dur("grace", d.grace).Msg("requests cut off")
		err = server.Close()
	}
	d.log.Info().Dur("ms", time.Since(start)).Msg("requests ended")
	return err
}

// failed logs why a request was answered with 500 or 503.
func (d *daemon) failed(r *http.Request, err error) {
	d.log.Error().Err(err).Str("method", r.Method).Str("path", r.URL.Path).Msg("request failed")
}

// every calls task until ctx ends, and says when it begins to fail and when it
// works again.
func (d *daemon) every(ctx context.Context, period time.Duration, name string, task func(context.Context) error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	errs := changeLog{log: d.log, what: name}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := task(ctx); ctx.Err() == nil {
				errs.note(err)
			}
		}
	}
}
