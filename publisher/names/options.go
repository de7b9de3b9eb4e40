package names

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/sitemap"
)

// Options are the settings of a Publisher. No duration is below 0.
type Options struct {
	// BaseURI begins every reference; absolute, http or https, with or without
	// a path and a final slash.
	BaseURI string

	// Anew lets the history begin anew if BaseURI or Dialect is another one than
	// in the last run: every Destination has to begin anew, too. Without it New
	// returns a [*ChangeError], and changes nothing.
	Anew bool

	// MaxEntries bounds the entries of a Change List and its index, a Change Dump, a
	// Resource List or a Source Description, 2 to 50,000; 0 is 50,000. Archives have lists
	// and packages that the index and the dump have no space for. A page of a Resource List
	// has at least 1024 jobs, however small MaxEntries is.
	MaxEntries int

	// MaxBytes bounds the bytes of a document before compression, 64 KiB to
	// 50,000,000; 0 is 50,000,000.
	MaxBytes int64

	// MaxPackage is how many bytes of files a package has before the next begins;
	// 0 is 4 GiB. A Change List ends with its package.
	MaxPackage int64

	Retention

	// DumpPeriod is the age at which a Tick replaces a Resource Dump after a
	// change, or makes the first one; it is replaced sooner if the closed lists have
	// twice as many changes since as it has resources, and more than MaxEntries. With
	// 0 only Publish makes one, and a Tick replaces one which the Change
	// Lists do not reach. A package of pages without changes is not made again.
	DumpPeriod time.Duration

	// Dumps are the sets with Change Dumps and Resource Dumps, of queues that do not say it
	// themselves; see [home.ParseDumps]. "" is both.
	Dumps string

	// Mirrors are the base URIs of copies of the home's resources, the best
	// first, four at most, of at most 512 bytes each. Every resource is listed
	// with its duplicates there; entries already in a Change List stay.
	Mirrors []string

	// Via is the base URI of the Source this home is a copy of, at most 512
	// bytes, or empty. Every resource is listed with a link to its origin
	// (Z39.99-2017, 14). It is true only for a home that gets all jobs by
	// copying.
	Via string

	// Dialect is the version of ResourceSync of all documents: V11, V10 or V09.
	Dialect sitemap.Dialect

	// Period is for how long at most an open Change List may have entries before a Tick
	// closes it, whatever the dates of its events; 0 is for ever. A list of a young set
	// closes sooner: when it is as old as the set was when the list began, but not within a
	// minute.
	Period time.Duration

	// HasSpace reports whether the disk has free space for so many bytes of a
	// package. Without it no package grows and none is begun: packages are made later,
	// of the files there are then. nil: writing shows it.
	HasSpace func(octets int64) bool

	Pace Pace // of reading all files again; the zero Pace is never

	Page AboutPage // prints pages for people

	Now    func() time.Time      // nil: time.Now
	Report func(durable.Finding) // called by any goroutine with damage and failures; may be nil
	Fault  durable.Fault         // for tests
}

// Retention is for how long documents are current, and for how long they are kept.
type Retention struct {
	// Current is for how long after its last event a closed Change List stays in
	// the index, and a package of it in the Change Dump; then only archives name
	// it, unless it has changes since the last Resource Dump. 0 is for ever.
	Current time.Duration

	// Keep is for how long closed Change Lists and their packages stay after
	// their last event, and former Resource Dumps after the next one. 0 is for
	// ever, and one former Resource Dump. INTERNALS.md lists documents kept longer.
	Keep time.Duration

	// KeepOctets bounds the bytes on disk of the closed Change Lists, packages
	// and Resource Dumps of a set before the oldest go; 0 is no bound. It is not
	// below 0.
	KeepOctets int64
}

// A Complete is Options with defaults filled in.
type Complete struct {
	Options
	Base       Site
	MirrorURIs []string // without a slash at the end, as is ViaURI
	ViaURI     string
	Salt       string // of entity tags
}

