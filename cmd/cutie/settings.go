package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/listen"
	"cutie/cmd/cutie/mirror"
	sourcenames "cutie/publisher/names"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/s3"
	"cutie/queuefs/outbound"
	"cutie/queuefs/stored"
	"cutie/sitemap"
	"cutie/wellknown"
)

// A setting is something that the operator of a daemon decides. Its entry in
// [settings.table] is all that there is to say of it.
type setting struct {
	name  string // of the option, and in the file; CUTIE_NAME in the environment
	short string // of the option
	value any    // points to where the value goes
	def   string // default; "": the zero value
	use   use
	help  string       // what it is, with the name of its value in `quotes`
	why   string       // why one would change it, and what that costs
	check func() error // of the value, when all settings have theirs; nil: any will do

	from origin // set by fill
	text string // of the value, as fill found it
}

// use says where a setting may stand, and who needs it.
type use uint8

const (
	everyday use = 1 << iota // cutie serve --help shows it
	live                     // a running daemon takes it by a reload
	once                     // a person decides each time: only as an option
)

// settings are those of a daemon. [newSettings] makes options of them, fill gives them
// their values, and check finds mistakes before a home is opened or made.
type settings struct {
	daemon.Options
	home                    *string // the common option
	config                  string  // file
	listen, tlsCert, tlsKey string
	logFormat               string
	keepSize                share
	dialect                 *sitemap.Dialect // nil: that of the last run
	mirrorToken             string
	acceptLoss              bool

	storeURL, storeEndpoint string
	storeImage              octets
	takeOver                bool
	store                   *stored.Options // nil: the home is in its directory

	all     []*setting // but those that are only options
	options *pflag.FlagSet
	file    tomlFile
}

// newSettings adds the options of a daemon to fs. home is the common option.
func newSettings(fs *pflag.FlagSet, home *string) *settings {
	s := &settings{options: fs, home: home}
	for _, e := range s.table() {
		e.bind(fs)
		if e.use&once == 0 {
			s.all = append(s.all, e)
		}
	}
	return s
}

