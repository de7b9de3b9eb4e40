package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/listen"
	"cutie/cmd/cutie/reach"
	"cutie/publisher"
	"cutie/publisher/options"
	"cutie/queuefs"
	"cutie/wellknown"
)

// serveVerb serves a home.
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

It waits a few seconds for another command that has the home open. While it runs, the
other commands find it through its socket in the home.

References in published documents begin with the base URI: that of the option, or of
cutie-info.txt, or the address listened on. If nobody has set it, answers lead to the
name that the request was sent to. If it is set, answers lead to it, and a request to
another name that would change something is sent there by 308, or refused with 421 if
a proxy is there, before anything is made.

With another base URI or version of ResourceSync than before, the published history
begins anew after the last event, and so does every mirror: the daemon says so and
ends, unless --yes is given, or the former base URI was on this machine alone.

Users who can open the socket in the home may do everything. Over the network,
--users names the file of cutie user and cutie token; the daemon reads it again
when it changes. --anonymous gives rights to clients without a name: a list such
as read,submit:ingest (see cutie help user), all or none, within the limits of
--anonymous-limits (see cutie help limits). Without both options
everybody on this machine may do everything; the daemon then listens on loopback
only. On loopback it answers to localhost, to addresses and to the host of the base
URI only, unless a proxy of --trusted-proxy asks. Passwords and tokens need TLS
on the network: --tls-cert and --tls-key, PEM files that are read again when they
change, or a proxy. Requests by pages of other sites that would change something
are refused.

The daemon believes X-Forwarded-For of the proxies in --trusted-proxy. Another proxy
has to pass on Host.

Users with the right to read a queue may subscribe to its changes by WebSub, at
the hub /hub of the daemon; the Capability Lists name the topics. Callbacks to
addresses that are not public are refused unless --allow-fetch names them. Each
--hub is told of changes too, and fetches them, or gets them with --hub-payload:
cutie serve --hub https://hub.example.org/

With --mirror the daemon keeps the queues of other daemons as live mirrors, and a home
that does not exist is created without a queue: see cutie help mirrors.

With --store the home is in an object store, and the directory is a cache: see cutie
help stores.

Each option but --yes, --accept-loss and --takeover may stand in the file of --config,
and in the environment: see cutie help config. The command line comes first, then the
environment, then the file.

Every request becomes a line of log/web-access.txt in the home, in the Combined
Log Format. A file of --log-max becomes web-access.txt.1, and so on.

After SIGHUP the access log is opened again by its name, and the settings in file and
environment are read again. These take effect at once:
` + listed(live) + `
The log names others that have changed and need a restart. With a mistake in them those of
before stay in force. Users, certificates and the properties of queues are read again by
themselves.`,
		Example: `cutie serve --home archive --listen 127.0.0.1:0
