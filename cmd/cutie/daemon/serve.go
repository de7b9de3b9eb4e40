package daemon

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/listen"
	"cutie/cmd/cutie/mirror"
	"cutie/cmd/cutie/traces"
	"cutie/queuefs/durable"
	"cutie/queuefs/events"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest"
	"cutie/queuefs/uws"
	"cutie/queuefs/web"
)

// Limits of a connection.
const (
	maxHeader  = 32 << 10 // bytes
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	pingTime   = 30 * time.Second // of silence on an HTTP/2 connection
	maxStreams = 100              // requests at once on such a connection
	maxUnread  = 512 << 10        // bytes of the body of such a request that its handler has not read yet
	maxUnsent  = 64 << 10         // bytes of answers in TLS that the system keeps besides those under way
	stallTime  = 30 * time.Second // without progress of an answer over HTTP/2
)

// run serves on ln and on the socket of the home, and returns after the last
// request and the last tick.
func (d *daemon) run(ctx context.Context, ln net.Listener) error {
	ctx, unhook := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer unhook()

	tracer, err := traces.New(ctx, d.svc, d.Traces)
	if err != nil {
		return err
	}
	lost := make(chan error, 1)
	d.node = newNode(d.svc, d.Node, d.Log, func() time.Duration { return time.Duration(d.grace.Load()) }, lost)
	figures := newMeter(d.collectors()...)
	past, err := d.openHistory()
	if past == nil {
		return err
	}
	if err != nil {
		d.Log.Error().Err(err).Msg("charts begin anew")
	}
	pages := d.newBoard(ctx, past)
	defer pages.Hub.Close()
	sampler := dashboard.NewSampler(d.svc, d.pub, past)
	counts := quota.New(d.svc)
	var rows []web.Route
	protocol := rest.New(d.svc, rest.Options{
		Description: description(&rows), Reads: mayRead,
		Taken: both(figures.taken, sampler.Taken), Concluded: both(figures.concluded, sampler.Concluded), Trace: tracer.Headers,
		Pages: dashboard.Pages{Asides: pages}, Log: d.failed, MaxBody: d.Limits.Body, Fetch: d.fetch, Quota: counts, Streams: events.Limits{Streams: max(1, d.Limits.Conns/2)},
	})
	jobs := uws.New(d.svc, uws.Options{Page: dashboard.Pages{}.UWS, Caller: callerOf, Security: d.security, Quota: counts, MaxBody: d.Limits.Body, Log: d.failed})
	socket, local, err := d.listenLocal(ctx)
	if err != nil {
		return errors.Join(err, jobs.Close())
	}
	defer socket.Close()
	mirrors := mirror.New(d.svc, d.mirrorOptions())
	pages.Differences, pages.Batches = mirrors.Differences, protocol.Batches
	tcp := listen.Limit(ln, d.Limits.Conns).Trusting(d.Listen.Proxies)
	server := d.newServer(d.newSite(ctx, figures, &rows, protocol, jobs, d.messages(counts), mirrors, d.node, pages), tcp)

	if err := d.Opening.Stop(); err != nil {
		return errors.Join(err, jobs.Close())
	}
	var wg sync.WaitGroup
	failed := d.serveOn(&wg, server, tcp, local)
	d.supervisor.ready(d.svc.Info().BaseURI)
	// The loops outlive the requests, which may wait for a file to be written.
	loops, endLoops := context.WithCancel(context.WithoutCancel(ctx))
	for _, l := range slices.Concat(d.loops(jobs, tcp), d.lookout(lost), d.node.loops(), []loop{{"charts", dashboard.SampleEvery, sampler.Sample}, d.supervised(ctx, d.svc.Info().BaseURI), {"traces", maintainEvery, tracer.Tick}}) {
		wg.Go(func() { d.every(loops, l) })
	}
	d.Opening.End()
	wg.Go(func() { d.hear(loops, tracer) })
	wg.Go(func() { mirrors.Run(loops) })
	wg.Go(func() { d.pub.KeepUp(loops) })

	d.Log.Info().Str("home", d.svc.Dir()).Str("listen", ln.Addr().String()).Msg("serving")
	if err := d.Ready(d.svc.Info().BaseURI); err != nil {
		d.Log.Warn().Err(err).Msg("addresses not printed")
	}
	var broken error
	select {
	case <-ctx.Done():
	case broken = <-failed:
	case broken = <-lost:
		d.Log.Error().Err(broken).Msg("the home in the store cannot be served on")
	}
	d.Log.Info().Msg("stopping")
	d.supervisor.stopping()
	d.svc.StopWithin(filesTime)
	// From here a second signal ends the process at once. Acknowledged changes
	// are in the journal.
	unhook()
	protocol.Close()
	err = errors.Join(broken, d.stop(server))
	endLoops()
	wg.Wait()
	d.push.hub.Wait()
	tracer.Close()
	if err := past.Close(); err != nil { // a full disk is no reason to fail
		d.Log.Error().Err(err).Msg("charts of the last minute are lost")
	}
	return errors.Join(err, jobs.Close(), d.record.Close())
}

