package daemon

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/callback"
	"cutie/cmd/cutie/dashboard"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/outbound"
	"cutie/queuefs/rest"
	"cutie/queuefs/uws"
	"cutie/queuefs/web"
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

// Options are the settings of a daemon.
type Options struct {
	Log     zerolog.Logger
	Hangup  <-chan os.Signal // asks for a new access log, see [Withstand]
	Listen  Listen
	Access  access.Options // Run sets Queue
	Implied bool           // everybody on this machine may do all, and nobody else anything
	Limits  Limits
	Source  publisher.Options // Run sets BaseURI, and the functions
	Push    PushOptions
	Fetch   *outbound.Client // fetches for manifests, callbacks and hubs
	Robots  bool             // /robots.txt names Resource Lists
	CORS    *wellknown.CORS  // nil: pages of others read nothing

	AccessLog AccessLog
	Ready     func(base string) error // called when clients are answered
}

// Listen says where a daemon listens.
type Listen struct {
	Addr        *net.TCPAddr
	BaseURI     string         // with a slash at its end; "": that of the address
	Certificate *Certificate   // nil: no TLS
	Proxies     access.Proxies // believed what they say of their clients
}

// Limits are those of a daemon.
type Limits struct {
	Body  int64 // bytes
	Conns int
	Waits int           // requests of one client
	Grace time.Duration // for requests in progress when the daemon stops
}

// AccessLog bounds the access log.
type AccessLog struct {
	Max  int64 // bytes of a file; 0 lets it grow
	Keep int   // old files
}

// A daemon serves an open home until it is told to stop.
type daemon struct {
	Options
	full atomic.Int64 // when a request was logged last that found no room, ns
	svc  *queuefs.Service
	pub  *publisher.Publisher
	send *callback.Sender
	push *push // nil: nobody is told

	gate    *access.Gate
	browser *access.Browser
	record  *access.Log // the daemon closes it
}

// Run serves an open home until ctx ends or the process is told to stop. It
// builds the daemon from the disk outwards: storage, publisher, listeners, and
// takes it down in the opposite order. It closes svc.
func Run(ctx context.Context, svc *queuefs.Service, o Options) (err error) {
	tune()
	log := o.Log
	// The followers go last: the last checkpoint brings them up to date.
	var (
		pub  *publisher.Publisher
		send *callback.Sender
	)
	defer func() {
		err = errors.Join(err, closeHome(svc, log))
		if send != nil {
			err = errors.Join(err, send.Close())
		}
		if pub != nil {
			err = errors.Join(err, pub.Close())
		}
		log.Info().Err(err).Msg("stopped")
	}()

	ln, err := listenTCP(o.Listen.Addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	base, err := o.baseURI(ln.Addr())
	if err != nil {
		return err
	}
	svc.SetBaseURI(base)

	source := o.Source
	source.BaseURI = base
	source.Report, source.HasSpace = damage(log), svc.Spares
	if pub, err = publisher.New(svc, source); err != nil {
		return err
	}
	if send, err = callback.New(svc, callback.Options{Doer: o.Fetch, Report: damage(log), Turned: turned(log)}); err != nil {
		return err
	}
	svc.Follow(pub, send)

	d := &daemon{Options: o, svc: svc, pub: pub, send: send}
	d.Access.Queue = queueNamed(svc)
	if d.gate, err = access.New(d.Access); err != nil {
		return err
	}
	if d.push, err = openPush(svc, pub, d.gate, d.Access, o.Fetch, log, o.Push); err != nil {
		return err
	}
	if d.push != nil {
		defer func() { err = errors.Join(err, d.push.Close()) }() // before what it reads from
	}
	if d.browser, err = access.NewBrowser(base, o.Implied); err != nil {
		return err
	}
	if d.record, err = access.OpenLog(filepath.Join(svc.Dir(), "log", accessFile), o.AccessLog.Max, o.AccessLog.Keep); err != nil {
		return err
	}
	return d.run(ctx, ln)
}

// accessFile is the daemon's access log in log/ of a home.
const accessFile = "web-access.txt"

// baseURI is what the operator says, or where the daemon listens.
func (o *Options) baseURI(addr net.Addr) (string, error) {
	if o.Listen.BaseURI != "" {
		return o.Listen.BaseURI, nil
	}
	scheme := "http"
	if o.Listen.Certificate != nil {
		scheme = "https"
	}
	a := addr.(*net.TCPAddr)
	host := a.IP.String()
	if a.IP.IsUnspecified() {
		name, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("no base URI: %w", err)
		}
		host = name
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(a.Port)) + "/", nil
}

// queueNamed finds the queue that a name in a request means.
func queueNamed(svc *queuefs.Service) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		q, err := svc.Queue(name)
		if err != nil {
			return "", false
		}
		return q.ID(), true
	}
}

