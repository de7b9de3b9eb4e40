package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/listen"
	"cutie/cmd/cutie/mirror"
	"cutie/cmd/cutie/reach"
	"cutie/publisher/scrub"
	"cutie/queuefs"
	"cutie/queuefs/outbound"
	"cutie/sitemap"
	"cutie/wellknown"
)

// serveOptions are the settings of the daemon, and options as typed.
type serveOptions struct {
	daemon.Options
	users               *string
	listen, anonymous   string
	limits              string // of clients without a name
	implied             bool   // everybody on this machine may do all, and nobody else anything
	buffers             octets
	keepSize            share
	tlsCert, tlsKey     string
	proxies, fetch      []string
	dialect, cors       string
	logLevel, logFormat string
	acceptLoss          bool
	config              string
	mirrors             []string
	mirrorToken         string
	store               storeOptions
}

// bind adds the options to fs.
func (o *serveOptions) bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.config, "config", os.Getenv(Variable("config")), "`file` of settings in TOML (environment CUTIE_CONFIG)")
	fs.Lookup("config").DefValue = ""
	fs.StringVarP(&o.listen, "listen", "l", reach.DefaultListen, "`address` to listen on; port 0 takes a free one")
	fs.StringVar(&o.Listen.BaseURI, "base-uri", "", "`URI` at which clients reach this daemon")
	o.users = bindUsers(fs)
	fs.StringVar(&o.anonymous, "anonymous", "", "`rights` of clients without a name: read, submit, all, none, or a list (default none with --users, else all on loopback)")
	fs.StringVar(&o.limits, "anonymous-limits", "", "`list` of limits of all clients without a name together in each queue, such as pending=100,active=1000; see cutie help limits")
	fs.StringVar(&o.tlsCert, "tls-cert", "", "`file` of the certificate chain, for TLS")
	fs.StringVar(&o.tlsKey, "tls-key", "", "`file` of its key")
	fs.StringSliceVar(&o.proxies, "trusted-proxy", nil, "`network` of proxies to believe, such as 10.0.0.0/8; may be repeated")
	o.Limits.Body = 16 << 30
	fs.Var((*octets)(&o.Limits.Body), "max-body", "largest submission, such as 64M or 16G")
	o.buffers = 128 << 20
	fs.Var(&o.buffers, "max-buffers", "memory for what is kept of all requests at once, and of answers that clients have not taken yet, such as 64M; one address gets as much as it leaves to others; a request beyond it is answered with 503; 0: any size")
	fs.IntVar(&o.Limits.Conns, "max-conns", 10_000, "`number` of connections at once, and of requests over HTTP/2; one address gets as many as it leaves to others, so half of them if it is alone; a trusted proxy gets all")
	fs.IntVar(&o.Limits.Waits, "max-waits", 1000, "`number` of requests of one address that may wait at once")
	fs.IntVar(&o.Limits.Dirs, "max-dirs", 512, "`number` of directories of queues kept open, those used last")
	o.bindSource(fs)
	o.store.bind(fs, &o.Node)
	fs.StringSliceVar(&o.fetch, "allow-fetch", nil, "`pattern` of hosts that manifests, callbacks, hubs and mirrored Sources may name although they are not public: host, *.host, address or network, each with :port or not; may be repeated")
	fs.BoolVar(&o.Robots, "robots", false, "answer /robots.txt with the Resource Lists that the asker may read, and plain Sitemaps for search engines")
	fs.StringVar(&o.cors, "cors", "", "`origin` whose pages may read, such as https://example.org, or *")
	fs.BoolVar(&o.Push.NoHub, "no-hub", false, "take no subscribers; present ones wait for another hub of ours")
	fs.StringSliceVar(&o.Push.Hubs, "hub", nil, "`URL` of a WebSub hub to tell of changes too; may be repeated")
	fs.BoolVar(&o.Push.Payload, "hub-payload", false, "send the hubs of --hub the notifications instead of telling them to fetch")
	fs.StringVar(&o.Push.Change, "change-capability", string(sitemap.ChangeNotification), "`name` of Change Notifications in Capability Lists")
	fs.StringVar(&o.Push.Framework, "framework-capability", string(sitemap.FrameworkNotification), "`name` of Framework Notifications")
	o.AccessLog.Max = reach.DefaultLogMax
	fs.Var((*octets)(&o.AccessLog.Max), "log-max", "size of an access log; 0 lets it grow")
	fs.IntVar(&o.AccessLog.Keep, "log-keep", reach.DefaultLogKeep, "`number` of old access logs to keep")
	fs.StringSliceVar(&o.mirrors, "mirror", nil, "`URL` of a daemon whose queues this one keeps as live mirrors; may be repeated")
	fs.StringVar(&o.mirrorToken, "mirror-token", "", "bearer `token` for these, or @FILE with it, read again when it is refused")
	fs.DurationVar(&o.Mirror.Audit, "mirror-audit", 24*time.Hour, "`time` between two audits of a mirror; 0: none")
	fs.StringVar(&o.Traces.URL, "traces", "", "`URL` of a collector of OpenTelemetry that gets spans of jobs, by OTLP over HTTP, such as http://127.0.0.1:4318")
	fs.Float64Var(&o.Traces.Ratio, "trace-ratio", 1, "`share` of the jobs with spans, 0 to 1, where the submitter has not decided by traceparent")
	fs.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn, error or disabled")
	fs.StringVar(&o.logFormat, "log-format", "", "json or console (default console on a terminal, else json)")
	fs.BoolVar(&o.acceptLoss, "accept-loss", false, "open a home that was not closed and lost its journal, without the changes that were in it alone")
	fs.DurationVar(&o.Limits.Grace, "grace", 10*time.Second, "`time` for requests in progress to end when stopping, or giving a home in a store up")
}

