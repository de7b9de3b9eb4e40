package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/callback"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/outbound"
	"cutie/wellknown"
)

var serveVerb = verb{
	name:    "serve",
	aliases: []string{"daemon"},
	about:   "serve a home over HTTP and publish it",
	takes:   atHome,
	manual: `
A home that does not exist is created, with one queue named jobs. The daemon
prints what to open, serves until it is interrupted, and then ends the
requests in progress and leaves every file exact, which takes a while after a
burst; then it says how many jobs are left. A second interrupt ends it at once;
nothing that was acknowledged is lost then either.

While it runs, the other commands find it through its socket in the home.

References in answers and published documents begin with the base URI: the
option's, or that of cutie-info.txt, or the address listened on.

Who may do what: whoever can open the socket in the home may do everything.
Over the network, --users names the file that cutie user and cutie token write;
it is read again when it changes. --anonymous gives rights to those without a
name, as a list such as read,submit:ingest (see cutie help user), all or none.
With neither, everybody on this machine may do everything; the daemon listens on
loopback only, and knows no other name than that of the base URI. Passwords and
tokens are safe on the way only with TLS: with --tls-cert and --tls-key, PEM files
that are read again when they change, or behind a proxy. Requests by pages of
other sites that would change something are refused.

A proxy is believed what X-Forwarded-For says of its clients if --trusted-proxy
lists its address. It should pass on Host.

Whoever may read a queue may subscribe to its changes at the hub of the daemon,
/hub, by WebSub; the Capability Lists name the topics. Callbacks that are not
public are refused unless --allow-fetch names them. Each --hub is told of changes
too, and fetches them, or gets them with --hub-payload:
cutie serve --hub https://hub.example.org/

Every request becomes a line of log/web-access.txt in the home, in the Combined
Log Format. A file that has grown to --log-max becomes web-access.txt.1, and so
on; after SIGHUP it is opened by its name again.`,
	setup: setupServe,
}

type serveOptions struct {
	listen    string
	baseURI   string
	users     string
	anonymous string
	tlsCert   string
	tlsKey    string
	proxies   []string
	maxBody   octets
	maxConns  int
	maxWaits  int
	fetch     []string
	source    sourceOptions
	robots    bool
	cors      string
	push      pushOptions
	logMax    octets
	logKeep   int
	logLevel  string
	logFormat string
	grace     time.Duration
}

const defaultListen = "127.0.0.1:8080"

func setupServe(fs *pflag.FlagSet) action {
	var o serveOptions
	fs.StringVarP(&o.listen, "listen", "l", defaultListen, "`address` to listen on; port 0 takes a free one")
	fs.StringVar(&o.baseURI, "base-uri", "", "`URI` under which clients reach this daemon")
	fs.StringVar(&o.users, "users", os.Getenv(usersVariable), "`file` of users and tokens (environment "+usersVariable+")")
	fs.StringVar(&o.anonymous, "anonymous", "", "`rights` of those without a name: read, submit, all, none, or a list\n(default none with --users, else all on loopback)")
	fs.StringVar(&o.tlsCert, "tls-cert", "", "`file` of the certificate chain, for TLS")
	fs.StringVar(&o.tlsKey, "tls-key", "", "`file` of its key")
	fs.StringSliceVar(&o.proxies, "trusted-proxy", nil, "`network` of proxies to believe, such as 10.0.0.0/8; may be repeated")
	o.maxBody = 16 << 30
	fs.Var(&o.maxBody, "max-body", "largest submission, such as 64M or 16G")
	fs.IntVar(&o.maxConns, "max-conns", 10_000, "`number` of connections at once; one address gets as many as it leaves to others,\nso half of them if it is alone; a trusted proxy gets all")
	fs.IntVar(&o.maxWaits, "max-waits", 1000, "`number` of requests of one address that may wait at once")
	o.source.flags(fs)
	fs.StringSliceVar(&o.fetch, "allow-fetch", nil, "`pattern` of hosts that manifests, callbacks and hubs may reach although they are\nnot public: host, *.host, address or network, each with :port or not; may be repeated")
	fs.BoolVar(&o.robots, "robots", false, "answer /robots.txt with the Resource Lists that the asker may read")
	fs.StringVar(&o.cors, "cors", "", "`origin` whose pages may read, such as https://example.org, or *")
	o.push.flags(fs)
	o.logMax = defaultLogMax
	fs.Var(&o.logMax, "log-max", "size of an access log; 0 lets it grow")
	fs.IntVar(&o.logKeep, "log-keep", defaultLogKeep, "`number` of old access logs to keep")
	fs.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn, error or disabled")
	fs.StringVar(&o.logFormat, "log-format", "", "json or console (default console on a terminal, else json)")
	fs.DurationVar(&o.grace, "grace", 10*time.Second, "`time` for requests in progress to end when stopping")
	return func(ctx context.Context, c *call) error { return serve(ctx, c, o) }
}

