package main

import (
	"context"
	"cutie/cmd/cutie/dashboard"
	"errors"
	"io"
	"iter"
	"net/http"
	"os"
	"os/user"
	"time"

	"cutie/cmd/cutie/daemon"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/uws"
)

// A local target is a home that this process has open, for the length of one
// verb. It is asked as a daemon is, so that the answers are the same; only
// nobody listens.
type local struct {
	*rest.Client
	svc     *queuefs.Service
	handler *rest.Handler
	jobs    *uws.Handler
	inside  *daemon.InProcess
}

// localBody is the most octets of a payload where there is no network: more
// than any file system holds.
const localBody = 1 << 60

// openLocal opens a home. What was found damaged in it goes to warn. Requests
// pass through watch. Leases that are over are ended, as a daemon would have.
func openLocal(ctx context.Context, dir string, warn func(string, ...any), watch func(http.RoundTripper) http.RoundTripper) (*local, error) {
	svc, err := queuefs.Open(dir, queuefs.Options{Report: func(p queuefs.Problem) { warn("%s", p) }})
	if err != nil {
		return nil, err
	}
	if err := svc.Expire(ctx); err != nil {
		warn("%v", err) // a full disk can be read
	}
	// References lead to where a daemon would answer.
	if svc.Info().BaseURI == "" {
		svc.SetBaseURI("http://" + defaultListen + "/")
	}
	// What UWS keeps of a queue is asked for when jobs are culled, and when the
	// queue is removed.
	jobs, err := uws.New(svc, uws.Options{})
	if err != nil {
		return nil, errors.Join(err, svc.Close())
	}
	svc.Guard(jobs)
	svc.Spare(jobs.Spares)
	failed := func(_ *http.Request, err error) {
		if !errors.Is(err, io.ErrClosedPipe) { // whoever did not read on says why
			warn("%v", err)
		}
	}
	h := rest.New(svc, rest.Options{MaxBody: localBody, Pages: dashboard.Pages{}, Log: failed})
	inside := &daemon.InProcess{Handler: h}
	return &local{newClient("http://localhost/", watch(inside)), svc, h, jobs, inside}, nil
}

// newClient returns a client that says who runs this program.
func newClient(base string, t http.RoundTripper) *rest.Client {
	c := rest.NewClient(base, &http.Client{Transport: t})
	c.UserAgent = agent()
	return c
}

// agent is who the program says it is, as submitter and as consumer.
func agent() string {
	login := "unknown"
	if u, err := user.Current(); err == nil {
		login = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return "cutie/" + queuefs.Version + " (" + login + "@" + host + ")"
}

// Close closes the home.
func (l *local) Close() error {
	l.handler.Close()
	return errors.Join(l.inside.Close(), l.jobs.Close(), l.svc.Close())
}

// Next does not wait: while a home is open here, nobody else can submit.
func (l *local) Next(ctx context.Context, queue string, _ time.Duration) (*rest.Delivery, error) {
	return l.Client.Next(ctx, queue, 0)
}

// Take does not wait either.
func (l *local) Take(ctx context.Context, queue string, t queuefs.Take, _ time.Duration) iter.Seq2[*rest.Delivery, error] {
	return l.Client.Take(ctx, queue, t, 0)
}

// NextMessage does not wait either.
func (l *local) NextMessage(ctx context.Context, queue string, t queuefs.Take, _ time.Duration) (*rest.Delivery, error) {
	return l.Client.NextMessage(ctx, queue, t, 0)
}

// StartManifest is refused: the batch would end with the command.
func (l *local) StartManifest(context.Context, string, rest.Upload) (string, error) {
	return "", withHint(errors.New("no daemon would go on with the batch"), "cutie serve --home "+l.svc.Dir()+" starts one; without --async the command waits")
}
