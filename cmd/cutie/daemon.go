package main

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/callback"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/outbound"
	"cutie/queuefs/rest"
	"cutie/queuefs/uws"
	"cutie/wellknown"
)

// Every loop and every limit of a connection that the daemon has stands here;
// the packages below have none.
const (
	maintainEvery = 200 * time.Millisecond // files follow the journal at most a second late
	tickEvery     = time.Second            // documents on disk follow
	lookEvery     = time.Second            // settings, users and certificate are looked at, the access log is written
	cullEvery     = time.Minute
	maxHeader     = 32 << 10 // octets
	headerTime    = 10 * time.Second
	idleTime      = 2 * time.Minute
	pingTime      = 30 * time.Second // of silence on an HTTP/2 connection
	maxStreams    = 100              // requests at once on such a connection
)

// A daemon serves an open home until it is told to stop.
type daemon struct {
	log   zerolog.Logger
	hup   <-chan os.Signal // asks for a new access log
	full  atomic.Int64     // when a request was logged last that found no room, ns
	svc   *queuefs.Service
	pub   *publisher.Publisher
	send  *callback.Sender
	push  *push // nil: nobody is told
	fetch *outbound.Client
	grace time.Duration

	robots http.Handler    // nil: there is no robots.txt
	cors   *wellknown.CORS // nil: pages of others read nothing

	gate     *access.Gate
	browser  *access.Browser
	proxies  access.Proxies
	record   *access.Log  // the daemon closes it
	cert     *certificate // nil: no TLS
	maxBody  int64        // octets
	maxConns int
	maxWaits int // of one client
}