// table lists the settings in the order of the help text.
func (s *settings) table() []*setting {
	l, source := &s.Limits, &s.Source
	return []*setting{
		{name: "config", value: &s.config, use: everyday | once,
			help: "`file` of settings in TOML (environment CUTIE_CONFIG)"},
		{name: "home",
			why: "A daemon has one home, on a local disk. More daemons on a machine need a home and a port each."},
		{name: "listen", short: "l", value: &s.listen, def: defaultListen, use: everyday, check: s.checkListen,
			help: "`address` to listen on; port 0 takes a free one",
			why:  "With :8080 other machines reach the daemon too; it then wants --users or --anonymous."},
		{name: "base-uri", value: &s.Listen.BaseURI, use: everyday, check: s.checkBaseURI,
			help: "`URI` at which clients reach this daemon (default that in cutie-info.txt, else the address listened on)",
			why:  "Set it if clients use a name or a proxy. Published documents begin with it: with another one later, every mirror begins anew."},
		{name: "users", value: &s.Access.Users, use: everyday, check: s.checkUsers,
			help: "users `file` (environment CUTIE_USERS)",
			why:  "It gives people and programs names, rights and limits; clients without a name then have no rights. The daemon reads it again when it changes."},
		{name: "anonymous", value: optional(&s.Access.Anonymous, access.ParseRights), use: everyday,
			help: "`rights` of clients without a name: read, submit, all, none, or a list (default none with --users, else all on loopback)",
			why:  "Set it for an archive that everybody may read. Whatever is given here is given to all who reach the port."},
		{name: "anonymous-limits", value: optional(&s.Access.Limits, job.ParseLimits),
			help: "`list` of limits of all clients without a name together in each queue, such as pending=100,active=1000; see cutie help limits",
			why:  "It keeps strangers from filling a queue or the disk. One busy client then keeps the others out."},
		{name: "tls-cert", value: &s.tlsCert, use: everyday, check: s.checkCertificate,
			help: "`file` of the certificate chain, for TLS",
			why:  "Passwords and tokens need TLS on a network, here or at a proxy. A new certificate is read by itself."},
		{name: "tls-key", value: &s.tlsKey, use: everyday,
			help: "`file` of its key",
			why:  "It belongs to --tls-cert, and only the user of the daemon should be able to read it."},
		{name: "trusted-proxy", value: list((*[]netip.Prefix)(&s.Listen.Proxies), access.ParseProxy), use: everyday,
			help: "`network` of proxies to believe, such as 10.0.0.0/8; may be repeated",
			why:  "Behind a proxy, limits and the access log then go by the client in X-Forwarded-For. An address listed here can claim to be any client."},
		{name: "allow-fetch", value: list(&s.Allow, parseAllowed), use: everyday | live,
			help: "`pattern` of hosts that manifests, callbacks, hubs and mirrored Sources may name although they are not public: host, *.host, address or network, each with :port or not; may be repeated",
			why:  "Without it nobody can make the daemon send requests into your network. Every submitter can reach what is allowed here."},
		{name: "max-body", value: (*octets)(&l.Body), def: "16G", use: everyday, check: func() error { return want(l.Body > 0, "1 or more") },
			help: "`size` of the largest submission, such as 64M or 16G",
			why:  "A lower one keeps a single client from filling the disk."},
		{name: "max-buffers", value: (*octets)(&l.Buffers), def: "128M",
			check: func() error { return want(l.Buffers == 0 || l.Buffers >= 1<<20, "0 or at least 1M") },
			help:  "`size` of the memory for the buffers of all requests together; a request beyond it is answered with 503; 0: any size",
			why:   "More lets more large requests run at once, and takes memory. One address gets as much as it leaves to others."},
		{name: "max-conns", value: &l.Conns, def: "10000", check: s.checkConnections,
			help: "`number` of connections at once, and of requests over HTTP/2",
			why:  "A connection takes some 20 KB and a file (ulimit -n). One address gets as many as it leaves to others, so half of them if it is alone; a trusted proxy gets all."},
		{name: "max-waits", value: &l.Waits, def: "1000", use: live, check: func() error { return want(l.Waits > 0, "1 or more") },
			help: "`number` of requests of one address that may wait at once",
			why:  "Raise it for many workers or mirrors behind one address. Each waiting request takes a connection."},
		{name: "max-dirs", value: &l.Dirs, def: "512", check: func() error { return want(l.Dirs > 0, "1 or more") },
			help: "`number` of directories of queues kept open, those used last",
			why:  "Raise it for work on thousands of queues at once. Each directory takes a file (ulimit -n)."},
		{name: "grace", value: &l.Grace, def: "10s", use: live, check: func() error { return want(l.Grace >= 0, "0 or more") },
			help: "`time` for requests in progress to end when stopping, or giving a home in a store up",
			why:  "Raise it for large uploads over slow lines. A stop then takes up to that long."},

		{name: "dialect", value: optional(&s.dialect, parseDialect),
			help: "`version` of ResourceSync of all documents: 1.1, 1.0 or 0.9 (default the last one, at first 1.1)",
			why:  "Set it for Destinations that read an old version only. With another one than before, every mirror begins anew."},
		{name: "yes", value: &source.Anew, use: everyday | once,
			help: "go on with another version or base URI than before: every mirror begins anew"},
		{name: "period", value: &source.Period, def: "1h", use: live,
			help: "`time` after which a Change List with entries is closed at the latest; sooner in a young queue; 0: never",
			why:  "A shorter time makes more and smaller lists; with 0 a list grows until it is full."},
		{name: "list-entries", value: &source.MaxEntries,
			help: "`number` of entries of a document, 2 to 50000 (default 50000)",
			why:  "Lower it for Destinations with little memory; an index then names more documents. A page of a Resource List has 1024 jobs at least."},
		{name: "list-size", value: (*octets)(&source.MaxBytes),
			help: "`size` of a document before compression, 64K to 50000000 (default 50000000)",
			why:  "Lower it for Destinations with little memory, as list-entries. A page of 1024 jobs may be larger."},
		{name: "package-size", value: (*octets)(&source.MaxPackage),
			help: "`size` of the files in a package of a dump, before the next begins (default 4G)",
			why:  "Smaller packages are fetched again sooner after a broken connection, and there are more of them. The files of a page or of an event stay together."},
		{name: "dump-period", value: &source.DumpPeriod, def: "168h", use: live,
			help: "`time` after which a Resource Dump is made again, sooner if it is far behind; 0: only by cutie publish --now",
			why:  "With a shorter time a new mirror has fewer changes to catch up with. Each dump reads and writes the files of the queue once."},
		{name: "dumps", value: parsed(&source.Dumps, parseDumps), def: "pending,replica", use: everyday,
			help: "`sets` of resources with dumps, of queues that do not say it themselves: pending, replica, pending,replica or none",
			why:  "Dumps let a mirror fetch many files in one request. They take as much disk as the payloads again."},
		{name: "current", value: &source.Current, use: live,
			help: "`time` for which a closed Change List stands in the index; then only the archive names it, unless it has changes since the Resource Dump; 0: as long as it is kept",
			why:  "Set it to keep the index small where there are very many lists. A Destination that was away longer reads the archive."},
		{name: "keep", value: &source.Keep, use: everyday | live,
			help: "`time` for which closed Change Lists and former dumps stay; 0: for ever",
			why:  "Set it to free the disk of old documents. A Destination that was away longer begins anew."},
		{name: "keep-size", value: parsed(&s.keepSize, parseShare), def: "5%", use: everyday | live,
			help: "`size` of these on disk for one set, such as 100G, or a share of the disk, such as 5%, before the oldest go; 0: any size",
			why:  "It bounds what published history takes, as keep does by time. The first bound reached counts."},
		{name: "scrub", value: parsed(&source.Pace, sourcenames.ParsePace), def: "7d", use: live,
			help: "`pace` at which published files are read again and verified: a period such as 7d or 36h, or a rate in bytes a second such as 10MB; 0: only when they are opened",
			why:  "A faster pace finds damage of the disk sooner, and reads more."},
		{name: "duplicate", value: list(&source.Mirrors, asIs),
			help: "base `URI` of a copy, published with every resource; up to four times",
			why:  "Destinations may then fetch from the copy. It must have the same files under the same paths; entries already published stay as they are."},
		{name: "via", value: &source.Via,
			help: "base `URI` of the origin of every resource, for a home that is a copy",
			why:  "It tells Destinations where the copied files are from. It is true only if all jobs are copied."},
		{name: "robots", value: &s.Robots,
			help: "answer /robots.txt with the Resource Lists that the asker may read, and plain Sitemaps for search engines",
			why:  "Set it for archives that search engines should find. They then fetch everything that is public."},
		{name: "cors", value: optional(&s.CORS, wellknown.NewCORS),
			help: "`origin` whose pages may read, such as https://example.org, or *",
			why:  "Set it for programs in a browser on another site. They then read what clients without a name may read."},

		{name: "hub", value: list(&s.Push.Hubs, parseHub),
			help: "`URL` of a WebSub hub to tell of changes too; may be repeated",
			why:  "A public hub carries the load of many subscribers. Each change costs one request to it."},
		{name: "hub-payload", value: &s.Push.Payload, check: s.checkPayload,
			help: "send the hubs of --hub the notifications instead of telling them to fetch",
			why:  "Set it for a hub that cannot reach this daemon. The hub must accept notifications that are sent to it."},
		{name: "no-hub", value: &s.Push.NoHub,
			help: "take no subscribers; present ones wait for another hub of ours",
			why:  "The daemon then sends no requests to URLs that subscribers have named. Destinations have to poll, or to use the hubs of --hub."},
		{name: "change-capability", value: &s.Push.Change, def: string(sitemap.ChangeNotification),
			help: "`name` of Change Notifications in Capability Lists",
			why:  "Change it only for Destinations that expect another name than that of the specification."},
		{name: "framework-capability", value: &s.Push.Framework, def: string(sitemap.FrameworkNotification),
			help: "`name` of Framework Notifications",
			why:  "As change-capability."},

		{name: "mirror", value: list(&s.Mirror.Sources, s.parseMirror), use: everyday,
			help: "`URL` of a daemon whose queues this one keeps as live mirrors; may be repeated",
			why:  "Set it for a second copy that is always up to date: see cutie help mirrors. It takes as much disk as the original."},
		{name: "mirror-token", value: &s.mirrorToken, use: everyday, check: func() error { _, err := s.mirrorHeader(); return err },
			help: "bearer `token` for these, or @FILE with it, read again when it is refused",
			why:  "Set it for originals that demand the right to read. Others can see a token in the arguments of a process: a file is better."},
		{name: "mirror-audit", value: &s.Mirror.Audit, def: "24h",
			check: func() error { return want(s.Mirror.Audit == 0 || s.Mirror.Audit >= time.Minute, "0 or at least 1m") },
			help:  "`time` between two audits of a mirror; 0: none",
			why:   "A shorter time finds differences sooner. An audit reads all files here, and all lists of the original."},

		{name: "store", value: &s.storeURL, use: everyday, check: s.checkStore,
			help: "`URL` of the object store that the home is in, s3://BUCKET/PREFIX; the directory is a cache then",
			why:  "The home outlives the machine, and standbys can take it over: see cutie help stores. A submission waits for the store."},
		{name: "store-endpoint", value: &s.storeEndpoint,
			help: "`URL` of the service that has the bucket (default that of AWS_ENDPOINT_URL, else Amazon S3)",
			why:  "Set it for MinIO, Ceph and other services that speak S3."},
		{name: "store-image", value: &s.storeImage,
			help: "`size` of the journal from one image of the home in the store to the next, at least (default 64M)",
			why:  "A smaller size makes a start on another machine faster, and sends more to the store."},
		{name: "takeover", value: &s.takeOver, use: everyday | once,
			help: "take the home in the store from the daemon that owns it"},
		{name: "node-url", value: &s.Node.URL,
			help: "`URL` at which the clients and the other daemons of the store reach this one (default the address listened on)",
			why:  "Set it if the address listened on is not the one that others use, as behind a name or on all addresses."},
		{name: "standby-changes", value: parsed(&s.Node.Changes, daemon.ParseChanges), def: "proxy",
			help: "`way` in which a standby treats requests to change something: proxy passes them on to the owner, refuse answers 503",
			why:  "Refuse if a load balancer sends changes to the owner alone. Passing on lets clients use any of the daemons, and costs a second request."},
		{name: "takeover-after", value: &s.Node.TakeoverAfter, def: "10s",
			check: func() error {
				return want(s.Node.TakeoverAfter == 0 || s.Node.TakeoverAfter >= time.Second, "0 or at least 1s")
			},
			help: "`time` of silence of the owner before a standby takes over, 1s or more; 0: a standby never does by itself",
			why:  "A shorter time ends an outage sooner. An owner whose line is slow for that long loses the home and begins again as a standby."},

		{name: "log-level", value: parsed(&s.LogLevel, parseLevel), def: "info", use: everyday | live,
			help: "`level` of the log: debug, info, warn, error or disabled",
			why:  "debug adds a line for every request; with warn only what needs a look is left."},
		{name: "log-format", value: optional(&s.logFormat, parseLogFormat),
			help: "`format` of the log: json or console (default console on a terminal, else json)",
			why:  "Programs read json, people console."},
		{name: "log-max", value: (*octets)(&s.AccessLog.Max), def: "100M", use: live,
			check: func() error { return want(s.AccessLog.Max == 0 || s.AccessLog.Max >= 1<<20, "0, or at least 1M") },
			help:  "`size` of an access log, in whole mebibytes; 0 lets it grow",
			why:   "Set 0 if logrotate does it. A larger size keeps a longer past and takes disk."},
		{name: "log-keep", value: &s.AccessLog.Keep, def: "9", use: live,
			check: func() error { return want(s.AccessLog.Keep >= 1 && s.AccessLog.Keep <= 1000, "1 to 1000") },
			help:  "`number` of old access logs to keep; their names have the time",
			why:   "Each takes up to the size of log-max."},
		{name: "traces", value: optional(&s.Traces.URL, parseCollector),
			help: "`URL` of a collector of OpenTelemetry that gets spans of jobs, by OTLP over HTTP, such as http://127.0.0.1:4318",
			why:  "It shows a job among the spans of your other services. Each job costs three spans or more."},
		{name: "trace-ratio", value: &s.Traces.Ratio, def: "1", use: live,
			check: func() error { return want(s.Traces.Ratio >= 0 && s.Traces.Ratio <= 1, "0 to 1") },
			help:  "`share` of the jobs with spans, 0 to 1, where the submitter has not decided by traceparent",
			why:   "Lower it if there are too many jobs for the collector."},
		{name: "accept-loss", value: &s.acceptLoss, use: everyday | once,
			help: "open a home that was not closed and lost its journal, without the changes that were in it alone"},
	}
}

