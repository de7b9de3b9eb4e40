package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"cutie/cmd/cutie/daemon"
	"cutie/queuefs/rest"
)

// A remote target is a daemon, by its URL or by the socket in its home.
type remote struct {
	*rest.Client
	base      string            // with a slash at its end
	sent      http.RoundTripper // what requests pass through
	transport *http.Transport
	socket    *daemon.Socket // nil for a URL
}

// newRemote returns the daemon at base; through the socket if there is one.
// Requests pass through watch.
func newRemote(base string, socket *daemon.Socket, watch func(http.RoundTripper) http.RoundTripper) *remote {
	// There is no limit for an answer: a large payload may take long to be
	// stored, and whoever gives up then submits it twice.
	dial := &net.Dialer{Timeout: 10 * time.Second}
	t := &http.Transport{DialContext: dial.DialContext, Proxy: http.ProxyFromEnvironment, ExpectContinueTimeout: 10 * time.Second}
	if socket != nil {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return socket.Dial(ctx) }
	}
	var sent http.RoundTripper = expecting{t}
	if socket == nil {
		sent = withToken(base, sent)
	}
	sent = watch(sent)
	return &remote{newClient(base, sent), base, sent, t, socket}
}

// Close lets go of the connection.
func (r *remote) Close() error {
	r.transport.CloseIdleConnections()
	if r.socket == nil {
		return nil
	}
	return r.socket.Close()
}

// largeBody is from where a daemon is asked before a body is sent, so that a
// refusal is read instead of running into a closed connection.
const largeBody = 128 << 10

// expecting asks so (RFC 9110, 10.1.1).
type expecting struct{ http.RoundTripper }

func (e expecting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.ContentLength < 0 || r.ContentLength > largeBody {
		r = r.Clone(r.Context())
		r.Header.Set("Expect", "100-continue")
	}
	return e.RoundTripper.RoundTrip(r)
}