// serve brings a home up, from the disk outwards: storage, publisher,
// listeners. What is up is taken down in the opposite order.
func serve(ctx context.Context, c *call, o serveOptions) (err error) {
	log, err := newLog(c.stderr, o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	hup := withstand()
	guard, err := o.guard(log)
	if err != nil {
		return err
	}
	if o.baseURI != "" {
		if o.baseURI, err = cleanBase(o.baseURI); err != nil {
			return err
		}
	}
	if err := o.source.check(); err != nil {
		return err
	}
	if err := o.push.check(); err != nil {
		return err
	}
	if o.grace < 0 {
		return usagef("--grace %v is less than no time", o.grace)
	}
	addr, err := resolve(o.listen, !guard.implied)
	if err != nil {
		return err
	}
	if o.users != "" && guard.cert == nil && guard.proxies == nil && !addr.IP.IsLoopback() {
		log.Warn().Msg("passwords and tokens are not safe on the way: use --tls-cert and --tls-key, or a proxy that has TLS")
	}
	fetch, err := outbound.New(outbound.Options{Allow: o.fetch})
	if err != nil {
		return usagef("--allow-fetch: %v", err)
	}
	defer fetch.Close()
	var cors *wellknown.CORS
	if o.cors != "" {
		if cors, err = wellknown.NewCORS(o.cors); err != nil {
			return usagef("--cors: %v", err)
		}
	}
	tune()

	svc, err := openHome(ctx, c.home, log)
	if err != nil {
		return err
	}
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

	ln, err := listenTCP(addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	scheme := "http"
	if guard.cert != nil {
		scheme = "https"
	}
	base, err := baseURI(o.baseURI, svc.Info().BaseURI, scheme, ln.Addr())
	if err != nil {
		return err
	}
	svc.SetBaseURI(base)

	source, err := o.source.complete(svc.Dir(), base)
	if err != nil {
		return withHint(fmt.Errorf("no telling in which version of ResourceSync this was published: %w", err),
			"--dialect 1.1, 1.0 or 0.9 says which version was published; with another one all lists begin anew")
	}
	source.Report, source.Busy, source.Room = damage(log), svc.Burst, svc.Spares
	if pub, err = publisher.New(svc, source); err != nil {
		return err
	}
	if send, err = callback.New(svc, callback.Options{Doer: fetch, Report: damage(log), Turned: turned(log)}); err != nil {
		return err
	}
	svc.Follow(pub, send)

	d := &daemon{log: log, hup: hup, svc: svc, pub: pub, send: send, fetch: fetch, grace: o.grace, proxies: guard.proxies, cert: guard.cert,
		maxBody: int64(o.maxBody), maxConns: o.maxConns, maxWaits: o.maxWaits}
	if o.robots {
		d.robots = http.HandlerFunc(d.listForRobots)
	}
	d.cors = cors
	if d.gate, err = guard.gate(svc); err != nil {
		return err
	}
	if d.push, err = openPush(svc, pub, d.gate, guard.Options, fetch, log, o.push); err != nil {
		return err
	}
	if d.push != nil {
		defer func() { err = errors.Join(err, d.push.Close()) }() // before what it reads from
	}
	if d.browser, err = access.NewBrowser(base, guard.implied); err != nil {
		return err
	}
	if d.record, err = access.OpenLog(filepath.Join(svc.Dir(), "log", webAccess), int64(o.logMax), o.logKeep); err != nil {
		return err
	}
	return d.run(ctx, ln, func() error { return welcome(c.stdout, svc, base) })
}

// openHome opens dir, and makes a home of it first if there is nothing, or no
// more than an attempt at that has left.
func openHome(ctx context.Context, dir string, log zerolog.Logger) (*queuefs.Service, error) {
	fresh, err := queuefs.Unmade(dir)
	if err != nil {
		return nil, err
	}
	if fresh {
		if err := queuefs.Init(dir, named(queuefs.ServiceInfo{}, dir)); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Report: damage(log)})
	if err != nil {
		return nil, homeHint(dir, err)
	}
	if fresh && len(svc.Queues()) == 0 {
		_, err := svc.CreateQueue(ctx, queuefs.QueueInfo{ID: "jobs", Name: "jobs",
			CullingSize: -1, CullingAge: -1, VerifyOnWrite: true})
		if err != nil {
			return nil, errors.Join(err, svc.Close())
		}
		log.Info().Str("home", dir).Msg("home created")
	}
	return svc, nil
}

// closeHome closes the service. After a burst there may be many files to write
// yet; then it says so now and then.
func closeHome(svc *queuefs.Service, log zerolog.Logger) error {
	const many, pause = 10_000, 10 * time.Second
	say := func() {
		if n := svc.Unfiled(); n > many {
			log.Info().Int("jobs", n).Msg("writing the files of jobs; to interrupt that loses nothing, the next start goes on")
		}
	}
	say()
	done := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say()
			case <-done:
				return
			}
		}
	})
	err := svc.Close()
	close(done)
	saying.Wait()
	return err
}