// Complete fills in the defaults. The error says which setting is wrong.
func (o Options) Complete() (Complete, error) {
	opts := Complete{Options: o}
	u, err := url.Parse(o.BaseURI)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return opts, fmt.Errorf("base URI %q is not an absolute http or https URI", o.BaseURI)
	}
	if len(o.BaseURI) > maxBase {
		return opts, fmt.Errorf("base URI %.60q… is longer than %d octets", o.BaseURI, maxBase)
	}
	opts.Base = Site(strings.TrimRight((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), "/"))
	if opts.MirrorURIs, err = parseMirrors(o.Mirrors); err != nil {
		return opts, err
	}
	if o.Via != "" {
		if opts.ViaURI, err = parseCopy("via", o.Via); err != nil {
			return opts, err
		}
	}
	fill := func(n *int64, name string, zero, least, most int64) {
		if *n == 0 {
			*n = zero
		}
		if *n < least || *n > most {
			err = fmt.Errorf("%s %d is not between %d and %d", name, *n, least, most)
		}
	}
	entries := int64(o.MaxEntries)
	fill(&entries, "MaxEntries", sitemap.MaxEntries, 2, sitemap.MaxEntries)
	fill(&opts.MaxBytes, "MaxBytes", maxBytes, 64<<10, maxBytes)
	fill(&opts.MaxPackage, "MaxPackage", 4<<30, 1, 1<<60)
	opts.MaxEntries = int(entries)
	if least := min(o.Period, o.DumpPeriod, o.Current, o.Keep); least < 0 {
		err = fmt.Errorf("period %v is below 0", least)
	}
	if sets, bad := home.ParseDumps(o.Dumps); bad != nil {
		err = bad
	} else {
		opts.Dumps = sets
	}
	if o.Dialect > sitemap.V09 {
		err = fmt.Errorf("version %v is read and not written", o.Dialect)
	}
	if o.KeepOctets < 0 {
		err = fmt.Errorf("KeepOctets %d is below 0", o.KeepOctets)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Salt = Salt(string(opts.Base), opts.MaxEntries, opts.MaxBytes, opts.Dialect, opts.MirrorURIs, opts.ViaURI, Form)
	return opts, err
}