// newServer returns a server with the limits of a connection.
func (d *daemon) newServer(site http.Handler, tcp *listen.Limiter) *http.Server {
	server := &http.Server{
		Handler:           site,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingTime, MaxConcurrentStreams: maxStreams,
			MaxReceiveBufferPerStream: maxUnread, WriteByteTimeout: stallTime},
		ConnContext: rememberConn,
		ConnState:   tcp.Ended,
		ErrorLog:    stdlog.New(lineLog{d.Log}, "", 0),
	}
	if d.Listen.Certificate != nil {
		server.TLSConfig = d.Listen.Certificate.Config()
	}
	return server
}

// serveOn starts the server on the port and, unless local is nil, on the socket of the home.
// failed gets the error of one that ends before the server does.
func (d *daemon) serveOn(wg *sync.WaitGroup, server *http.Server, tcp *listen.Limiter, local net.Listener) (failed <-chan error) {
	errs := make(chan error, 2)
	serve := func(on func() error) {
		wg.Go(func() {
			if err := on(); !errors.Is(err, http.ErrServerClosed) {
				errs <- err
			}
		})
	}
	if server.TLSConfig == nil {
		serve(func() error { return server.Serve(tcp) })
	} else {
		serve(func() error { return server.ServeTLS(tcp, "", "") })
	}
	if local != nil {
		serve(func() error { return server.Serve(local) })
	}
	return errs
}

// newSite builds the site over all rooms, with rows as its route table; leaving ends when
// the daemon begins to stop.
func (d *daemon) newSite(leaving context.Context, figures *meter, rows *[]web.Route, protocol *rest.Handler, others ...room) *site {
	s := d.emptySite(leaving, protocol)
	s.meter = figures
	rooms := slices.Concat([]room{protocol}, others, d.push.rooms(d.pub))
	*rows = d.routes(s, rooms...)
	s.open(web.NewRouter(s.refuse, proveRefusals(d.svc, *rows)...))
	return s
}

// emptySite is a site without routes.
func (d *daemon) emptySite(leaving context.Context, protocol *rest.Handler) *site {
	return &site{
		log:     d.Log,
		cors:    d.CORS,
		leaving: leaving,
		names:   d.names,
		node:    d.node,
		pace:    defaultPace,
		refuse:  protocol.Error,
		gate:    d.gate,
		browser: d.browser,
		proxies: d.Listen.Proxies,
		crowd:   d.crowd,
		memory:  d.memory,
		streams: &access.Places{Max: d.Limits.Conns, Trusted: d.Listen.Proxies},
		record:  d.record.Add,
	}
}

// listenLocal listens on the socket of the home. On a full disk there is none.
func (d *daemon) listenLocal(ctx context.Context) (*listen.Socket, net.Listener, error) {
	socket, err := listen.OpenSocket(d.svc.Dir())
	if err != nil {
		return nil, nil, err
	}
	local, err := socket.Listen(ctx)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		// Over TCP jobs can be consumed, deleted and culled, and that frees space.
		d.Log.Error().Err(err).Msg("no socket of the home until the daemon is started again: commands need --url")
		return socket, nil, nil
	case err != nil:
		return nil, nil, errors.Join(fmt.Errorf("socket of the home: %w", err), socket.Close())
	}
	return socket, local, nil
}

// mayRead reports whether the caller of a request may read the jobs of a queue.
func mayRead(r *http.Request, queue string) bool {
	return access.CallerOf(r.Context()).May(web.Read, queue)
}

// callerOf describes the caller to UWS.
func callerOf(r *http.Request, queue string) uws.Caller {
	c := access.CallerOf(r.Context())
	own := !c.May(web.Read, queue)
	return uws.Caller{Name: c.Name, Own: own, Stranger: own && !c.May(web.Submit, queue), Delete: c.May(web.Delete, queue), Admin: c.May(web.Admin, queue)}
}

