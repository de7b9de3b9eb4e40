package daemon

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

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
