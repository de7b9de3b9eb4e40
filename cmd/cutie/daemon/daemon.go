// Package daemon opens the house from the disk upwards and serves it: storage,
// publisher, push, one router with the routes of all rooms, the listeners, and
// the loops. It takes everything down in the opposite order.
//
// A request passes the chain of handlers of a [site], see site.go: each does one thing, from
// the line in the access log to the right for the route, and the last one is the handler of
// the route. A home opened by a command passes the same site, see [Local].
//
// All timers and all limits of connections of the program stand here.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/listen"
	"cutie/cmd/cutie/mirror"
	"cutie/cmd/cutie/traces"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/outbound"
	"cutie/wellknown"
)

// Options are the settings of a daemon.
type Options struct {
	Log     zerolog.Logger
	Hangup  <-chan os.Signal // asks for a new access log, see [Withstand]
	Listen  Listen
	Access  access.Options // Run sets Queue
	Limits  Limits
	Source  publisher.Options // Run sets BaseURI, and the functions
	Push    PushOptions
	Allow   []string       // hosts to be reached although they are not public, see [outbound.Options]
	Mirror  mirror.Options // Run sets Tell
	Traces  traces.Options
	Node    NodeOptions     // of a home in a store
	Opening *Opening        // stands in for the daemon so far; or nil
	Robots  bool            // /robots.txt names Resource Lists
	CORS    *wellknown.CORS // nil: pages of others read nothing

	AccessLog AccessLog
	LogLevel  zerolog.Level
	Ready     func(base string) error // called when clients are answered

	// Reread reads the settings again; later are the names of those with new values that
	// wait for a restart. nil: they stay.
	Reread func() (now *Options, later []string, err error)
}

// Listen says where a daemon listens.
type Listen struct {
	Addr        *net.TCPAddr
	On          net.Listener        // at Addr, from [listen.TakePort]; nil: Run takes the port
	BaseURI     string              // with a slash at its end; "": that of the address
	Certificate *listen.Certificate // nil: no TLS
	Proxies     access.Proxies      // believed what they say of their clients
}

// Limits are those of a daemon.
type Limits struct {
	Body    int64 // bytes
	Buffers int64 // bytes in memory for all requests; 0: any number
	Conns   int
	Waits   int           // requests of one client
	Dirs    int           // directories of queues kept open, the last used ones; 0: 512
	Grace   time.Duration // for requests in progress when the daemon stops or gives its home up
}

// AccessLog bounds the access log.
type AccessLog struct {
	Max  int64 // bytes of a file; 0 lets it grow
	Keep int   // old files
}

// A daemon serves an open home until it is told to stop.
type daemon struct {
	Options
	unwritten atomic.Bool  // the last maintenance failed
	grace     atomic.Int64 // for requests in progress at the stop, ns
	full      atomic.Int64 // when a request was logged last that found no room, ns
	svc       *queuefs.Service
	pub       *publisher.Publisher
	fetch     *outbound.Client // for manifests, callbacks, hubs and mirrors
	push      *push

	gate    *access.Gate
	browser *access.Browser
	names   *naming
	node    *node          // nil: the home is in its directory
	record  *access.Log    // the daemon closes it
	crowd   *access.Crowd  // requests that wait
	memory  *access.Places // bytes of the buffers of requests; nil: any number

	supervisor *supervisor
}

// Run serves an open home until ctx ends or the process is told to stop. It
// builds the daemon from the disk outwards: storage, publisher, listeners, and
// takes it down in the opposite order. It closes svc.
func Run(ctx context.Context, svc *queuefs.Service, o Options) (err error) {
	opened := tune()
	defer opened()
	log, manager := o.Log, newSupervisor(o.Log)
	defer manager.stopped()
	// The publisher goes last: the last checkpoint brings it up to date.
	var pub *publisher.Publisher
	defer func() {
		manager.stopping()
		err = errors.Join(err, closeHome(svc, log))
		if pub != nil {
			err = errors.Join(err, pub.Close())
		}
		log.Info().Err(err).Msg("stopped")
	}()

	ln := o.Listen.On
	if ln == nil {
		if ln, err = listen.TakePort(o.Listen.Addr); err != nil {
			return err
		}
	}
	defer ln.Close()
	base := o.Listen.BaseURI
	if base == "" {
		if base, err = o.Listen.URL(ln.Addr()); err != nil {
			return err
		}
	}
	svc.SetBaseURI(base)

	d := &daemon{Options: o, svc: svc, supervisor: manager}
	d.grace.Store(int64(o.Limits.Grace))
	if d.fetch, err = outbound.New(outbound.Options{Allow: o.Allow}); err != nil {
		return err
	}
	defer d.fetch.Close()
	d.Access.Queue = queueNamed(svc)
	if d.gate, err = access.New(d.Access); err != nil {
		return err
	}
	// On loopback a stranger's name for this machine is all that a page needs to get in,
	// whatever the rights of clients without a name.
	if d.browser, err = access.NewBrowser(base, ln.Addr().(*net.TCPAddr).IP.IsLoopback()); err != nil {
		return err
	}
	d.browser.Proxies = o.Listen.Proxies
	d.crowd = access.NewCrowd(o.Limits.Waits)
	if o.Limits.Buffers > 0 {
		d.memory = &access.Places{Max: int(o.Limits.Buffers)}
	}
	if d.names, err = newNaming(base, o.Listen.BaseURI != "", ln.Addr(), o.Listen.Proxies); err != nil {
		return err
	}
	if o.Node.URL != "" {
		if d.names.node, err = url.Parse(o.Node.URL); err != nil {
			return err
		}
	}
	if d.record, err = access.OpenLog(filepath.Join(svc.Dir(), "log", accessFile), o.AccessLog.Max, o.AccessLog.Keep); err != nil {
		return err
	}
	if svc.Coming() {
		if err = d.serveEarly(ctx, ln); err != nil {
			return errors.Join(err, d.record.Close())
		}
	}

	source := o.Source
	source.BaseURI = base
	source.Report, source.HasSpace, source.Page = damage(log), svc.HasSpace, dashboard.About
	o.announce(svc, &source)
	if pub, err = publisher.New(svc, source); err != nil {
		return err
	}
	svc.Follow(pub)
	d.pub = pub
	if d.push, err = openPush(svc, pub, d.gate, d.fetch, log, o.Push); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.push.hub.Close()) }() // before what it reads from
	opened()
	return d.run(ctx, ln)
}

// accessFile is the daemon's access log in log/ of a home.
const accessFile = "web-access.txt"

// URL is where a daemon listens.
func (l *Listen) URL(addr net.Addr) (string, error) {
	scheme := "http"
	if l.Certificate != nil {
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