// bindSource adds the options about published documents.
func (o *serveOptions) bindSource(fs *pflag.FlagSet) {
	s := &o.Source
	fs.StringVar(&o.dialect, "dialect", "", "`version` of ResourceSync of all documents: 1.1, 1.0 or 0.9 (default the last one, at first 1.1)")
	fs.BoolVar(&s.Anew, "yes", false, "go on with another version or base URI than before: every mirror begins anew")
	fs.DurationVar(&s.Period, "period", time.Hour, "`time` after which a Change List with entries is closed at the latest, however few; sooner in a young queue, after a minute or more; 0: never")
	fs.IntVar(&s.MaxEntries, "list-entries", 0, "`number` of entries of a document, 2 to 50000; a page of a Resource List takes 1,024 jobs at least (default 50000)")
	fs.Var((*octets)(&s.MaxBytes), "list-size", "size of a document before compression, 64K to 50000000; a page of 1,024 jobs may be larger (default 50000000)")
	fs.Var((*octets)(&s.MaxPackage), "package-size", "size of the files in a package of a dump, before the next begins; files of the 1,024 jobs of a page, or of an event, stay together (default 4G)")
	fs.DurationVar(&s.DumpPeriod, "dump-period", 7*24*time.Hour, "`time` after which a Resource Dump is made again, sooner if it is far behind; 0: only by cutie publish --now")
	fs.DurationVar(&s.Current, "current", 0, "`time` for which a closed Change List stands in the index; then only the archive names it, unless it has changes since the Resource Dump; 0: as long as it is kept")
	fs.DurationVar(&s.Keep, "keep", 0, "`time` for which closed Change Lists and former dumps stay; 0: for ever")
	o.keepSize = share{percent: 5}
	fs.Var(&o.keepSize, "keep-size", "size of these on disk for one set, such as 100G, or a share of the disk, such as 5%, before the oldest go; 0: any size")
	fs.StringVar(&s.Dumps, "dumps", "pending,replica", "`sets` of resources with dumps, of queues that do not say it themselves: pending, replica, pending,replica or none")
	s.Pace = scrub.Pace{Period: 7 * 24 * time.Hour}
	fs.Var((*pace)(&s.Pace), "scrub", "`pace` at which published files are read again and verified: a period such as 7d or 36h, or a rate in bytes a second such as 10MB; 0: only when they are opened")
	fs.StringSliceVar(&s.Mirrors, "duplicate", nil, "base `URI` of a copy, published with every resource; up to four times")
	fs.StringVar(&s.Via, "via", "", "base `URI` of the origin of every resource, for a home that is a copy")
}