// damage logs what was found damaged and set aside.
func damage(log zerolog.Logger) func(queuefs.Problem) {
	return func(p queuefs.Problem) {
		log.Error().Str("path", p.Path).Str("text", p.Text).Msg("problem in the home")
	}
}

// turned logs that callbacks of a queue begin to fail, or work again.
func turned(log zerolog.Logger) func(queue string, err error) {
	return func(queue string, err error) {
		if err != nil {
			log.Error().Str("queue", queue).Err(err).Msg("callback failed")
			return
		}
		log.Info().Str("queue", queue).Msg("callback works again")
	}
}

// homeHint adds to an error of opening a home what can be done about it.
func homeHint(dir string, err error) error {
	var locked *queuefs.LockedError
	switch {
	case errors.As(err, &locked):
		return withHint(err, "stop that process, or use another home with --home DIR")
	case errors.Is(err, queuefs.ErrNoHome):
		return withHint(err, "cutie init "+dir+" makes a home of this directory, cutie check --rebuild "+dir+" one of copied queues")
	case errors.Is(err, fs.ErrNotExist):
		return withHint(err, "cutie init "+dir+" makes a home, cutie serve --home "+dir+" makes and serves one")
	}
	return err
}

// baseURI decides under which URI the daemon is known: asked for, configured
// in the home, or where it listens.
func baseURI(option, configured, scheme string, addr net.Addr) (string, error) {
	uri := option
	if uri == "" {
		uri = configured
	}
	if uri == "" {
		a := addr.(*net.TCPAddr)
		host := a.IP.String()
		if a.IP.IsUnspecified() {
			name, err := os.Hostname()
			if err != nil {
				return "", withHint(err, "--base-uri says how clients reach this daemon")
			}
			host = name
		}
		uri = scheme + "://" + net.JoinHostPort(host, fmt.Sprint(a.Port)) + "/"
	}
	return cleanBase(uri)
}

// welcome prints what to open. Tests and scripts read the lines too.
func welcome(w *os.File, svc *queuefs.Service, base string) error {
	dir, err := filepath.Abs(svc.Dir())
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cutie %s serves %s\n\n", queuefs.Version, dir)
	line := func(what, text string) { fmt.Fprintf(&b, "  %-10s %s\n", what, text) }
	line("open", base)
	line("state", base+"state")
	line("published", base+publishedPath[1:])
	if queues := svc.Queues(); len(queues) > 0 {
		id := queues[0].ID()
		line("submit", "curl -F file=@FILE '"+base+"content/"+id+"?t=anvl'")
		line("take", "curl -X POST "+base+"consume/"+id)
	} else {
		line("queue", "cutie createQueue jobs --home "+svc.Dir())
	}
	b.WriteString("\nstop with Ctrl-C\n")
	_, err = w.WriteString(b.String())
	return err
}