// run serves on ln and on the socket of the home, and returns after the last
// request and the last tick.
func (d *daemon) run(ctx context.Context, ln net.Listener) error {
	ctx, unhook := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer unhook()

	tcp := limit(ln, d.Limits.Conns).trusting(d.Listen.Proxies)
	of := []prometheus.Collector{storageMetrics(d.svc), publishingMetrics(d.pub), callbackMetrics(d.send)}
	if d.push != nil {
		of = append(of, hubMetrics(d.push.hub))
	}
	figures := newMeter(of...)
	protocol := rest.New(d.svc, rest.Options{
		Taken: figures.taken, Concluded: figures.concluded,
		Pages: dashboard.Pages{}, Log: d.failed, MaxBody: d.Limits.Body, Fetch: d.Fetch, MaxStreams: max(1, d.Limits.Conns/2),
	})
	jobs, err := uws.New(d.svc, uws.Options{Pages: dashboard.Pages{}, Caller: callerOf, MaxBody: d.Limits.Body, Log: d.failed})
	if err != nil {
		return err
	}
	s := &site{
		log:     d.Log,
		cors:    d.CORS,
		meter:   figures,
		leaving: ctx,
		prefix:  basePath(d.svc.Info().BaseURI),
		pace:    defaultPace,
		refuse:  protocol.Error,
		gate:    d.gate,
		browser: d.browser,
		proxies: d.Listen.Proxies,
		crowd:   &access.Crowd{Max: d.Limits.Waits},
		record:  d.record.Add,
	}
	s.router = web.NewRouter(s.refuse, answerPlainly(d.routes(s, append([]room{protocol, jobs, d.messages()}, d.push.rooms(d.pub)...)...), protocol.Refuser())...)
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: pingTime, MaxConcurrentStreams: maxStreams},
		ConnContext:       rememberConn,
		ConnState:         tcp.ended,
		ErrorLog:          stdlog.New(lineLog{d.Log}, "", 0),
	}

	socket, err := OpenSocket(d.svc.Dir())
	if err != nil {
		return errors.Join(err, jobs.Close())
	}
	defer socket.Close()
	local, err := socket.listen(ctx)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		// Over TCP jobs can be consumed, deleted and culled, which makes room.
		d.Log.Error().Err(err).Msg("no socket of the home until the daemon is started anew: commands need --url")
	case err != nil:
		return errors.Join(fmt.Errorf("socket of the home: %w", err), jobs.Close())
	}

	var wg sync.WaitGroup
	failed := make(chan error, 2)
	overTCP := func() error { return server.Serve(tcp) }
	if d.Listen.Certificate != nil {
		server.TLSConfig = d.Listen.Certificate.config()
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
	if d.Listen.Certificate != nil {
		wg.Go(func() { d.every(loops, lookEvery, "certificate", plain(d.Listen.Certificate.reload)) })
	}
	wg.Go(func() { d.reopen(loops) })

	d.Log.Info().Str("home", d.svc.Dir()).Str("listen", ln.Addr().String()).Msg("serving")
	if err := d.Ready(d.svc.Info().BaseURI); err != nil {
		d.Log.Warn().Err(err).Msg("what to open is not printed")
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
	return uws.Caller{Name: c.Name, Own: !c.May(web.Read, queue), Delete: c.May(web.Delete, queue), Admin: c.May(web.Admin, queue)}
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
		d.Log.Info().Int("jobs", n).Int64("octets", octets).Msg("culled")
	}
	return nil
}

// reload takes in settings that were changed by hand.
func (d *daemon) reload(ctx context.Context) error {
	changed, err := d.svc.Reload(ctx)
	if len(changed) > 0 {
		d.Log.Info().Strs("queues", changed).Msg("settings read again")
	}
	return err
}

// reopen opens the access log anew on each SIGHUP.
func (d *daemon) reopen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.Hangup:
			err := d.record.Reopen()
			d.Log.Info().Err(err).Msg("access log reopened")
		}
	}
}

// stop ends the server: no new connections, the requests in progress to their
// end, or to the end of the grace.
func (d *daemon) stop(server *http.Server) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), d.Limits.Grace)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		d.Log.Warn().Dur("grace", d.Limits.Grace).Msg("requests cut off")
		err = server.Close()
	}
	d.Log.Info().Dur("ms", time.Since(start)).Msg("requests ended")
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
	d.Log.Error().Err(err).Str("method", r.Method).Str("path", r.URL.Path).Msg("request failed")
}

// every calls task until ctx ends, and says when it begins to fail and when it
// works again.
func (d *daemon) every(ctx context.Context, period time.Duration, name string, task func(context.Context) error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	errs := changeLog{log: d.Log, what: name}
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
