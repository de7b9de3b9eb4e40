package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/uws"
)

// An openHome is a home opened in this process, for the length of one verb.
type openHome struct {
	svc     *queuefs.Service
	handler *rest.Handler
}

// localBody is the most octets of a payload without a network: more than any
// file system holds.
const localBody = 1 << 60

// openHome opens the home. It answers like its daemon; jobs with ended leases go
// back first.
func (c *call) openHome(ctx context.Context) (*target, error) {
	svc, err := queuefs.Open(c.home, queuefs.Options{Report: func(p queuefs.Problem) { c.warnf("%s", p) }})
	if err != nil {
		return nil, err
	}
	if err := svc.Expire(ctx); err != nil {
		c.warnf("%v", err) // a full disk can be read
	}
	if svc.Info().BaseURI == "" { // references lead to where a daemon would listen
		svc.SetBaseURI("http://" + defaultListen + "/")
	}
	// Jobs of UWS in homes of former versions are moved into their queues.
	jobs, err := uws.New(svc, uws.Options{})
	if err != nil {
		return nil, errors.Join(err, svc.Close())
	}
	h := rest.New(svc, rest.Options{MaxBody: localBody, Pages: dashboard.Pages{}, Log: func(_ *http.Request, err error) {
		if !errors.Is(err, io.ErrClosedPipe) { // the reader stopped, and says why
			c.warnf("%v", err)
		}
	}})
	inside := &daemon.InProcess{Handler: h}
	sent, log := c.recorded(svc, inside)
	t := newTarget("http://localhost/", c.traced(sent), func() error {
		h.Close()
		return errors.Join(inside.Close(), jobs.Close(), svc.Close(), log.Close())
	})
	t.home, t.open = c.home, &openHome{svc, h}
	return t, nil
}

// cmdAccess is the log of commands in an open home, below log/.
const cmdAccess = "cmd-access.txt"

// Sizes of access logs by default.
const (
	defaultLogMax  = 100 << 20 // octets
	defaultLogKeep = 9
)

// recorded writes requests to an open home into an access log: the host is the
// name of the service, the referer the working directory, the user agent the
// login. Without a log it goes on.
func (c *call) recorded(svc *queuefs.Service, next http.RoundTripper) (http.RoundTripper, io.Closer) {
	log, err := access.OpenLog(filepath.Join(svc.Dir(), "log", cmdAccess), defaultLogMax, defaultLogKeep)
	if err != nil {
		c.warnf("access log: %v", err)
		return next, io.NopCloser(nil)
	}
	e := access.Entry{Host: svc.Info().Name, Proto: "HTTP/1.1"}
	e.Referer, _ = os.Getwd()
	if u, err := user.Current(); err == nil {
		e.Agent = u.Username
	}
	return recorder{next, log, e}, log
}

// A recorder logs each request when its answer is closed.
type recorder struct {
	http.RoundTripper
	log   *access.Log
	entry access.Entry
}

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	e := r.entry
	e.Time, e.Method, e.Target = time.Now(), req.Method, req.URL.EscapedPath()
	resp, err := r.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	e.Status = resp.StatusCode
	resp.Body = &recordedBody{resp.Body, r.log, e}
	return resp, nil
}

type recordedBody struct {
	io.ReadCloser
	log   *access.Log
	entry access.Entry
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.entry.Octets += int64(n)
	return n, err
}

func (b *recordedBody) Close() error {
	if b.log != nil {
		b.log.Add(&b.entry)
	}
	b.log = nil
	return b.ReadCloser.Close()
}
