package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/listen"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/rest/client"
)

// The queues that a command is about are at the URL of a daemon, behind the socket of the daemon
// of a home, or in a home that no daemon serves; that home is opened in this process. The three
// answer alike.

// A finder finds the target of a command.
type finder struct {
	Home  string                        // directory; never empty
	URL   string                        // base URI of a daemon; "" for the home
	Reads bool                          // the command changes nothing: a home is opened for reading
	Debug int                           // 1 shows requests, 2 their headers too
	Warn  func(format string, a ...any) // prints a line on standard error
	Say   func(format string, a ...any) // is Warn with -v, and nothing without
	Trace io.Writer                     // gets the headers

	announced bool // Say has named the target
}

// A target answers requests about queues. [errors.Is] finds the errors of queuefs in
// those of a daemon and of a home alike.
type target struct {
	*client.Client
	Base string       // URL, with a slash at its end
	HTTP *http.Client // for requests of other clients
	Home string       // directory; "" for a URL

	open *openHome // nil for a daemon
	end  func() error
}

// Close ends the connections, or closes the home.
func (t *target) Close() error { return t.end() }

// Local reports whether the target is a home opened in this process. Nobody else can
// change it meanwhile.
func (t *target) Local() bool { return t.open != nil }

// Trouble returns why a daemon refuses requests, in its words; "" if it does not, cannot be
// asked, or the target is a home opened in this process.
func (t *target) Trouble(ctx context.Context) string {
	if t.Local() {
		return ""
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.Base+"readyz", nil)
	if err != nil {
		return ""
	}
	a, err := t.HTTP.Do(req)
	if err != nil {
		return ""
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, 4096))
	if err != nil || a.StatusCode != http.StatusServiceUnavailable {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if why, ok := strings.CutPrefix(first, "not ready: "); ok {
		return why
	}
	return ""
}

func newTarget(base string, carry http.RoundTripper, end func() error) *target {
	hc := &http.Client{Transport: carry}
	c := client.New(base, hc)
	c.UserAgent = agentName()
	for _, e := range job.TraceElements(os.Getenv("TRACEPARENT"), os.Getenv("TRACESTATE")) { // of the work that runs this command
		if c.Header == nil {
			c.Header = http.Header{}
		}
		c.Header.Set(e.Name, e.Value)
	}
	return &target{Client: c, Base: base, HTTP: hc, end: end}
}