// check reads the typed options and finds their mistakes, before a home is
// opened or made.
func (o *serveOptions) check() error {
	for _, check := range []func() error{o.checkAccess, o.checkLimits, o.checkListen, o.checkSource, o.checkMirrors, o.checkStore, o.checkTraces} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkAccess reads the options about rights.
func (o *serveOptions) checkAccess() (err error) {
	file := *o.users
	o.implied = file == "" && o.anonymous == ""
	o.Access.Users = file
	o.Access.Report = func(users int, wide bool) {
		o.Log.Info().Str("file", file).Int("users", users).Msg("users read")
		if wide {
			o.Log.Warn().Str("file", file).Msg("others can read or write the users file, chmod 600 takes that away")
		}
	}
	if o.implied {
		o.Access.Anonymous = access.Everything
	} else if o.anonymous != "" {
		if o.Access.Anonymous, err = access.ParseRights(o.anonymous); err != nil {
			return fault.Usagef("--anonymous: %v", err)
		}
	}
	if o.Access.Limits, err = queuefs.ParseLimits(o.limits); err != nil {
		return fault.Usagef("--anonymous-limits: %v", err)
	}
	for _, text := range o.proxies {
		p, err := access.ParseProxy(text)
		if err != nil {
			return fault.Usagef("--trusted-proxy: %v", err)
		}
		o.Listen.Proxies = append(o.Listen.Proxies, p)
	}
	if file == "" {
		return nil
	}
	if _, _, err = access.Load(file); err != nil {
		err = fmt.Errorf("users: %w", err)
		hint := "mend the line, or bring the file back from a copy: cutie help access"
		switch {
		case errors.Is(err, fs.ErrNotExist):
			hint = "cutie user add NAME --users " + file + " makes it"
		case errors.Is(err, fs.ErrPermission):
			hint = "chown " + file + " to the user of the daemon"
		case errors.Is(err, access.ErrNoFile):
			hint = "name the file itself: cutie user add NAME --users FILE makes one"
		case errors.Is(err, access.ErrEmpty):
			hint = "bring the file back from a copy; or begin anew: echo '# no users' > " + file + ", and cutie user add NAME --users " + file
		}
		err = fault.Hint(err, hint)
	}
	return err
}

// checkLimits lowers the number of connections to the files of this process.
func (o *serveOptions) checkLimits() error {
	o.Limits.Buffers = int(o.buffers)
	switch l := o.Limits; {
	case l.Buffers > 0 && l.Buffers < 1<<20:
		return fault.Usagef("--max-buffers is 1M or more, or 0")
	case l.Conns < 1 || l.Waits < 1 || l.Body < 1:
		return fault.Usagef("--max-body, --max-conns and --max-waits are 1 or more")
	case l.Dirs < 1:
		return fault.Usagef("--max-dirs is 1 or more")
	case o.AccessLog.Keep < 0 || o.AccessLog.Keep > 1000:
		return fault.Usagef("--log-keep is 0 to 1000")
	case l.Grace < 0:
		return fault.Usagef("--grace %v is less than no time", l.Grace)
	}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return nil
	}
	if most := listen.Connections(o.Limits.Conns, files.Cur); most < o.Limits.Conns {
		o.Log.Warn().Int("asked", o.Limits.Conns).Int("connections", most).Msg("fewer connections, for this process may open few files (ulimit -n)")
		o.Limits.Conns = most
	}
	return nil
}

