package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"cutie/publisher"
	"cutie/queuefs"
)

var serveVerb = verb{
	name:    "serve",
	aliases: []string{"daemon"},
	about:   "serve a home over HTTP and publish it",
	takes:   atHome,
	manual: `
A home that does not exist is created, with one queue named jobs. The daemon
prints what to open, serves until it is interrupted, and then ends the
requests in progress and leaves every file exact. A second interrupt ends it at
once; nothing that was acknowledged is lost then either.

While it runs, the other commands find it through its socket in the home.

It listens on loopback unless --anonymous says who may do what without a name.
References in answers and published documents begin with the base URI: the
option's, or that of cutie-info.txt, or the address listened on.`,
	setup: setupServe,
}

type serveOptions struct {
	listen    string
	baseURI   string
	anonymous string
	logLevel  string
	logFormat string
	grace     time.Duration
}

const defaultListen = "127.0.0.1:8080"

func setupServe(fs *pflag.FlagSet) action {
	var o serveOptions
	fs.StringVarP(&o.listen, "listen", "l", defaultListen, "`address` to listen on; port 0 takes a free one")
	fs.StringVar(&o.baseURI, "base-uri", "", "`URI` under which clients reach this daemon")
	fs.StringVar(&o.anonymous, "anonymous", "", "`right` of everyone: all; needed beyond loopback")
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
	if o.anonymous != "" && o.anonymous != "all" {
		return usagef("--anonymous %.40q: the only right that can be given to everyone is all", o.anonymous)
	}
	if o.baseURI != "" {
		if o.baseURI, err = cleanBase(o.baseURI); err != nil {
			return err
		}
	}
	addr, err := resolve(o.listen, o.anonymous == "all")
	if err != nil {
		return err
	}
	tune()

	svc, err := openHome(ctx, c.home, log)
	if err != nil {
		return err
	}
	// The publisher goes last: the last checkpoint brings it up to date.
	var pub *publisher.Publisher
	defer func() {
		err = errors.Join(err, svc.Close())
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
	base, err := baseURI(o.baseURI, svc.Info().BaseURI, ln.Addr())
	if err != nil {
		return err
	}
	svc.SetBaseURI(base)

	pub, err = publisher.New(svc, publisher.Options{BaseURI: base, Report: damage(log)})
	if err != nil {
		return err
	}
	svc.Follow(pub)

	d := &daemon{log: log, svc: svc, pub: pub, grace: o.grace}
	return d.run(ctx, ln, func() error { return welcome(c.stdout, svc, base) })
}

// tune sets what a daemon of this kind wants of the runtime, unless the
// environment says otherwise.
func tune() {
	// A sync holds its thread for the length of a disk write, so there are
	// more threads than cores to run Go code meanwhile.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(4, 2*runtime.NumCPU()))
	}
	// The live heap is small beside the garbage of requests: the index has no
	// pointers and payloads are not kept.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	// What bursts of large batches leave behind is collected sooner.
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit)
	}
}

// softLimit is up to where the heap grows freely, in octets. The index of a
// million jobs comes on top: 128 MiB outside the heap.
const softLimit = 96 << 20

// openHome opens dir, and makes a home of it first if there is nothing.
func openHome(ctx context.Context, dir string, log zerolog.Logger) (*queuefs.Service, error) {
	fresh := false
	switch entries, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		if err := queuefs.Init(dir, named(queuefs.ServiceInfo{}, dir)); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		fresh = true
	case err != nil:
		return nil, err
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

// damage logs what was found damaged and set aside.
func damage(log zerolog.Logger) func(queuefs.Problem) {
	return func(p queuefs.Problem) {
		log.Error().Str("path", p.Path).Str("text", p.Text).Msg("problem in the home")
	}
}

// homeHint adds to an error of opening a home what can be done about it.
func homeHint(dir string, err error) error {
	var locked *queuefs.LockedError
	switch {
	case errors.As(err, &locked):
		return withHint(err, "stop that process, or use another home with --home DIR")
	case errors.Is(err, queuefs.ErrNoHome), errors.Is(err, fs.ErrNotExist):
		return withHint(err, "cutie init "+dir+" makes a home, cutie serve --home "+dir+" makes and serves one")
	}
	return err
}

// baseURI decides under which URI the daemon is known: asked for, configured
// in the home, or where it listens.
func baseURI(option, configured string, addr net.Addr) (string, error) {
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
		uri = "http://" + net.JoinHostPort(host, fmt.Sprint(a.Port)) + "/"
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
		line("submit", "curl -F file=@FILE "+base+"content/"+id)
		line("take", "curl -X POST "+base+"consume/"+id)
	} else {
		line("queue", "cutie createQueue jobs --home "+svc.Dir())
	}
	b.WriteString("\nstop with Ctrl-C\n")
	_, err = w.WriteString(b.String())
	return err
}
