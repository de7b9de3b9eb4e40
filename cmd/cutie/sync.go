package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/publisher/destination"
	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/publisher/hub"
	"cutie/queuefs/outbound"
	"cutie/queuefs/state"
	"cutie/wellknown"
)

// syncVerb copies a Source.
func syncVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sync [URL] DIR",
		Short: "copy a ResourceSync Source to a directory, and keep the copy true",
		Args:  between(1, 2),
		Long: `
The URL is a site, a page, or a document of any Source in the world: of a daemon, of
a program of others, or a plain Sitemap. The first run copies all resources, by the
packages of a Resource Dump where there are some; later runs need no URL and follow
the changes. Each file is verified before it has its name, a run that was cut off is
taken up by the next one, and nothing is fetched twice.

A copy has the files of all sets, or of the ones in --set. Of a daemon's sets it is
replica: all files of the queues (Q/pending would be a part of it).

A file has the path of its URI. --delete says which files are removed: of resources with a
deletion in a Change List (told), also those that no list names (all), or none (never).
Where the Source no longer lists all changes since the last run, a resource that no list
names was deleted (told). --include and --exclude choose resources by patterns, in which *
stands for any text.

A Source may name any host in its documents and redirects. Beside its own host only public
addresses are asked, so that no Source has answers of a private network copied;
--allow-fetch names exceptions. What is copied with --token or --user is for its owner
alone: the new directory has the mode 0700.

Documents have up to 50 MB and 50,000 entries, as the standard has it, and a list up to
50,000 documents. --max-resource limits a resource whose length no list says, and
--max-package-files the files of a package; where a package cannot be used, the Resource
List is.

--follow goes on until it is interrupted. It waits for changes where the Source can
(Prefer: wait), else it looks every so often. With --listen the hub of the Source
tells of changes (WebSub), if it reaches that address, and --every is for those that
got lost. New sets are copied, too.

An entry, a list or a set that cannot be read is named and skipped, and all else is copied.
No file is then removed for being in no list, and the next run reads it again; --follow
does after a minute, then after two, up to an hour. A time, length or link that cannot be read counts as not given.

It ends with 0 when the copy equals the Source, and with 8 if resources are missing, or
something was skipped.`,
		Example: `cutie sync http://127.0.0.1:8080 mirror
cutie sync mirror
cutie sync http://127.0.0.1:8080 mirror --follow`,
	}
	var o syncOptions
	o.bind(cmd.Flags())
	fs := cmd.Flags()
	by := fs.String("by", "", "make the baseline by `list` or dump; without it the cheaper one")
	del := fs.String("delete", "told", "remove files: `told`, all, or never")
	fs.StringArrayVar(&o.Include, "include", nil, "only resources with a URI like `PATTERN`")
	fs.StringArrayVar(&o.Exclude, "exclude", nil, "no resources with a URI like `PATTERN`")
	fs.BoolVar(&o.Again, "again", false, "look at all resources, not at changes only, and fetch those that differ")
	fs.BoolVar(&o.Deep, "checksum", false, "compare digests of files whose length and time are right")
	fs.BoolVarP(&o.DryRun, "dry-run", "n", false, "say how much would be done, and do nothing")
	follow := fs.Bool("follow", false, "go on until interrupted")
	every := fs.Duration("every", 30*time.Second, "`time` between two looks at a Source that does not wait")
	var l listener
	fs.StringVar(&l.addr, "listen", "", "with --follow: hear of changes on this `ADDRESS`, as in 192.0.2.1:8090")
	fs.StringVar(&l.callback, "callback", "", "`URL` of --listen as the hub sees it")
	return c.Verb(cmd, optForm|optVerbose, func(ctx context.Context) error {
		o.By, o.Delete, o.History = destination.By(*by), destination.Deletions(*del), true
		if *follow && o.DryRun {
			return usagef("--follow needs something to do, --dry-run does nothing")
		}
		if l.addr != "" && !*follow || l.callback != "" && l.addr == "" {
			return usagef("--listen needs --follow, and --callback needs --listen")
		}
		if *every < time.Second {
			return usagef("--every is 1s or more")
		}
		return o.with(ctx, c, func(ctx context.Context, copied *destination.Copy) error {
			if *follow {
				return followed(ctx, c, &o, copied, &l, *every)
			}
			return synced(ctx, c, copied)
		})
	})
}

