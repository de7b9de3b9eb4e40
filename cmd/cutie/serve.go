package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/daemon"
	"cutie/queuefs"
	"cutie/queuefs/outbound"
	"cutie/wellknown"
)

func serveVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve",
		Aliases: []string{"daemon"},
		Short:   "serve a home over HTTP and publish it",
		Long: `
A home that does not exist is created, with one queue named jobs. The daemon
prints its addresses and serves until it is interrupted. Then it ends the requests
in progress and writes every file of the home, which takes a while after a burst;
it logs how many jobs are left. A second interrupt ends it at once, and loses
nothing acknowledged.

While it runs, the other commands find it through its socket in the home.

References in answers and published documents begin with the base URI: that of the
option, or of cutie-info.txt, or the address listened on.

Users who can open the socket in the home may do everything. Over the network,
--users names the file of cutie user and cutie token; the daemon reads it again
when it changes. --anonymous gives rights to clients without a name: a list such
as read,submit:ingest (see cutie help user), all or none. Without both options
everybody on this machine may do everything; the daemon then listens on loopback
only, and answers to the host of the base URI only. Passwords and tokens need TLS
on the network: --tls-cert and --tls-key, PEM files that are read again when they
change, or a proxy. Requests by pages of other sites that would change something
are refused.

The daemon believes X-Forwarded-For of the proxies in --trusted-proxy. A proxy
should pass on Host.

Users with the right to read a queue may subscribe to its changes by WebSub, at
the hub /hub of the daemon; the Capability Lists name the topics. Callbacks to
addresses that are not public are refused unless --allow-fetch names them. Each
--hub is told of changes too, and fetches them, or gets them with --hub-payload:
cutie serve --hub https://hub.example.org/

Every request becomes a line of log/web-access.txt in the home, in the Combined
Log Format. A file of --log-max becomes web-access.txt.1, and so on; after SIGHUP
it is opened again by its name.`,
		Example: `cutie serve --home archive --listen 127.0.0.1:0
cutie serve --users users --tls-cert cert.pem --tls-key key.pem --listen :8443`,
	}
	var o serveOptions
	fs := cmd.Flags()
	fs.StringVarP(&o.listen, "listen", "l", defaultListen, "`address` to listen on; port 0 takes a free one")
	fs.StringVar(&o.baseURI, "base-uri", "", "`URI` under which clients reach this daemon")
	users := bindUsers(fs)
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
	return c.verb(cmd, atHome, func(ctx context.Context) error {
		o.users = *users
		return serve(ctx, c, o)
	})
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

// serve checks the options before it opens or makes anything.
func serve(ctx context.Context, c *call, o serveOptions) error {
	log, err := newLog(c.stderr, o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	hup := daemon.Withstand()
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
	svc, err := daemon.OpenHome(ctx, c.home, named(queuefs.ServiceInfo{}, c.home), log)
	if err != nil {
		return homeHint(c.home, err)
	}
	source, err := o.source.complete(svc.Dir())
	if err != nil {
		return withHint(errors.Join(fmt.Errorf("no telling in which version of ResourceSync this was published: %w", err), svc.Close()),
			"--dialect 1.1, 1.0 or 0.9 says which version was published; with another one all lists begin anew")
	}
	base := o.baseURI
	if base == "" && svc.Info().BaseURI != "" {
		if base, err = cleanBase(svc.Info().BaseURI); err != nil {
			return errors.Join(err, svc.Close())
		}
	}
	err = daemon.Run(ctx, svc, daemon.Options{
		Log:       log,
		Hangup:    hup,
		Listen:    daemon.Listen{Addr: addr, BaseURI: base, Certificate: guard.cert, Proxies: guard.proxies},
		Access:    guard.Options,
		Implied:   guard.implied,
		Limits:    daemon.Limits{Body: int64(o.maxBody), Conns: o.maxConns, Waits: o.maxWaits, Grace: o.grace},
		Source:    source,
		Push:      o.push.PushOptions,
		Fetch:     fetch,
		Robots:    o.robots,
		CORS:      cors,
		AccessLog: daemon.AccessLog{Max: int64(o.logMax), Keep: o.logKeep},
		Ready:     func(base string) error { return welcome(c.stdout, svc, base) },
	})
	if errors.Is(err, daemon.ErrPortInUse) {
		return withHint(err, "--listen 127.0.0.1:0 takes a free port")
	}
	return err
}

// homeHint adds a way out to an error of opening a home.
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

// resolve returns the address to listen on. Beyond loopback is refused unless
// open is true. The daemon later binds the checked address, even if the name
// resolves to another by then.
func resolve(addr string, open bool) (*net.TCPAddr, error) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, usagef("listen address %.60q: %v", addr, err)
	}
	if !open && !a.IP.IsLoopback() {
		return nil, withHint(fmt.Errorf("%w: %s can be reached from other machines", errRefused, addr),
			"listen on 127.0.0.1, or say who may do what: --users FILE, or --anonymous read, submit or all")
	}
	return a, nil
}

// welcome prints the addresses of the daemon. Tests and scripts read the lines too.
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
	line("published", base+daemon.PublishedPath[1:])
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