// agentName names the program, as submitter and as consumer.
func agentName() string {
	login := "unknown"
	if u, err := user.Current(); err == nil {
		login = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return "cutie/" + home.Version + " (" + login + "@" + host + ")"
}

// maxLockWait is how long to wait for a home opened by another command.
const maxLockWait = 10 * time.Second

// Find finds the daemon, or opens the home. It waits for a home opened by another
// command.
func (f *finder) Find(ctx context.Context) (*target, error) {
	for start := time.Now(); ; {
		t, err := f.Daemon(ctx)
		if err != nil || t != nil {
			return t, err
		}
		t, err = f.openHome(ctx)
		if err == nil {
			f.tell("opens %s", f.Home)
			return t, nil
		}
		var locked *home.LockedError
		if !errors.As(err, &locked) || time.Since(start) > maxLockWait {
			return nil, f.orDaemon(explainHome(err, f.Home))
		}
		// Another command has the home open, or a daemon is starting.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Daemon finds the daemon; nil if none runs on the home.
func (f *finder) Daemon(ctx context.Context) (*target, error) {
	if f.URL != "" {
		base, err := cleanBase(f.URL)
		if err != nil {
			return nil, err
		}
		f.tell("asks %s", base)
		return f.Remote(base), nil
	}
	socket, err := listen.OpenSocket(f.Home)
	if err != nil {
		return nil, ignore(err, os.ErrNotExist)
	}
	conn, err := socket.Dial(ctx)
	if err != nil {
		// A killed daemon leaves a socket without a listener.
		return nil, errors.Join(socket.Close(), ignore(err, os.ErrNotExist, refusedConn))
	}
	conn.Close()
	f.tell("asks the daemon of %s", f.Home)
	tr := transport()
	tr.Proxy = nil
	tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return socket.Dial(ctx) }
	t := newTarget("http://localhost/", f.traced(expecting{tr}), func() error {
		tr.CloseIdleConnections()
		return socket.Close()
	})
	t.Home = f.Home
	return t, nil
}

// NeedDaemon is [finder.Daemon] for commands without an answer from a home alone. It
// is an error if no daemon runs.
func (f *finder) NeedDaemon(ctx context.Context) (*target, error) {
	t, err := f.Daemon(ctx)
	if err != nil || t != nil {
		return t, err
	}
	hint := "cutie serve --home " + f.Home + " starts one; --url names another"
	if _, err := os.Stat(f.Home); err != nil {
		hint = namesDaemon + "; cutie serve --home " + f.Home + " makes a home and starts one"
	}
	return nil, withHint(fmt.Errorf("no daemon runs on %s", f.Home), hint)
}

// namesDaemon is a hint for people whose queues are not in a home of this machine.
const namesDaemon = "--url or CUTIE_URL names a daemon"

// orDaemon puts a daemon before the other ways out of a missing home.
func (f *finder) orDaemon(err error) error {
	if hint := hintOf(err); errors.Is(err, fs.ErrNotExist) || errors.Is(err, home.ErrNoHome) {
		return withHint(err, namesDaemon+"; "+hint)
	}
	return err
}

// Remote returns the daemon at base, or a server of another kind for its HTTP client.
func (f *finder) Remote(base string) *target {
	tr := transport()
	return newTarget(base, reaching{f.traced(withToken(base, expecting{tr})), base}, func() error {
		tr.CloseIdleConnections()
		return nil
	})
}

// tell names the target once.
func (f *finder) tell(format, target string) {
	if !f.announced {
		f.Say(format, target)
	}
	f.announced = true
}

// completionLimit is how long a daemon may take to send the names of its
// queues.
const completionLimit = 500 * time.Millisecond

// QueueNames returns the names of the queues of a daemon that answers soon, for
// completions. A home without a daemon is not opened; its list is read. Errors give no
// names.
func (f *finder) QueueNames(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, completionLimit)
	defer cancel()
	t, err := f.Daemon(ctx)
	if err != nil {
		return nil
	}
	if t == nil {
		return listedQueues(f.Home)
	}
	defer t.Close()
	s, _ := t.Service(ctx)
	return s.Queues
}

// listedQueues reads queues.txt of a home (Cutie 0.3, 6.3).
func listedQueues(home string) (names []string) {
	list, err := os.Open(filepath.Join(home, "queues.txt"))
	if err != nil {
		return nil
	}
	defer list.Close()
	text, err := io.ReadAll(io.LimitReader(list, 1<<20))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if id, err := job.CleanQueueID(strings.TrimSpace(line)); err == nil && !strings.HasPrefix(line, "#") {
			names = append(names, id)
		}
	}
	return names
}

// Source is [finder.Find] for commands about published documents: an open home
// answers for these too.
func (f *finder) Source(ctx context.Context) (*target, error) {
	t, err := f.Find(ctx)
	if err != nil || t.open == nil {
		return t, err
	}
	pub, err := f.publisher(t.open.svc)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.open.svc.Follow(pub)
	t.open.home.Publish(pub)
	end := t.end
	t.end = func() error { return errors.Join(end(), pub.Close()) }
	return t, nil
}

// publisher opens the published documents of a home with their settings: with
// another base URI or version all lists would begin anew, with another retention
// some would go.
func (f *finder) publisher(svc *queuefs.Service) (*publisher.Publisher, error) {
	o, err := f.Publishing(svc)
	if err != nil {
		return nil, withHint(err, "cutie serve --dialect VERSION goes on in a version of ResourceSync, cutie publish --rebuild makes everything anew")
	}
	return publisher.New(svc, o)
}

// Publishing returns the settings with which a home was published.
func (f *finder) Publishing(svc *queuefs.Service) (publisher.Options, error) {
	o, err := publisher.Published(svc.Dir())
	o.BaseURI = cmp.Or(o.BaseURI, svc.Info().BaseURI)
	o.Page = dashboard.About
	o.Report = func(p durable.Finding) { f.Warn("%s", p) }
	return o, err
}