// bind adds the option of a setting to fs. Those that few people need are hidden.
func (e *setting) bind(fs *pflag.FlagSet) {
	switch v := e.value.(type) {
	case nil: // a common option
		return
	case *string:
		fs.StringVarP(v, e.name, e.short, "", e.help)
	case *bool:
		fs.BoolVar(v, e.name, false, e.help)
	case *int:
		fs.IntVar(v, e.name, 0, e.help)
	case *float64:
		fs.Float64Var(v, e.name, 0, e.help)
	case *time.Duration:
		fs.DurationVar(v, e.name, 0, e.help)
	case pflag.Value:
		fs.Var(v, e.name, e.help)
	}
	f := fs.Lookup(e.name)
	f.Hidden = e.use&everyday == 0
	if e.def == "" {
		return
	}
	if err := f.Value.Set(e.def); err != nil {
		panic(fmt.Sprintf("default of --%s: %v", e.name, err))
	}
	f.DefValue = e.def
}

// option returns the option of a setting, which has its value.
func (s *settings) option(e *setting) *pflag.Flag { return s.options.Lookup(e.name) }

// A mustBe is the error of a value out of range: what it must be.
type mustBe string

func (m mustBe) Error() string { return string(m) }

func want(ok bool, what string) error {
	if ok {
		return nil
	}
	return mustBe(what)
}