// checkListen resolves the address. Beyond loopback the operator must have set
// rights. The daemon later binds this address, even if the name resolves to
// another by then.
func (o *serveOptions) checkListen() (err error) {
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return fault.Usagef("--tls-cert and --tls-key belong together")
	}
	if o.tlsCert != "" {
		if o.Listen.Certificate, err = listen.LoadCertificate(o.tlsCert, o.tlsKey); err != nil {
			return err
		}
	}
	if o.Listen.BaseURI != "" {
		if o.Listen.BaseURI, err = reach.CleanBase(o.Listen.BaseURI); err != nil {
			return err
		}
	}
	addr, err := net.ResolveTCPAddr("tcp", o.listen)
	if err == nil && o.listen == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fault.Hint(fault.Usagef("listen address %.60q: %v", o.listen, err), "it is a host and a port, such as 127.0.0.1:8080, or :8080 for all addresses of the machine")
	}
	o.Listen.Addr = addr
	switch beyond := !addr.IP.IsLoopback(); {
	case beyond && o.implied:
		return fault.Hint(fmt.Errorf("%w: %s can be reached from other machines", fault.ErrRefused, o.listen),
			"listen on 127.0.0.1, or give rights: --users FILE, or --anonymous read, submit or all")
	case beyond && *o.users != "" && o.tlsCert == "" && o.proxies == nil:
		o.Log.Warn().Msg("passwords and tokens are not safe on the way: use --tls-cert and --tls-key, or a proxy that has TLS")
	}
	return nil
}

// checkSource reads the options about publishing, hubs and fetching.
func (o *serveOptions) checkSource() (err error) {
	if o.dialect != "" {
		if o.Source.Dialect, err = sitemap.ParseDialect(o.dialect); err != nil || o.Source.Dialect > sitemap.V09 {
			return fault.Usagef("--dialect is 1.1, 1.0 or 0.9, not %.20q", o.dialect)
		}
	}
	if _, err := queuefs.ParseDumps(o.Source.Dumps); err != nil {
		return fault.Usagef("--dumps %.40q is neither pending, replica, pending,replica nor none", o.Source.Dumps)
	}
	for _, hub := range o.Push.Hubs {
		if u, err := url.Parse(hub); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Fragment != "" {
			return fault.Usagef("--hub %.80q is not an absolute http or https URL without user and fragment", hub)
		}
	}
	if o.Push.Payload && len(o.Push.Hubs) == 0 {
		return fault.Usagef("--hub-payload says how to tell the hubs of --hub, and there is none")
	}
	if o.cors != "" {
		if o.CORS, err = wellknown.NewCORS(o.cors); err != nil {
			return fault.Usagef("--cors: %v", err)
		}
	}
	if o.Fetch, err = outbound.New(outbound.Options{Allow: o.fetch}); err != nil {
		return fault.Usagef("--allow-fetch: %v", err)
	}
	return nil
}

// checkTraces reads the options about spans.
func (o *serveOptions) checkTraces() error {
	t := &o.Traces
	t.Log, t.Version = o.Log, queuefs.Version
	if u, err := url.Parse(t.URL); t.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "") {
		return fault.Usagef("--traces %.80q is not an absolute http or https URL", t.URL)
	}
	t.URL = strings.TrimSuffix(t.URL, "/")
	if !(t.Ratio >= 0 && t.Ratio <= 1) {
		return fault.Usagef("--trace-ratio is 0 to 1, not %v", t.Ratio)
	}
	return nil
}

// checkMirrors reads the options about mirrors.
func (o *serveOptions) checkMirrors() error {
	header := func() (http.Header, error) {
		token, err := secretOf(o.mirrorToken)
		if err != nil {
			return nil, fmt.Errorf("--mirror-token: %w", err)
		}
		h := http.Header{}
		if token != "" {
			h.Set("Authorization", "Bearer "+token)
		}
		return h, nil
	}
	if _, err := header(); err != nil {
		return err
	}
	for _, uri := range o.mirrors {
		if u, err := url.Parse(uri); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fault.Hint(fault.Usagef("--mirror: %.200q is no URL of a daemon", uri), "--mirror http://host:8080/")
		}
		o.Mirror.Sources = append(o.Mirror.Sources, mirror.Source{URL: uri, Header: header})
	}
	if a := o.Mirror.Audit; a < 0 || a > 0 && a < time.Minute {
		return fault.Usagef("--mirror-audit is 1m or more, or 0")
	}
	o.Mirror.Agent = reach.Agent()
	return nil
}
