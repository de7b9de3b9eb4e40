package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/listen"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/wellknown"
)

// serveVerb serves a home.
func serveVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve",
		Aliases: []string{"daemon"},
		Short:   "serve a home over HTTP and publish it",
		Example: `cutie serve --home archive --listen 127.0.0.1:0
cutie serve --users users --tls-cert cert.pem --tls-key key.pem --listen :8443`,
	}
	s := newSettings(cmd.Flags(), &c.Home)
	cmd.Long = `
Serve a home on this machine, at http://127.0.0.1:8080/:
    cutie serve --home archive

A home that does not exist is made, with a queue named jobs. The daemon prints its
addresses. If another command has the home open, it waits a few seconds. Other commands on
this machine find the daemon through its socket in the home; users who can open the socket
may do everything. At the port everybody on this machine may do everything too, until
--users or --anonymous is given.

Give people and programs rights, with TLS:
    cutie user add ada --users users --rights read,submit
    cutie serve --users users --tls-cert cert.pem --tls-key key.pem --listen :8443

The users file and the certificate are read again when they change. --anonymous gives
rights to clients without a name: cutie help access.

Serve behind a proxy:
    cutie serve --base-uri https://queue.example.org/ --trusted-proxy 10.0.0.5

Published documents and answers lead to the base URI. The proxy has to pass on Host and
X-Forwarded-For. A request to another name that would change something is sent to the
base URI by 308, or refused with 421. Without a base URI answers lead to the name that the
request was sent to; on loopback the daemon then answers to localhost and addresses only.

With another base URI, or another version of ResourceSync, every mirror has to begin anew.
The daemon then ends with an error unless --yes is given or the former base URI was on
this machine alone.

Keep a copy of the queues of another daemon, or keep the home in an object store:
    cutie serve --home copy --mirror https://queue.example.org/
    cutie serve --home cache --store s3://bucket/prefix

With --mirror a new home has no queue of its own. With --store the directory is a cache.
See cutie help mirrors, stores and standbys.

Users with the right to read may subscribe to changes at /hub, by WebSub. The daemon sends
notifications to public addresses and to those of --allow-fetch: cutie help push.

Keep the settings in a file:
    cutie config default >cutie.toml
    cutie serve --config cutie.toml

There are more settings than the options below. cutie config default lists them all, each
with its cost; each is an option, too. Options come before the environment, and the
environment before the file: cutie help config.

Change settings without a restart: edit the file, then
    kill -HUP PID

` + s.liveNames() + `

The log names other changed settings, which need a restart. If there is a mistake, all
settings stay as they were. SIGHUP also opens the access log again: log/web-access.txt in
the home, in the Combined Log Format.

Stop with Ctrl-C or SIGTERM. The daemon ends the requests in progress and writes the files
of the home, which takes a while after a burst. A second signal ends it at once. Nothing
acknowledged is lost either way.`
	return c.Verb(cmd, optHome, func(ctx context.Context) error { return serve(ctx, c, s) })
}

func serve(ctx context.Context, c *call, s *settings) error {
	if err := s.fill(typed(c), os.Getenv); err != nil {
		return err
	}
	s.Log, s.Hangup, s.Reread = newLog(c.Stderr, s.LogLevel, s.logFormat), daemon.Withstand(), s.reread
	for _, v := range s.strays(os.Environ()) {
		if v.near != "" { // else it may be of another program
			s.Log.Warn().Str("variable", v.variable).Str("near", v.near).Msg("the variable sets nothing: there is no such setting")
		}
	}
	if err := s.check(); err != nil {
		return err
	}
	// A home is not made for a daemon that cannot serve it. One that is there may
	// be in use, which is the better reason.
	var err error
	if fresh, err := home.Unmade(c.Home); err == nil && fresh || s.store != nil {
		if s.Listen.On, err = listen.TakePort(s.Listen.Addr); err != nil {
			return explainHome(err, "")
		}
		defer s.Listen.On.Close()
	}
	if s.store != nil {
		if s.Node.URL == "" {
			if s.Node.URL, err = s.Listen.URL(s.Listen.On.Addr()); err != nil {
				return err
			}
		}
		s.Opening = &daemon.Opening{Log: s.Log, Certificate: s.Listen.Certificate, Node: &s.Node}
		s.store.URL, s.store.Owned = s.Node.URL, s.Opening.Own
		defer s.Opening.End()
	}
	return s.serve(ctx, c)
}