// check finds mistakes in the values, before a home is opened or made.
func (s *settings) check() error {
	for _, e := range s.all {
		if e.check == nil {
			continue
		}
		err := e.check()
		var must mustBe
		if errors.As(err, &must) {
			return usagef("%s--%s %s must be %s", s.place(e), e.name, s.option(e).Value, must)
		}
		if err != nil {
			return err
		}
	}
	s.Mirror.Agent, s.Traces.Version, s.Traces.Log = agentName(), home.Version, s.Log
	return nil
}

// A textValue is the value of an option that a function makes of what was typed.
type textValue[T any] struct {
	to    *T
	typed string
	parse func(string) (T, error)
}

// parsed is a value that must be given.
func parsed[T any](to *T, parse func(string) (T, error)) *textValue[T] {
	return &textValue[T]{to: to, parse: parse}
}

// optional is a value that is its zero value if the text is empty.
func optional[T any](to *T, parse func(string) (T, error)) *textValue[T] {
	return parsed(to, func(s string) (zero T, err error) {
		if s == "" {
			return zero, nil
		}
		return parse(s)
	})
}

func (v *textValue[T]) Set(s string) error {
	value, err := v.parse(s)
	if err == nil {
		*v.to, v.typed = value, s
	}
	return err
}

func (v *textValue[T]) String() string { return v.typed }
func (v *textValue[T]) Type() string   { return "text" }