func parseMirrors(all []string) ([]string, error) {
	const most = 4
	if len(all) > most {
		return nil, fmt.Errorf("%d mirrors are more than %d", len(all), most)
	}
	var out []string
	for _, m := range all {
		m, err := parseCopy("mirror", m)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// parseCopy returns the base URI of copies of the resources, without a slash at
// its end. It is printed as it is, so characters XML or a URI (RFC 3986) cannot
// have are refused.
func parseCopy(what, uri string) (string, error) {
	const longest = 512
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil ||
		strings.ContainsFunc(uri, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("&<>\"\\^`{|}", c) }) || len(uri) > longest {
		return "", fmt.Errorf("%s %.60q is not an absolute http or https URI of at most %d octets", what, uri, longest)
	}
	return strings.TrimRight(uri, "/"), nil
}

// Stamp is base URI and version of the documents, for the first line of files.
func (o *Complete) Stamp() string {
	if o.Dialect == sitemap.V11 {
		return string(o.Base)
	}
	return string(o.Base) + " " + o.Dialect.String()
}

// Reportf reports damage of a file below resourcesync, or a failure.
func (o *Complete) Reportf(path, text string, args ...any) {
	if o.Report != nil {
		o.Report(durable.Finding{Path: RootName + "/" + path, Text: fmt.Sprintf(text, args...)})
	}
}

// Settings prints the settings with other terms for the file in the home.
func (o *Complete) Settings(t Terms) []byte {
	settings := o.With(t)
	settings.BaseURI = string(o.Base)
	return appendSettings(nil, &settings)
}

// Form is raised when documents of the same events get other bytes.
const Form = 4

// RootName is the name of the directory of everything published in a home.
const RootName = "resourcesync"

// maxBase bounds the base URI.
const maxBase = 1024

// maxBytes is the limit of sitemaps.org, taken as powers of ten.
const maxBytes = 50_000_000

// Terms are the settings of periods and retention. A Source takes others while it runs.
type Terms struct {
	Period     time.Duration // see [Options]
	DumpPeriod time.Duration
	Retention
}

// Terms returns the terms among the settings.
func (o *Options) Terms() Terms { return Terms{o.Period, o.DumpPeriod, o.Retention} }

// With returns the settings with other terms.
func (o Options) With(t Terms) Options {
	o.Period, o.DumpPeriod, o.Retention = t.Period, t.DumpPeriod, t.Retention
	return o
}

// A Pace is how fast everything is read: Rate bytes a second, or once in each Period.
// The zero Pace is never.
type Pace struct {
	Rate   int64
	Period time.Duration
}

// String prints the pace as [ParsePace] reads it.
func (p Pace) String() string {
	switch {
	case p.Rate > 0:
		return strconv.FormatInt(p.Rate, 10)
	case p.Period > 0:
		return p.Period.String()
	}
	return "0"
}

// ParsePace reads a duration like 168h or 7d, a rate in bytes a second like 1000000,
// 500kB or 10MB, or 0 for never.
func ParsePace(s string) (p Pace, err error) {
	text := strings.TrimSuffix(s, "/s")
	unit := int64(1)
	for _, u := range []struct {
		name  string
		times int64
	}{{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}} {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = n, u.times
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n <= 1<<50/unit {
		return Pace{Rate: n * unit}, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 3650 {
			return Pace{Period: time.Duration(n) * 24 * time.Hour}, nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return Pace{Period: d}, nil
	}
	return Pace{}, fmt.Errorf("%.40q is no rate such as 10MB, and no period such as 7d", s)
}

// settings are the elements of a file in ANVL with the settings of documents and
// of retention. A command that opens the home without options goes on with these:
// with another base URI or version all lists would begin anew, and with another
// retention some would go. A zero value is left out.
var settings = []struct {
	name  string
	field func(*Options) any
}{
	{"baseURI", func(o *Options) any { return &o.BaseURI }},
	{"resourceSyncVersion", func(o *Options) any { return &o.Dialect }},
	{"maxEntries", func(o *Options) any { return &o.MaxEntries }},
	{"maxBytes", func(o *Options) any { return &o.MaxBytes }},
	{"maxPackage", func(o *Options) any { return &o.MaxPackage }},
	{"period", func(o *Options) any { return &o.Period }},
	{"dumpPeriod", func(o *Options) any { return &o.DumpPeriod }},
	{"current", func(o *Options) any { return &o.Current }},
	{"keep", func(o *Options) any { return &o.Keep }},
	{"keepOctets", func(o *Options) any { return &o.KeepOctets }},
	{"dumps", func(o *Options) any { return &o.Dumps }},
	{"mirror", func(o *Options) any { return &o.Mirrors }},
	{"via", func(o *Options) any { return &o.Via }},
}

func appendSettings(dst []byte, o *Options) []byte {
	for _, s := range settings {
		var values []string
		switch v := s.field(o).(type) {
		case *[]string:
			values = *v
		case *sitemap.Dialect: // never left out: without it the file was cut off
			values = []string{v.String()}
		case *string:
			values = []string{*v}
		case *int:
			values = []string{strconv.Itoa(*v)}
		case *int64:
			values = []string{strconv.FormatInt(*v, 10)}
		case *time.Duration:
			values = []string{v.String()}
		}
		for _, value := range values {
			if value != "" && value != "0" && value != "0s" {
				dst = anvl.AppendElement(dst, s.name, value)
			}
		}
	}
	return dst
}

// setOption parses the value of a setting.
func setOption(field any, value string) (err error) {
	switch v := field.(type) {
	case *[]string:
		*v = append(*v, value)
	case *sitemap.Dialect:
		*v, err = sitemap.ParseDialect(value)
	case *string:
		*v = value
	case *int:
		*v, err = strconv.Atoi(value)
	case *int64:
		*v, err = strconv.ParseInt(value, 10, 64)
	case *time.Duration:
		*v, err = time.ParseDuration(value)
	}
	return err
}

// ParseSettings reads the output of Settings. Unknown elements are of a later
// version, and skipped.
func ParseSettings(text []byte) (o Options, err error) {
	r, err := anvl.ParseRecord(text)
	if err != nil {
		return o, err
	}
	for _, e := range r {
		for _, s := range settings {
			if !strings.EqualFold(s.name, e.Name) {
				continue
			}
			if err := setOption(s.field(&o), e.Value); err != nil {
				return Options{}, fmt.Errorf("%s: %w", e.Name, err)
			}
		}
	}
	if _, ok := r.Lookup("resourceSyncVersion"); !ok { // 1.1 would be a guess
		return Options{}, errors.New("resourceSyncVersion is missing")
	}
	if _, err := o.Complete(); err != nil {
		return Options{}, err
	}
	return o, nil
}