cutie serve --users users --tls-cert cert.pem --tls-key key.pem --listen :8443`,
	}
	var o serveOptions
	o.bind(cmd.Flags())
	return c.Verb(cmd, optHome, func(ctx context.Context) error { return serve(ctx, c, &o) })
}

func serve(ctx context.Context, c *call, o *serveOptions) error {
	f := filler(c)
	if err := f.Fill(o.config); err != nil {
		return err
	}
	o.Reread = reread(c.Cmd.Flags(), f, o.config, c.Home)
	log, err := newLog(c.Stderr, o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	for _, s := range f.Strays(os.Environ()) {
		if s.Near != "" { // else it may be of another program
			log.Warn().Str("variable", s.Variable).Str("near", s.Near).Msg("the variable sets nothing: there is no such setting")
		}
	}
	o.Log, o.Hangup = log, daemon.Withstand()
	if err := o.check(); err != nil {
		return err
	}
	defer o.Fetch.Close()
	if o.Source.KeepOctets, err = o.keepSize.on(c.Home); err != nil {
		return err
	}
	// A home is not made for a daemon that cannot serve it. One that is there may
	// be in use, which is the better reason.
	if fresh, err := queuefs.Unmade(c.Home); err == nil && fresh || o.store.Options != nil {
		if o.Listen.On, err = listen.TakePort(o.Listen.Addr); err != nil {
			return portHint(err)
		}
		defer o.Listen.On.Close()
	}
	if err := o.nameNode(); err != nil {
		return err
	}
	if o.store.Options != nil {
		o.Opening = &daemon.Opening{Log: log, Certificate: o.Listen.Certificate, Node: &o.Node}
		o.store.Owned = o.Opening.Own
		defer o.Opening.End()
	}
	return o.serve(ctx, c)
}

// serve opens the home and serves it, again and again if it has to be opened anew.
func (o *serveOptions) serve(ctx context.Context, c *call) error {
	var printed bool
	for {
		o.Opening.Answer(o.Listen.On)
		svc, err := open(ctx, c, o)
		if err == nil {
			o.Ready = func(base string) error {
				if printed {
					return nil
				}
				printed = true
				return welcome(c.Out.Stdout, svc, base, o.Node.URL)
			}
			err = daemon.Run(ctx, svc, o.Options)
		}
		o.Opening.End()
		err = errors.Join(err, o.Opening.Stop())
		switch {
		case goesOn(err):
		case printed && waits(err): // a start is refused, a daemon that has served goes on
			time.Sleep(againPause)
		default:
			return storeHint(anewHint(portHint(err)))
		}
		// Acknowledged changes are in the store.
		o.Log.Warn().Err(err).Msg("the home is opened again")
		o.store.TakeOver = false
		o.Listen.On.Close() // unless the daemon did
		if o.Listen.On, err = listen.TakePort(o.Listen.On.Addr().(*net.TCPAddr)); err != nil {
			return portHint(err)
		}
	}
}

// open opens the home, and finds the settings in it.
func open(ctx context.Context, c *call, o *serveOptions) (*queuefs.Service, error) {
	svc, err := reach.OpenUnlocked(ctx, c.Home, func() (*queuefs.Service, error) {
		return daemon.OpenHome(ctx, c.Home, named(queuefs.ServiceInfo{}, c.Home), len(o.mirrors) == 0,
			queuefs.Options{AcceptLoss: o.acceptLoss, Dirs: o.Limits.Dirs, Stored: o.store.Options}, o.Log)
	})
	if err != nil {
		return nil, storeHint(reach.HomeHint(c.Home, err))
	}
	if o.dialect == "" {
		before, err := options.Published(svc.Dir())
		if err != nil {
			return nil, fault.Hint(errors.Join(fmt.Errorf("no telling in which version of ResourceSync this was published: %w", err), svc.Close()),
				"--dialect 1.1, 1.0 or 0.9 says which version was published; with another one every mirror begins anew")
		}
		o.Source.Dialect = before.Dialect
	}
	if o.Listen.BaseURI == "" && svc.Info().BaseURI != "" {
		if o.Listen.BaseURI, err = reach.CleanBase(svc.Info().BaseURI); err != nil {
			return nil, errors.Join(err, svc.Close())
		}
	}
	return svc, nil
}

// portHint adds a hint to the error for a port of others.
func portHint(err error) error {
	if errors.Is(err, listen.ErrPortInUse) {
		return fault.Hint(err, "--listen 127.0.0.1:0 takes a free port")
	}
	return err
}

// anewHint adds a hint to the error for a history that would begin anew.
func anewHint(err error) error {
	var c *publisher.ChangeError
	if !errors.As(err, &c) {
		return err
	}
	return fault.Hint(err, fmt.Sprintf("--yes goes on; --base-uri %s/ --dialect %v keeps the mirrors", c.FromBase, c.FromVersion))
}

// welcome prints the addresses of the daemon. Tests and scripts read the lines too.
func welcome(w *os.File, svc *queuefs.Service, base, node string) error {
	dir, err := filepath.Abs(svc.Dir())
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cutie %s serves %s\n\n", queuefs.Version, dir)
	line := func(what, text string) { fmt.Fprintf(&b, "  %-10s %s\n", what, text) }
	line("open", base)
	if st, ok := svc.Standing(); ok {
		role := "owner"
		if st.Standby {
			role = "standby"
		}
		line("node", node)
		line("role", role)
	}
	line("state", base+"state")
	line("published", base+wellknown.Path[1:])
	if queues := svc.Queues(); len(queues) > 0 {
		id := queues[0].ID()
		line("submit", "curl -F file=@FILE '"+base+"content/"+id+"?t=anvl'")
		line("take", "curl -X POST "+base+"consume/"+id)
	} else {
		line("queue", "cutie create jobs --home "+svc.Dir())
	}
	if os.Getenv("NOTIFY_SOCKET") == "" { // else a service manager stops it
		b.WriteString("\nstop with Ctrl-C\n")
	}
	_, err = w.WriteString(b.String())
	return err
}