// syncOptions are the ones of the verbs, beside the ones of the library.
type syncOptions struct {
	destination.Options
	token, user string
	allow       []string
	connections int
	requests    float64
	octets      octets
	maxResource octets
	tries       int
	timeout     time.Duration
}

func (o *syncOptions) bind(fs *pflag.FlagSet) {
	fs.StringArrayVar(&o.Sets, "set", nil, "only the set of this `NAME`, or with this Capability List; later runs take the same")
	fs.StringVar(&o.token, "token", "", "bearer `token` for the Source, or @FILE with it")
	fs.StringVar(&o.user, "user", "", "`NAME:PASSWORD` for the Source, or @FILE with it")
	fs.StringSliceVar(&o.allow, "allow-fetch", nil, "`pattern` of hosts that the Source may name although they are not public, beside its own: host, *.host, address or network, each with :port or not; may be repeated")
	fs.IntVar(&o.connections, "connections", source.DefaultConnections, "use at most this `number` of connections at a time")
	fs.Float64Var(&o.requests, "rate", 0, "at most this `number` of requests a second")
	fs.Var(&o.octets, "bandwidth", "at most this many `octets` a second")
	o.maxResource = destination.DefaultMaxResource
	fs.Var(&o.maxResource, "max-resource", "refuse more than this many `octets` of a resource whose length no list says")
	fs.IntVar(&o.MaxFiles, "max-package-files", source.MaxPackageFiles, "refuse a package with more than this `number` of files")
	fs.IntVar(&o.tries, "tries", source.DefaultTries, "ask this `number` of times where an error may pass")
	fs.DurationVar(&o.timeout, "timeout", source.DefaultTimeout, "give up on a server that is silent for this `time`")
}

// memory is from where on memory is collected before it has doubled: a Source of millions of
// resources has large lists, and most of what they take is not needed any more.
const memory = 200 << 20

// with opens the copy for do.
func (o *syncOptions) with(ctx context.Context, c *call, do func(context.Context, *destination.Copy) error) (err error) {
	if err := o.check(c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var mu sync.Mutex
	o.Tell = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		c.Warnf("%s", text)
	}
	copied, err := destination.Open(ctx, o.Options)
	if err != nil {
		return hinted(err)
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	return hinted(do(ctx, copied))
}

func (o *syncOptions) check(c *call) error {
	o.Dir = c.Args[len(c.Args)-1]
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory)
	}
	if len(c.Args) == 2 {
		base := c.Args[0]
		if !strings.Contains(base, "://") {
			return withHint(usagef("%.200q is no URL", base), "a URL begins with http:// or https://, as in cutie sync http://127.0.0.1:8080 DIR")
		}
		o.URL = base
	}
	if o.MaxFiles < 1 || o.MaxFiles > 1<<30 || o.maxResource == 0 {
		return usagef("--max-package-files and --max-resource are 1 or more")
	}
	o.MaxResource = int64(o.maxResource)
	if o.connections < 1 || o.connections > 256 || o.tries < 1 || o.requests < 0 || o.timeout < time.Second {
		return usagef("--connections is 1 to 256, --tries 1 or more, --rate not negative, --timeout 1s or more")
	}
	allowed, err := outbound.NewAddresses(o.allow)
	if err != nil {
		return usagef("--allow-fetch: %v", err)
	}
	o.HTTP = source.Options{Addresses: allowed, UserAgent: agentName(), Connections: o.connections, Requests: o.requests, Octets: int64(o.octets),
		Tries: o.tries, Timeout: o.timeout, Header: http.Header{}}
	switch {
	case o.user != "":
		user, err := secretOf(o.user)
		if err != nil {
			return err
		}
		if !strings.Contains(user, ":") {
			return usagef("--user is NAME:PASSWORD, or @FILE with it")
		}
		o.HTTP.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user)))
	case o.token != "":
		token, err := secretOf(o.token)
		if err != nil {
			return err
		}
		o.HTTP.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

