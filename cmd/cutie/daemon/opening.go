package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/listen"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest"
	"cutie/queuefs/web"
)

// An Opening stands in for a daemon while it opens a home in a store, which may take long:
// it answers requests with 503, and gives the signs of life of an owner. Its zero value
// does neither. Its methods are for one caller at a time but for Own, and nil does nothing.
type Opening struct {
	Log         zerolog.Logger
	Certificate *listen.Certificate // nil: no TLS
	Node        *NodeOptions

	server *http.Server
	served chan error
	door   door

	mu    sync.Mutex
	beats context.CancelFunc // nil: none are given
	wg    sync.WaitGroup
}

// openingPause is how long requests wait before the first is answered: mostly the home is
// open by then.
const openingPause = time.Second

// Answer answers requests on ln after a moment, until Stop.
func (o *Opening) Answer(ln net.Listener) {
	if o == nil || o.server != nil {
		return
	}
	o.server = &http.Server{Handler: http.HandlerFunc(answerOpening), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		WriteTimeout: openingPause + stallTime, Protocols: new(http.Protocols), ErrorLog: stdlog.New(lineLog{o.Log}, "", 0)}
	o.server.Protocols.SetHTTP1(true)
	if o.Certificate != nil {
		o.server.TLSConfig = o.Certificate.Config()
	}
	o.door, o.served = door{ln}, make(chan error, 1)
	server, on, pause := o.server, o.door, time.NewTimer(openingPause)
	stopped := make(chan struct{})
	server.RegisterOnShutdown(func() { close(stopped) })
	go func() {
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-stopped:
		}
		if server.TLSConfig == nil {
			o.served <- server.Serve(on)
			return
		}
		o.served <- server.ServeTLS(on, "", "")
	}()
}

// Stop ends the answers. The listener stays open.
func (o *Opening) Stop() error {
	if o == nil || o.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openingPause)
	defer cancel()
	err := o.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = o.server.Close()
	}
	if e := <-o.served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	o.server = nil
	return errors.Join(err, o.door.open())
}

// answerOpening answers: the home is being opened.
func answerOpening(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Path == "/livez" {
		io.WriteString(w, "ok\n")
		return
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintln(w, "the home is being opened, ask again in a moment")
}

// Own gives signs of life of an owner until End: no standby takes the home meanwhile.
func (o *Opening) Own(p *bucket.Pulse) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.beats != nil {
		o.beats()
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.beats = cancel
	o.wg.Go(func() {
		p.Keep(ctx, o.Node.beat(), func(err error) { o.Log.Warn().Err(err).Msg("sign of life") })
	})
}

// End ends the signs of life.
func (o *Opening) End() {
	if o == nil {
		return
	}
	o.mu.Lock()
	if o.beats != nil {
		o.beats()
		o.beats = nil
	}
	o.mu.Unlock()
	o.wg.Wait()
}

// earlyRoutes are the paths, up to the queue, of requests answered before the published
// documents of a home in a store have come: workers take jobs and report, others submit and
// look. Nothing here removes a job or a queue.
var earlyRoutes = []string{"GET /help", "GET /openapi.json", "GET /state", "POST /content/", "GET /content/", "POST /consume/", "POST /requeue/",
	"POST /lease/", "POST /outcome/", "PUT /result/", "GET /result/"}

// mayBeEarly reports whether a route is one of [earlyRoutes].
func mayBeEarly(r *web.Route) bool {
	for _, early := range earlyRoutes {
		method, path, _ := strings.Cut(early, " ")
		if r.Method == method && (r.Path == path || strings.HasPrefix(r.Path, strings.TrimSuffix(path, "/")+"/")) {
			return true
		}
	}
	return false
}

// errEarly is the answer to all other requests.
var errEarly = &web.Error{Status: http.StatusServiceUnavailable, Message: "the published documents of the home are on their way from its store, ask again in a moment"}

// earlyAgain is the Retry-After of errEarly, in seconds.
const earlyAgain = "2"

// serveEarly hands out jobs on ln while the published documents of a home in a store come. A
// request in progress ends by itself when serveEarly has returned. Of a signal to stop the
// error is [context.Canceled].
func (d *daemon) serveEarly(ctx context.Context, ln net.Listener) error {
	ctx, unhook := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer unhook()
	began := time.Now()
	protocol := rest.New(d.svc, rest.Options{Pages: dashboard.Pages{}, Reads: mayRead, Log: d.failed, MaxBody: d.Limits.Body, Fetch: d.fetch, Quota: quota.New(d.svc)})
	defer protocol.Close()
	s := d.newEarlySite(ctx, protocol)
	door := door{ln}
	on := listen.Limit(door, d.Limits.Conns).Trusting(d.Listen.Proxies)
	server := d.newServer(s, on)
	failed := make(chan error, 1)
	if err := d.Opening.Stop(); err != nil {
		return err
	}
	go func() {
		if server.TLSConfig == nil {
			failed <- server.Serve(on)
			return
		}
		failed <- server.ServeTLS(on, "", "")
	}()
	d.Log.Info().Msg("jobs are handed out, published documents are on their way from the store")
	come := make(chan error, 1)
	go func() { come <- d.svc.Published() }()
	var err error
	select {
	case err = <-come:
	case err = <-failed:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	}
	protocol.Close() // waiting consumers ask again
	err = errors.Join(err, d.stop(server))
	if e := <-failed; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	if err == nil {
		err = door.open()
	}
	if err == nil {
		d.Opening.Answer(ln)
		d.Log.Info().Dur("ms", time.Since(began)).Msg("published documents have come")
	}
	return err
}

// newEarlySite is the site with the early routes.
func (d *daemon) newEarlySite(leaving context.Context, protocol *rest.Handler) *site {
	s := d.emptySite(leaving, protocol)
	var rows []web.Route
	for _, r := range protocol.Routes() {
		if !mayBeEarly(&r) {
			r.Serve = tooEarly
		}
		rows = append(rows, r)
	}
	rows = append(rows, web.Route{Method: http.MethodGet, Path: "/livez", Serve: func(w http.ResponseWriter, _ *http.Request) error { return probe(w, nil) }},
		web.Route{Method: http.MethodGet, Path: "/readyz", Serve: func(w http.ResponseWriter, _ *http.Request) error { return probe(w, d.svc.Err()) }})
	s.open(web.NewRouter(func(w http.ResponseWriter, r *http.Request, err error) {
		if e, _ := web.ErrorOf(err); e.Status == http.StatusNotFound {
			err = tooEarly(w, r) // there may be a route later
		}
		s.refuse(w, r, err)
	}, proveRefusals(d.svc, rows)...))
	return s
}

func tooEarly(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Retry-After", earlyAgain)
	return errEarly
}

// A door is a listener that is left open when its server ends: the next server goes on with
// it, once open is called.
type door struct{ net.Listener }

// A timedListener can end Accept.
type timedListener interface{ SetDeadline(time.Time) error }

// Close ends Accept, and leaves the listener open.
func (d door) Close() error { return d.Listener.(timedListener).SetDeadline(time.Unix(1, 0)) }

func (d door) open() error { return d.Listener.(timedListener).SetDeadline(time.Time{}) }