// newLog returns the daemon's log on standard error. Format is console, json, or empty for
// console on a terminal and json elsewhere.
func newLog(w *os.File, level zerolog.Level, format string) zerolog.Logger {
	zerolog.SetGlobalLevel(level) // it may change while the daemon runs
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.DurationFieldUnit = time.Millisecond
	var out io.Writer = w
	if format == "console" || format == "" && isTerminal(w) {
		out = zerolog.ConsoleWriter{Out: w, NoColor: !isTerminal(w), TimeFormat: "15:04:05.000"}
	}
	return zerolog.New(out).With().Timestamp().Logger()
}

// againPause is the pause of a daemon that has served before it asks its store again.
const againPause = 2 * time.Second

// serve opens the home and serves it, again and again if it has to be opened anew.
func (s *settings) serve(ctx context.Context, c *call) error {
	var printed bool
	for {
		s.Opening.Answer(s.Listen.On)
		svc, err := s.open(ctx)
		if err == nil {
			s.Ready = func(base string) error {
				if printed {
					return nil
				}
				printed = true
				return welcome(c.Out.Stdout, svc, base, s.Node.URL)
			}
			err = daemon.Run(ctx, svc, s.Options)
		}
		s.Opening.End()
		err = errors.Join(err, s.Opening.Stop())
		switch {
		case errors.Is(err, journal.ErrFenced), errors.Is(err, queuefs.ErrBehind), errors.Is(err, bucket.ErrBack):
			// Another daemon owns the home, or has released batches not read in time, or the
			// store answers again.
		case printed && (errors.Is(err, objects.ErrAway) || objects.Refused(err)):
			time.Sleep(againPause) // at its start a daemon gives up
		default:
			return explainHome(anewHint(err), "")
		}
		// Acknowledged changes are in the store.
		s.Log.Warn().Err(err).Msg("the home is opened again")
		s.store.TakeOver = false
		s.Listen.On.Close() // unless the daemon did
		if s.Listen.On, err = listen.TakePort(s.Listen.On.Addr().(*net.TCPAddr)); err != nil {
			return explainHome(err, "")
		}
	}
}

// open opens the home, and takes the settings in it.
func (s *settings) open(ctx context.Context) (*queuefs.Service, error) {
	dir := *s.home
	svc, err := openUnlocked(ctx, dir, func() (*queuefs.Service, error) {
		return daemon.OpenHome(ctx, dir, namedService(home.ServiceInfo{}, dir), len(s.Mirror.Sources) == 0,
			queuefs.Options{AcceptLoss: s.acceptLoss, Dirs: s.Limits.Dirs, Stored: s.store}, s.Log)
	})
	if err != nil {
		return nil, explainHome(err, dir)
	}
	if err := s.adopt(svc); err != nil {
		return nil, errors.Join(err, svc.Close())
	}
	return svc, nil
}

// adopt completes the settings with what the home says.
func (s *settings) adopt(svc *queuefs.Service) (err error) {
	if s.dialect != nil {
		s.Source.Dialect = *s.dialect
	} else {
		before, err := publisher.Published(svc.Dir())
		if err != nil {
			return withHint(fmt.Errorf("no telling in which version of ResourceSync this was published: %w", err),
				"--dialect 1.1, 1.0 or 0.9 says which version was published; with another one every mirror begins anew")
		}
		s.Source.Dialect = before.Dialect
	}
	if s.Listen.BaseURI == "" && svc.Info().BaseURI != "" {
		if s.Listen.BaseURI, err = cleanBase(svc.Info().BaseURI); err != nil {
			return err
		}
	}
	s.Source.KeepOctets, err = s.keepSize.on(svc.Dir())
	return err
}

// anewHint adds a hint to the error for a history that would begin anew.
func anewHint(err error) error {
	var c *publisher.ChangeError
	if !errors.As(err, &c) {
		return err
	}
	return withHint(err, fmt.Sprintf("--yes goes on; --base-uri %s/ --dialect %v keeps the mirrors", c.FromBase, c.FromVersion))
}

// welcome prints the addresses of the daemon. Tests and scripts read the lines too.
func welcome(w *os.File, svc *queuefs.Service, base, node string) error {
	dir, err := filepath.Abs(svc.Dir())
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cutie %s serves %s\n\n", home.Version, dir)
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