// A listValue is an option that may be repeated, and has commas in the environment.
type listValue[T any] struct {
	to    *[]T
	typed []string
	parse func(string) (T, error)
}

func list[T any](to *[]T, parse func(string) (T, error)) *listValue[T] {
	return &listValue[T]{to: to, parse: parse}
}

func (v *listValue[T]) Append(s string) error {
	value, err := v.parse(s)
	if err == nil {
		*v.to, v.typed = append(*v.to, value), append(v.typed, s)
	}
	return err
}

func (v *listValue[T]) Replace(all []string) error {
	*v.to, v.typed = nil, nil
	for _, s := range all {
		if err := v.Append(s); err != nil {
			return err
		}
	}
	return nil
}

func (v *listValue[T]) Set(s string) error {
	if s == "" {
		return nil
	}
	all, err := csv.NewReader(strings.NewReader(s)).Read()
	if err != nil {
		return err
	}
	return v.Replace(slices.Concat(v.typed, all))
}

func (v *listValue[T]) GetSlice() []string { return v.typed }
func (v *listValue[T]) Type() string       { return "text" }

// String returns the texts as Set reads them.
func (v *listValue[T]) String() string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Write(v.typed)
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

func asIs(s string) (string, error) { return s, nil }

// A share is a size, or a percentage of the disk.
type share struct {
	bytes   octets
	percent int // 0: bytes says it
}

