package daemon

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/mirror"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/uws"
	"cutie/queuefs/web"
)

// A Local is a home that this process has open and nobody else can ask: a
// transport to the routes of a daemon, with the rights of the owner.
type Local struct {
	InProcess
	Unlogged error // why requests are not in the access log; nil: they are

	svc      *queuefs.Service
	protocol *rest.Handler
	jobs     *uws.Handler
	site     *site
	log      *access.Log
}

// LocalOptions are the settings of a [Local].
type LocalOptions struct {
	Log       func(error) // told of errors that answers do not show
	AccessLog AccessLog
	Look      bool // the home is open for reading: requests are not in the access log
}

// localAccessFile is the access log of commands in log/ of a home.
const localAccessFile = "cmd-access.txt"

// localBody is the largest payload where there is no network: more than any
// file system holds.
const localBody = 1 << 60

// NewLocal serves svc, which the caller closes after the Local. A request becomes
// a line of the access log: its host is the name of the service, its referer the
// working directory, its user agent the login.
func NewLocal(svc *queuefs.Service, o LocalOptions) (*Local, error) {
	failed := func(_ *http.Request, err error) { o.Log(err) }
	jobs := uws.New(svc, uws.Options{Pages: dashboard.Pages{}, MaxBody: localBody, Log: failed})
	l := &Local{svc: svc, jobs: jobs, protocol: rest.New(svc, rest.Options{MaxBody: localBody, Pages: dashboard.Pages{}, Log: failed})}
	l.site = &site{log: zerolog.Nop(), leaving: context.Background(), pace: defaultPace, refuse: l.protocol.Error, record: func(*access.Entry) {}}
	if o.Look {
		l.Handler = l.site
		l.route()
		return l, nil
	}
	if l.log, l.Unlogged = access.OpenLog(filepath.Join(svc.Dir(), "log", localAccessFile), o.AccessLog.Max, o.AccessLog.Keep); l.Unlogged == nil {
		l.site.record = l.recorder()
	}
	l.Handler = l.site
	l.route()
	return l, nil
}

func (l *Local) recorder() func(*access.Entry) {
	host, login := l.svc.Info().Name, ""
	dir, _ := os.Getwd()
	if u, err := user.Current(); err == nil {
		login = u.Username
	}
	return func(e *access.Entry) {
		e.Host, e.User, e.Referer, e.Agent = host, "", dir, login
		e.Target, _, _ = strings.Cut(e.Target, "?")
		l.log.Add(e)
	}
}

func (l *Local) route(rooms ...room) {
	var rows []web.Route
	for _, r := range append([]room{l.protocol, l.jobs, mirror.New(l.svc, mirror.Options{})}, rooms...) {
		rows = append(rows, r.Routes()...)
	}
	l.site.open(web.NewRouter(l.site.refuse, rows...))
}

// Publish adds the routes of a publisher, before the first request.
func (l *Local) Publish(pub *publisher.Publisher) { l.route(pub, &publishing{pub}) }

// Close ends the requests on their way, but leaves the service open.
func (l *Local) Close() error {
	l.protocol.Close()
	err := errors.Join(l.InProcess.Close(), l.jobs.Close())
	if l.log != nil {
		err = errors.Join(err, l.log.Close())
	}
	return err
}
