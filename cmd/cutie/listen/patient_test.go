package listen

import (
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
)

// A troubled listener fails for once with each of some errors.
type troubled struct {
	net.Listener
	errs []error
}

func (l *troubled) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	return l.Listener.Accept()
}

// A shortage or an error of the network ends no server; one of the socket does.
func TestAServerGoesOnAfterErrorsOfConnections(t *testing.T) {
	for _, c := range []struct {
		errs []error
		ends bool
	}{
		{errs: []error{syscall.ENOBUFS, syscall.ENOMEM, syscall.EPROTO}},
		{errs: []error{syscall.EMFILE}},
		{errs: []error{syscall.EBADF}, ends: true},
		{errs: []error{syscall.EINVAL}, ends: true},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{ErrorLog: stdlog.New(io.Discard, "", 0), Handler: http.NotFoundHandler()}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(patient{&troubled{ln, c.errs}}) }()
		if c.ends {
			if err := <-ended; err == nil {
				t.Errorf("%v: the server ended without an error", c.errs)
			}
			continue
		}
		resp, err := http.Get("http://" + ln.Addr().String())
		if err != nil {
			t.Fatalf("%v: %v", c.errs, err)
		}
		resp.Body.Close()
		server.Close()
		if err := <-ended; err != http.ErrServerClosed {
			t.Errorf("%v: %v", c.errs, err)
		}
	}
}