// security describes to UWS who may submit to a queue.
func (d *daemon) security(queue string) uws.Security {
	return uws.Security{Anonymous: d.Access.Anonymous.Allow(web.Submit, queue), Users: d.Access.Users != ""}
}

// stop ends the server: no new connections, and an end for requests in progress
// when the grace is over.
func (d *daemon) stop(server *http.Server) error {
	start, grace := time.Now(), time.Duration(d.grace.Load())
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		d.Log.Warn().Dur("grace", grace).Msg("requests cut off")
		err = server.Close()
	}
	d.Log.Info().Dur("ms", time.Since(start)).Msg("requests ended")
	return err
}

// fullEvery is the pause between logs of requests refused on a full disk: a log
// of each would fill the rest.
const fullEvery = 10 * time.Second

// failed logs why a request was answered with 500, 503 or 507.
func (d *daemon) failed(r *http.Request, err error) {
	if errors.Is(err, ledger.ErrNoSpace) {
		now, last := time.Now().UnixNano(), d.full.Load()
		if now-last < int64(fullEvery) && now >= last || !d.full.CompareAndSwap(last, now) {
			return
		}
	}
	d.Log.Error().Err(err).Str("method", r.Method).Str("path", r.URL.Path).Msg("request failed")
}

// Live pages are looked at every two seconds. A stream ends after a minute: a user without
// a right any more sees a queue for no longer than that.
const (
	liveEvery    = 2 * time.Second
	liveLifetime = time.Minute
	liveIdle     = 30 * time.Second
)

// openHistory opens the figures behind the charts. The error says why they begin anew.
func (d *daemon) openHistory() (*dashboard.History, error) {
	dir, err := durable.OpenDir(filepath.Join(d.svc.Dir(), "log"), nil)
	if err != nil {
		return nil, err
	}
	return dashboard.OpenHistory(dir)
}

// largeJob is the octets of a submission that people should be able to make.
const largeJob = 16 << 20

// newBoard returns the pages for operators.
func (d *daemon) newBoard(leaving context.Context, past *dashboard.History) *dashboard.Board {
	return &dashboard.Board{
		Service:   d.svc,
		History:   past,
		Published: d.push.published(d.pub),
		Hub: &dashboard.Hub{Every: liveEvery, Lifetime: liveLifetime, Idle: liveIdle, Watchers: max(1, d.Limits.Conns/2), Panicked: func(p any) {
			d.Log.Error().Interface("panic", p).Str("stack", string(debug.Stack())).Msg("live page panicked")
		}},
		Trouble: func() (all []dashboard.Trouble) {
			if t := troubleOf(ready(leaving, d.svc, d.pub, d.unwritten.Load()), d.svc); t.Text != "" {
				all = append(all, t)
			}
			if n := len(d.svc.Lost()); n > 0 {
				all = append(all, dashboard.Trouble{Text: fmt.Sprintf("%d queues are not served: their directories are lost.", n), Topic: dashboard.OnTrouble})
			}
			for _, text := range d.node.trouble() {
				all = append(all, dashboard.Trouble{Text: text, Topic: dashboard.OnTrouble})
			}
			return all
		},
	}
}

// troubleOf says in words for everyone why requests are refused, or will be soon; the zero
// Trouble if they are not. err is that of ready.
func troubleOf(err error, storage disk) dashboard.Trouble {
	switch {
	case errors.Is(err, ledger.ErrNoSpace):
		return dashboard.Trouble{Text: "The disk is full: submissions and results are refused, the rest goes on, and nothing is lost.", Topic: dashboard.OnFullDisk}
	case errors.Is(err, errStorage):
		return dashboard.Trouble{Text: err.Error(), Topic: dashboard.OnFailedSync}
	case err != nil:
		return dashboard.Trouble{Text: err.Error(), Topic: dashboard.OnTrouble}
	case !storage.HasSpace(largeJob):
		return dashboard.Trouble{Text: "The disk is nearly full: large submissions are refused, the rest goes on, and nothing is lost.", Topic: dashboard.OnFullDisk}
	}
	return dashboard.Trouble{}
}

// both returns a hook that calls two others.
func both(one, two func(*job.Job)) func(*job.Job) {
	return func(j *job.Job) {
		one(j)
		two(j)
	}
}