func parseShare(text string) (s share, err error) {
	if number, is := strings.CutSuffix(text, "%"); is {
		s.percent, err = strconv.Atoi(number)
		if err != nil || s.percent < 1 || s.percent > 100 {
			err = fmt.Errorf("%.40q is no percentage from 1%% to 100%%", text)
		}
		return s, err
	}
	return s, s.bytes.Set(text)
}

// on returns the bytes on the disk of a directory.
func (s share) on(dir string) (int64, error) {
	if s.percent == 0 {
		return int64(s.bytes), nil
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, fmt.Errorf("size of the disk of %s: %w", dir, err)
	}
	return int64(disk.Blocks) * disk.Bsize / 100 * int64(s.percent), nil
}

func parseAllowed(pattern string) (string, error) {
	_, err := outbound.NewAddresses([]string{pattern})
	return pattern, err
}

func parseDialect(text string) (*sitemap.Dialect, error) {
	d, err := sitemap.ParseDialect(text)
	if err != nil || d > sitemap.V09 {
		return nil, fmt.Errorf("%.20q is none of 1.1, 1.0 and 0.9", text)
	}
	return &d, nil
}

func parseDumps(text string) (string, error) {
	if _, err := home.ParseDumps(text); err != nil {
		return "", fmt.Errorf("%.40q is neither pending, replica, pending,replica nor none", text)
	}
	return text, nil
}

func parseHub(text string) (string, error) {
	if u, err := webURL(text); err != nil || u.User != nil || u.Fragment != "" {
		return "", fmt.Errorf("%.80q is not an absolute http or https URL without user and fragment", text)
	}
	return text, nil
}

func parseCollector(text string) (string, error) {
	if u, err := webURL(text); err != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%.80q is not an absolute http or https URL", text)
	}
	return strings.TrimSuffix(text, "/"), nil
}

// parseMirror reads the URL of a daemon to be mirrored.
func (s *settings) parseMirror(text string) (mirror.Source, error) {
	if _, err := webURL(text); err != nil {
		return mirror.Source{}, fmt.Errorf("%.200q is no URL of a daemon, such as http://host:8080/", text)
	}
	return mirror.Source{URL: text, Header: s.mirrorHeader}, nil
}

// mirrorHeader has the credentials for the originals of mirrors.
func (s *settings) mirrorHeader() (http.Header, error) {
	token, err := secretOf(s.mirrorToken)
	if err != nil {
		return nil, fmt.Errorf("--mirror-token: %w", err)
	}
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return h, nil
}

func webURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err == nil && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		err = errors.New("not an absolute http or https URL")
	}
	return u, err
}

func parseLevel(text string) (zerolog.Level, error) {
	level, err := zerolog.ParseLevel(strings.ToLower(text))
	if err != nil || text == "" {
		return level, fmt.Errorf("%.40q is none of debug, info, warn, error, disabled", text)
	}
	return level, nil
}

func parseLogFormat(text string) (string, error) {
	if text != "json" && text != "console" {
		return "", fmt.Errorf("%.40q is neither json nor console", text)
	}
	return text, nil
}