func hinted(err error) error {
	var status *source.StatusError
	switch {
	case errors.Is(err, destination.ErrNoCopy):
		return withHint(err, "cutie sync URL DIR makes one")
	case errors.Is(err, destination.ErrOther):
		return withHint(err, "take a directory for each Source")
	case source.Refused(err) != nil:
		return withHint(err, "--allow-fetch PATTERN lets the Source name this host, if you trust it")
	case errors.Is(err, local.ErrBusy):
		return withHint(err, "wait for the other cutie sync, or stop it")
	case errors.Is(err, wellknown.ErrNotFound):
		return withHint(err, "give the URL of a Capability List, a list, or a Sitemap")
	case errors.Is(err, wellknown.ErrNoAnswer) && !errors.As(err, &status):
		return withHint(err, "try again if the server has failed; give --token or --user if it wants them")
	case errors.Is(err, source.ErrGap):
		return withHint(err, "cutie sync DIR begins anew")
	case errors.As(err, &status) && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden):
		return withHint(fmt.Errorf("%w: %w", errRefused, err), "give --token or --user")
	}
	return err
}

func synced(ctx context.Context, c *call, copied *destination.Copy) error {
	stop := showProgress(c, copied)
	r, err := copied.Sync(ctx)
	stop()
	if r != nil && (err == nil || r.Fetched > 0) {
		err = errors.Join(err, printSync(c, r))
	}
	if err == nil && !r.InSync() {
		err = fmt.Errorf("%w: %d resources failed, %d were refused", errDiffers, r.Failed, r.Refused)
		if r.Skipped > 0 {
			err = fmt.Errorf("%w, %d sets, lists or entries could not be read", err, r.Skipped)
		}
		return err
	}
	return err
}

