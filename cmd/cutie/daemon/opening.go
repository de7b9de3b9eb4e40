package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/listen"
	"cutie/queuefs/journal/bucket"
)

// An Opening stands in for a daemon while it opens a home in a store, which may take long:
// it answers requests with 503, and gives the signs of life of an owner. Its zero value
// does neither. Its methods are for one caller at a time but for Own, and nil does nothing.
type Opening struct {
	Log         zerolog.Logger
	Certificate *listen.Certificate // nil: no TLS
	Node        *NodeOptions

	server *http.Server
	served chan error
	door   door

	mu    sync.Mutex
	beats context.CancelFunc // nil: none are given
	wg    sync.WaitGroup
}

// openingPause is how long requests wait before the first is answered: mostly the home is
// open by then.
const openingPause = time.Second

// Answer answers requests on ln after a moment, until Stop.
func (o *Opening) Answer(ln net.Listener) {
	if o == nil || o.server != nil {
		return
	}
	o.server = &http.Server{Handler: http.HandlerFunc(answerOpening), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		WriteTimeout: openingPause + stallTime, Protocols: new(http.Protocols), ErrorLog: stdlog.New(lineLog{o.Log}, "", 0)}
	o.server.Protocols.SetHTTP1(true)
	if o.Certificate != nil {
		o.server.TLSConfig = o.Certificate.Config()
	}
	o.door, o.served = door{ln}, make(chan error, 1)
	server, on, pause := o.server, o.door, time.NewTimer(openingPause)
	stopped := make(chan struct{})
	server.RegisterOnShutdown(func() { close(stopped) })
	go func() {
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-stopped:
		}
		if server.TLSConfig == nil {
			o.served <- server.Serve(on)
			return
		}
		o.served <- server.ServeTLS(on, "", "")
	}()
}

// Stop ends the answers. The listener stays open.
func (o *Opening) Stop() error {
	if o == nil || o.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openingPause)
	defer cancel()
	err := o.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = o.server.Close()
	}
	if e := <-o.served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	o.server = nil
	return errors.Join(err, o.door.open())
}

// answerOpening answers: the home is being opened.
func answerOpening(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Path == "/livez" {
		io.WriteString(w, "ok\n")
		return
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintln(w, "the home is being opened, ask again in a moment")
}

// Own gives signs of life of an owner until End: no standby takes the home meanwhile.
func (o *Opening) Own(p *bucket.Pulse) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.beats != nil {
		o.beats()
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.beats = cancel
	o.wg.Go(func() {
		p.Keep(ctx, o.Node.beat(), func(err error) { o.Log.Warn().Err(err).Msg("sign of life") })
	})
}

// End ends the signs of life.
func (o *Opening) End() {
	if o == nil {
		return
	}
	o.mu.Lock()
	if o.beats != nil {
		o.beats()
		o.beats = nil
	}
	o.mu.Unlock()
	o.wg.Wait()
}