// run serves on ln and on the socket of the home. It calls ready once clients
// are answered, and returns after the last request and the last tick.
func (d *daemon) run(ctx context.Context, ln net.Listener, ready func() error) error {
	ctx, unhook := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer unhook()

	tcp := limit(ln, d.maxConns).trusting(d.proxies)
	protocol := rest.New(d.svc, rest.Options{
		Log: d.failed, MaxBody: d.maxBody, Fetch: d.fetch, MaxStreams: max(1, d.maxConns/2), Phases: learnsPhases,
	})
	jobs, err := uws.New(d.svc, uws.Options{Caller: callerOf, MaxBody: d.maxBody, Log: d.failed})
	if err != nil {
		return err
	}
	d.svc.Guard(jobs)
	d.svc.Spare(jobs.Spares)
	count := &requestCount{}
	server := &http.Server{
		Handler: &site{
			log:       d.log,
			protocol:  protocol,
			published: d.published(),
			hub:       d.push.handler(),
			publish:   &publishing{d.pub, protocol.Error},
			robots:    d.robots,
			cors:      d.cors,
			messages:  d.messages(),
			jobs:      jobs,
			index:     http.HandlerFunc(d.index),
			metrics:   d.meter(count),
			count:     count,
			healthy:   d.svc.Err,
			leaving:   ctx,
			prefix:    basePath(d.svc.Info().BaseURI),
			pace:      defaultPace,
			refuse:    protocol.Error,
			gate:      d.gate,
			browser:   d.browser,
			proxies:   d.proxies,
			crowd:     &access.Crowd{Max: d.maxWaits},
			record:    d.record,
		},
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: pingTime, MaxConcurrentStreams: maxStreams},
		ConnContext:       rememberConn,
		ConnState:         tcp.ended,
		ErrorLog:          stdlog.New(lineLog{d.log}, "", 0),
	}

	socket, err := openSocket(d.svc.Dir())
	if err != nil {
		return errors.Join(err, jobs.Close())
	}
	defer socket.Close()
	local, err := socket.listen(ctx)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		// Over TCP jobs can be consumed, deleted and culled, which makes room.
		d.log.Error().Err(err).Msg("no socket of the home until the daemon is started anew: commands need --url")
	case err != nil:
		return errors.Join(fmt.Errorf("socket of the home: %w", err), jobs.Close())
	}

	var wg sync.WaitGroup
	failed := make(chan error, 2)
	overTCP := func() error { return server.Serve(tcp) }
	if d.cert != nil {
		server.TLSConfig = d.cert.config()
		overTCP = func() error { return server.ServeTLS(tcp, "", "") }
	}
	ways := []func() error{overTCP}
	if local != nil {
		ways = append(ways, func() error { return server.Serve(local) })
	}
	for _, serve := range ways {
		wg.Go(func() {
			if err := serve(); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	// The loops outlive the requests: those in progress may wait for a file to
	// be written.
	loops, endLoops := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() { d.every(loops, maintainEvery, "maintain", d.svc.Maintain) })
	wg.Go(func() { d.every(loops, maintainEvery, "leases", d.svc.Expire) })
	wg.Go(func() { d.every(loops, maintainEvery, "limits of jobs", jobs.Tick) })
	wg.Go(func() { d.every(loops, tickEvery, "publish", d.pub.Tick) })
	wg.Go(func() { d.every(loops, maintainEvery, "callbacks", d.send.Tick) })
	if d.push != nil {
		wg.Go(func() { d.every(loops, maintainEvery, "push", d.push.hub.Tick) })
	}
	wg.Go(func() { d.every(loops, cullEvery, "cull", d.cull) })
	wg.Go(func() { d.every(loops, lookEvery, "settings", d.reload) })
	wg.Go(func() { d.every(loops, lookEvery, "memory", new(budget).follow(d.svc)) })
	wg.Go(func() { d.every(loops, lookEvery, "access log", plain(d.record.Flush)) })
	wg.Go(func() { d.every(loops, lookEvery, "users", plain(d.gate.Reload)) })
	wg.Go(func() { d.every(loops, lookEvery, "connections", plain(tcp.told)) })
	if d.cert != nil {
		wg.Go(func() { d.every(loops, lookEvery, "certificate", plain(d.cert.reload)) })
	}
	wg.Go(func() { d.reopen(loops) })

	d.log.Info().Str("home", d.svc.Dir()).Str("listen", ln.Addr().String()).Msg("serving")
	if err := ready(); err != nil {
		d.log.Warn().Err(err).Msg("what to open is not printed")
	}
	var broken error
	select {
	case <-ctx.Done():
	case broken = <-failed:
	}
	// From here a second signal ends the process as it would any other. What
	// was acknowledged is in the journal.
	unhook()
	protocol.Close()
	err = errors.Join(broken, d.stop(server))
	endLoops()
	wg.Wait()
	d.send.Wait()
	return errors.Join(err, jobs.Close(), d.record.Close())
}

// callerOf is who asks for the jobs of a queue by UWS.
func callerOf(r *http.Request, queue string) uws.Caller {
	c := access.CallerOf(r.Context())
	return uws.Caller{Name: c.Name, Own: !c.May(access.Read, queue), Delete: c.May(access.Delete, queue), Admin: c.May(access.Admin, queue)}
}

// learnsPhases tells whether who follows a queue is told of jobs that were not
// started: one made without a name belongs to whoever knows its identifier.
func learnsPhases(r *http.Request, queue string) bool {
	c := callerOf(r, queue)
	return c.Delete || c.Admin
}

// plain makes a task of one that takes no time.
func plain(task func() error) func(context.Context) error {
	return func(context.Context) error { return task() }
}

// cull removes the processed jobs that are due.
func (d *daemon) cull(ctx context.Context) error {
	n, octets := 0, int64(0)
	for c, err := range d.svc.Cull(ctx, queuefs.CullOptions{}) {
		if err != nil {
			return err
		}
		n, octets = n+1, octets+c.Size
	}
	if n > 0 {
		d.log.Info().Int("jobs", n).Int64("octets", octets).Msg("culled")
	}
	return nil
}

// reload takes in settings that were changed by hand.
func (d *daemon) reload(ctx context.Context) error {
	changed, err := d.svc.Reload(ctx)
	if len(changed) > 0 {
		d.log.Info().Strs("queues", changed).Msg("settings read again")
	}
	return err
}

// reopen opens the access log anew on each SIGHUP.
func (d *daemon) reopen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.hup:
			err := d.record.Reopen()
			d.log.Info().Err(err).Msg("access log reopened")
		}
	}
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

// fullEvery is how often it is logged at the most that a request was refused for
// want of room: whoever asks again and again would fill what is left.
const fullEvery = 10 * time.Second

// failed logs why a request was answered with 500, 503 or 507.
func (d *daemon) failed(r *http.Request, err error) {
	if errors.Is(err, queuefs.ErrNoSpace) {
		now, last := time.Now().UnixNano(), d.full.Load()
		if now-last < int64(fullEvery) && now >= last || !d.full.CompareAndSwap(last, now) {
			return
		}
	}
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
				errs.note(err, time.Now())
			}
		}
	}
}
