package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/mirror"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
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
	jobs := uws.New(svc, uws.Options{Page: dashboard.Pages{}.UWS, MaxBody: localBody, Log: failed})
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
	for _, r := range append([]room{l.protocol, l.jobs, mirror.New(l.svc, mirror.Options{}), ownRows{l.svc}}, rooms...) {
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

// An InProcess is a transport to a handler of this process: a home that no
// daemon has open answers as a daemon would. Close waits for the handler, so
// bodies of answers are to be closed before.
type InProcess struct {
	Handler http.Handler
	all     sync.WaitGroup
}

// RoundTrip lets the handler answer. Its context ends with that of the request.
func (t *InProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	in := req.Clone(context.WithValue(req.Context(), connectionKey{}, &connection{home: true}))
	in.RequestURI = req.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	body, w := io.Pipe()
	a := &inAnswer{header: http.Header{}, body: w, begun: make(chan struct{})}
	t.all.Go(func() {
		defer in.Body.Close()
		// A handler breaks its answer off by this panic (net/http, Handler).
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			} else if p != nil {
				w.CloseWithError(io.ErrUnexpectedEOF)
				a.WriteHeader(http.StatusInternalServerError)
			}
		}()
		t.Handler.ServeHTTP(a, in)
		a.WriteHeader(http.StatusOK)
		w.Close()
	})
	select {
	case <-a.begun:
	case <-req.Context().Done():
		body.CloseWithError(req.Context().Err())
		return nil, req.Context().Err()
	}
	resp := &http.Response{Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.sent, Body: body, ContentLength: -1, Request: req}
	if n, err := strconv.ParseInt(a.sent.Get("Content-Length"), 10, 64); err == nil {
		resp.ContentLength = n
	}
	return resp, nil
}

// Close waits until the handler has answered all.
func (t *InProcess) Close() error {
	t.all.Wait()
	return nil
}

// An inAnswer is the answer to one request. A slow reader slows the handler down,
// as over a network.
type inAnswer struct {
	header, sent http.Header
	status       int
	body         *io.PipeWriter
	begun        chan struct{} // closed when sent and status are known
}

func (a *inAnswer) Header() http.Header { return a.header }

func (a *inAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, maps.Clone(a.header)
		close(a.begun)
	}
}

func (a *inAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// OpenHome opens dir. If dir is empty, or holds no more than an interrupted
// attempt to make a home, OpenHome makes a home described by info first, with a
// queue named jobs if jobs is set, unless it comes from a store. The rest of o is for
// [queuefs.Open].
func OpenHome(ctx context.Context, dir string, info home.ServiceInfo, jobs bool, o queuefs.Options, log zerolog.Logger) (*queuefs.Service, error) {
	defer tune()()
	fresh, err := home.Unmade(dir)
	if err != nil {
		return nil, err
	}
	if fresh {
		if err := home.Init(dir, info); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	o.Report = damage(log)
	svc, err := queuefs.Open(dir, o)
	if err != nil {
		return nil, err
	}
	if svc.Restored() {
		fresh = false
		log.Info().Str("home", dir).Int("queues", len(svc.Queues())).Msg("home made again from its store")
	}
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn().Str("home", dir).Str("mode", info.Mode().Perm().String()).Msg("other users of this machine can look into the home, chmod 700 takes that away")
	}
	if fresh && jobs && len(svc.Queues()) == 0 {
		_, err := svc.CreateQueue(ctx, home.QueueInfo{ID: "jobs", Name: "jobs",
			CullingSize: -1, CullingAge: -1})
		if err != nil {
			return nil, errors.Join(err, svc.Close())
		}
	}
	if fresh {
		log.Info().Str("home", dir).Msg("home created")
	}
	return svc, nil
}

// At a stop the files of jobs are written for filesTime from the signal on, and for
// filesLeast after the last request. What is left is in the journal, and the next start
// goes on with it. To sync what was written takes some more seconds.
const (
	filesTime  = 10 * time.Second
	filesLeast = 2 * time.Second
)

// closeHome closes the service. After a burst there may be many files to write
// yet; then it says so now and then.
func closeHome(svc *queuefs.Service, log zerolog.Logger) error {
	svc.StopWithin(filesLeast)
	const many, pause = 10_000, 10 * time.Second
	say := func() {
		if n := svc.Behind(); n > many {
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
	if n := svc.Behind(); n > 0 && err == nil {
		log.Info().Int("jobs", n).Msg("stopped without the files of some jobs: the journal has them, and the next start writes them")
	}
	return err
}

// damage logs damaged files, set aside.
func damage(log zerolog.Logger) func(durable.Finding) {
	return func(p durable.Finding) {
		log.Error().Str("path", p.Path).Str("text", p.Text).Msg("problem in the home")
	}
}

// turned logs when deliveries to a callback of a queue or to another hub begin to fail, and
// when they succeed again.
func turned(log zerolog.Logger) func(receiver string, err error) {
	return func(receiver string, err error) {
		if err != nil {
			log.Error().Str("receiver", receiver).Err(err).Msg("not delivered, it is tried again")
			return
		}
		log.Info().Str("receiver", receiver).Msg("delivered again")
	}
}