// checkListen resolves the address. Beyond loopback the operator must have given rights.
// The daemon later binds this address, even if the name resolves to another by then.
func (s *settings) checkListen() error {
	addr, err := net.ResolveTCPAddr("tcp", s.listen)
	if err == nil && s.listen == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return withHint(usagef("listen address %.60q: %v", s.listen, err), "it is a host and a port, such as 127.0.0.1:8080, or :8080 for all addresses of the machine")
	}
	s.Listen.Addr = addr
	beyond := !addr.IP.IsLoopback()
	switch noRights := s.Access.Users == "" && s.Access.Anonymous == nil; {
	case beyond && noRights:
		return withHint(fmt.Errorf("%w: %s can be reached from other machines", errRefused, s.listen),
			"listen on 127.0.0.1, or give rights: --users FILE, or --anonymous read, submit or all")
	case noRights: // everybody on this machine may do all
		s.Access.Anonymous = access.Everything
	case beyond && s.Access.Users != "" && s.tlsCert == "" && s.Listen.Proxies == nil:
		s.Log.Warn().Msg("passwords and tokens are not safe on the way: use --tls-cert and --tls-key, or a proxy that has TLS")
	}
	return nil
}

func (s *settings) checkBaseURI() (err error) {
	if s.Listen.BaseURI != "" {
		s.Listen.BaseURI, err = cleanBase(s.Listen.BaseURI)
	}
	return err
}

func (s *settings) checkCertificate() (err error) {
	if (s.tlsCert == "") != (s.tlsKey == "") {
		return usagef("--tls-cert and --tls-key belong together")
	}
	if s.tlsCert != "" {
		s.Listen.Certificate, err = listen.LoadCertificate(s.tlsCert, s.tlsKey)
	}
	return err
}

func (s *settings) checkUsers() error {
	file := s.Access.Users
	if file == "" {
		return nil
	}
	s.Access.Report = func(users int, wide bool) {
		s.Log.Info().Str("file", file).Int("users", users).Msg("users read")
		if wide {
			s.Log.Warn().Str("file", file).Msg("others can read or write the users file, chmod 600 takes that away")
		}
	}
	_, _, err := access.Load(file)
	if err == nil {
		return nil
	}
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
	return withHint(fmt.Errorf("users: %w", err), hint)
}

// checkConnections lowers the number of connections to the files of this process.
func (s *settings) checkConnections() error {
	asked := s.Limits.Conns
	if asked < 1 {
		return mustBe("1 or more")
	}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return nil
	}
	if most := listen.Connections(asked, files.Cur); most < asked {
		s.Log.Warn().Int("asked", asked).Int("connections", most).Msg("fewer connections, for this process may open few files (ulimit -n)")
		s.Limits.Conns = most
	}
	return nil
}

func (s *settings) checkPayload() error {
	if s.Push.Payload && len(s.Push.Hubs) == 0 {
		return usagef("--hub-payload says how to tell the hubs of --hub, and there is none")
	}
	return nil
}

// checkStore opens the store. Nothing is sent to it yet.
func (s *settings) checkStore() error {
	switch {
	case s.storeURL == "" && (s.storeEndpoint != "" || s.takeOver || s.storeImage != 0 || s.Node.URL != ""):
		return usagef("--store-endpoint, --store-image, --node-url and --takeover belong to --store")
	case s.storeURL == "":
		return nil
	case len(s.Mirror.Sources) > 0:
		return usagef("--mirror and --store do not go together: the first copy of a mirror is in no journal")
	}
	bucket, err := s3.Open(s.storeURL, s.storeEndpoint)
	if err != nil {
		return usagef("--store: %v", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed machine"
	}
	if s.Node.URL != "" {
		if s.Node.URL, err = cleanBase(s.Node.URL); err != nil {
			return usagef("--node-url: %v", err)
		}
	}
	s.Node.Store = objects.Count(bucket)
	s.store = &stored.Options{Objects: s.Node.Store, Name: fmt.Sprintf("process %d on %s", os.Getpid(), host), TakeOver: s.takeOver, Standby: true, Early: true, Every: int64(s.storeImage)}
	return nil
}