func followed(ctx context.Context, c *call, o *syncOptions, copied *destination.Copy, l *listener, every time.Duration) (err error) {
	if l.addr != "" {
		end, err := l.listen(ctx, c, o, copied)
		if err != nil {
			return err
		}
		defer func() {
			if err := end(); err != nil {
				c.Warnf("%v", err)
			}
		}()
	}
	stop := showProgress(c, copied)
	err = copied.Follow(ctx, every, func(r *destination.Report) {
		stop()
		if err := printSync(c, r); err != nil {
			c.Warnf("%v", err)
		}
		c.Sayf("following %s", r.Source)
	})
	stop()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// showProgress shows a bar on a terminal until the end of the baseline: the total is an
// estimate until all lists were read.
func showProgress(c *call, copied *destination.Copy) (stop func()) {
	if !isTerminal(c.Stderr) {
		return func() {}
	}
	p := newProgress(c.Stderr, "copying", -1, time.Second)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(200 * time.Millisecond)
		defer t.Stop()
		last := int64(0)
		for {
			select {
			case <-t.C:
				counts := copied.Counts()
				n := counts.Stored.Load() + counts.Held.Load()
				if total := counts.Total.Load(); total > 0 {
					p.Total(max(total, n))
				}
				p.Add(n - last)
				last = n
			case <-done:
				p.Clear()
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}

// printSync prints the result of a run: JSON, or lines.
func printSync(c *call, r *destination.Report) error {
	asTyped := struct {
		state.Typed
		*destination.Report
	}{state.SyncClass.Typed(), r}
	return c.report(asTyped, func(w io.Writer) { writeSync(w, r) })
}

func writeSync(w io.Writer, r *destination.Report) {
	verb := "fetched"
	if r.DryRun {
		verb = "would fetch"
	}
	for _, s := range r.Sets {
		if s.Error != "" {
			fmt.Fprintf(w, "%s: skipped: %s\n", s.Name, s.Error)
			continue
		}
		how := "changes"
		if s.Baseline {
			how = "baseline by " + string(s.By)
		}
		line := fmt.Sprintf("%s: %s", s.Name, how)
		if !s.Until.IsZero() {
			line += ", true up to " + s.Until.Format(time.RFC3339)
		}
		if s.Event > 0 {
			line += fmt.Sprintf(" (event %d)", s.Event)
		}
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%s %d, same %d, deleted %d, refused %d, failed %d, extra %d; %d requests, %d octets, %.1f s\n",
		verb, r.Fetched, r.Same, r.Deleted, r.Refused, r.Failed, r.Extra, r.Requests, r.Octets, r.Seconds)
}

// report prints the report of a verb on copies: JSON, or lines.
func (c *call) report(asJSON any, lines func(w io.Writer)) error {
	if wants, err := wantsJSON(c); err != nil {
		return err
	} else if wants {
		return printJSON(c, asJSON)
	}
	var b bytes.Buffer
	lines(&b)
	_, err := b.WriteTo(onScreen(c.Out.Stdout))
	return err
}

func wantsJSON(c *call) (bool, error) {
	if c.Form != "" && !strings.EqualFold(c.Form, "json") {
		return false, withHint(usagef("reports have no response form %.40q", c.Form), "-t json, or no -t")
	}
	return c.Form != "", nil
}

func printJSON(c *call, v any) error {
	e := json.NewEncoder(c.Out.Stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// A listener has the hubs of a Source tell of changes (WebSub).
type listener struct {
	addr     string // to listen on; "": no listener
	callback string // URL of addr as hubs see it; "": http://ADDR/
}

// topicTick is the time between two looks at leases that end.
const topicTick = time.Minute

// listen subscribes to the sets of a copy. Where a hub is missing, or refuses, the
// copy waits for changes as it does without.
func (l *listener) listen(ctx context.Context, c *call, o *syncOptions, copied *destination.Copy) (stop func() error, err error) {
	in, err := net.Listen("tcp", l.addr)
	if err != nil {
		return nil, err
	}
	callback := l.callback
	if callback == "" {
		callback = "http://" + in.Addr().String() + "/"
	}
	s, err := hub.NewSubscriber(hub.SubscriberOptions{Callback: callback, Client: copied.HTTP(),
		Receive: func(string, []byte) error { return nil }, // the answer to it wakes
		Report:  func(err error) { o.Tell(err.Error()) }})
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		copied.Wake() // also for a verification: nobody told of changes before it
	})
	server := &http.Server{Handler: answer, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(in); !errors.Is(err, http.ErrServerClosed) {
			o.Tell(err.Error())
		}
	})
	ctx, cancel := context.WithCancel(ctx)
	if subscribed(ctx, c, s, copied.Topics()) {
		copied.Expect()
	}
	wg.Go(func() { tick(ctx, s) })
	return func() error {
		cancel()
		end, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		err := s.Unsubscribe(end)
		if server.Shutdown(end) != nil {
			err = errors.Join(err, server.Close())
		}
		wg.Wait()
		return err
	}, nil
}

// subscribed subscribes to all topics, and reports whether it could.
func subscribed(ctx context.Context, c *call, s *hub.Subscriber, topics []string) bool {
	for _, topic := range topics {
		if _, err := s.Subscribe(ctx, topic); err != nil {
			c.Warnf("%v; changes are waited for", err)
			return false
		}
	}
	return len(topics) > 0
}

func tick(ctx context.Context, s *hub.Subscriber) {
	t := time.NewTicker(topicTick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.Tick(ctx)
		case <-ctx.Done():
			return
		}
	}
}
