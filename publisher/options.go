package publisher

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// Options are the settings of a [Publisher].
type Options struct {
	// BaseURI begins every reference; absolute, http or https, with or
	// without a path and a final slash. If it differs from that of the
	// last run, all lists begin anew.
	BaseURI string

	// MaxEntries is the most entries of a Change List, a Resource List or a
	// Source Description, 2 to 50,000; 0 is 50,000. A page of a Resource
	// List has at least 1024 jobs, however small MaxEntries is.
	MaxEntries int

	// MaxBytes is the most octets of a document before compression, 64 KiB
	// to 50,000,000; 0 is 50,000,000.
	MaxBytes int64

	// MaxPackage is how many octets of bitstreams a package of a Change
	// Dump holds before the next begins; 0 is 4 GiB.
	MaxPackage int64

	// Current is for how long after its last event a closed Change List, or a
	// package of its, is named by the index or the Change Dump; after that
	// only archives name it. 0 is for ever. It is not below 0.
	Current time.Duration

	// Keep is for how long what is no longer current stays: closed Change
	// Lists and their packages after their last event, former Resource Dumps
	// after the next one was made. 0 is for ever with the former; of the
	// latter one stays then. It is not below 0. See retention in the package
	// comment for what stays longer.
	Keep time.Duration

	// KeepOctets is how much the closed Change Lists, packages and Resource
	// Dumps of a set may take on disk before the oldest go; 0 is any number.
	// It is not below 0.
	KeepOctets int64

	// DumpPeriod is how old a Resource Dump gets before a Tick makes another,
	// if there was any change; 0 is any age: one is made only when
	// [Publisher.Publish] is called. It is not below 0. Packages of 1024 to
	// MaxEntries jobs of which none has changed are not made again.
	DumpPeriod time.Duration

	// Mirrors are the base URIs of copies of the home's resources, the best
	// first, four at most, of at most 512 octets each: every resource is
	// listed with its duplicates there. What is in a Change List already
	// stays as it is.
	Mirrors []string

	// Via is the base URI of the Source that the home is a copy of: every
	// resource is listed with a link to where it came from originally, as far
	// as it is listed with duplicates (Z39.99-2017, 14). Empty if the home's
	// resources are its own; at most 512 octets. It says nothing false only of
	// a home that gets no jobs but by copying.
	Via string

	// Dialect is the version of ResourceSync of all documents: V11, V10 or
	// V09. If it differs from that of the last run, all lists begin anew.
	Dialect sitemap.Dialect

	// Period is how old the first entry of an open Change List gets before
	// a Tick closes the list; 0 is any age. It is not below 0.
	Period time.Duration

	// Room tells whether the disk can spare so many octets for a package: one for
	// which it cannot is not begun, and the jobs in it may be culled. nil: writing
	// it shows.
	Room func(octets int64) bool

	Now    func() time.Time      // nil: time.Now
	Report func(queuefs.Problem) // told, by any goroutine, what is damaged or cannot be done; nil: nobody is
	Fault  durable.Fault         // for tests
}

// options are Options with defaults filled in.
type options struct {
	Options
	site    site
	mirrors []string
	via     string
	salt    string // of entity tags
}

func (o Options) complete() (options, error) {
	opts := options{Options: o}
	u, err := url.Parse(o.BaseURI)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return opts, fmt.Errorf("base URI %q is not an absolute http or https URI", o.BaseURI)
	}
	if len(o.BaseURI) > maxBase {
		return opts, fmt.Errorf("base URI %.60q… is longer than %d octets", o.BaseURI, maxBase)
	}
	opts.site = site(strings.TrimRight((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), "/"))
	if opts.mirrors, err = parseMirrors(o.Mirrors); err != nil {
		return opts, err
	}
	if o.Via != "" {
		if opts.via, err = parseCopy("via", o.Via); err != nil {
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
	if o.Dialect > sitemap.V09 {
		err = fmt.Errorf("version %v is read and not written", o.Dialect)
	}
	if o.KeepOctets < 0 {
		err = fmt.Errorf("KeepOctets %d is below 0", o.KeepOctets)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.salt = salt(string(opts.site), opts.MaxEntries, opts.MaxBytes, opts.Dialect, opts.mirrors, opts.via, formOf)
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

// parseCopy returns the base URI of other copies of the resources, without a
// slash at its end. It is printed as it is: what XML or a URI (RFC 3986) has no
// place for is refused.
func parseCopy(what, uri string) (string, error) {
	const longest = 512
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil ||
		strings.ContainsFunc(uri, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("&<>\"\\^`{|}", c) }) || len(uri) > longest {
		return "", fmt.Errorf("%s %.60q is not an absolute http or https URI of at most %d octets", what, uri, longest)
	}
	return strings.TrimRight(uri, "/"), nil
}

// stamp begins files: of what base URI and version the documents are.
func (o *options) stamp() site {
	if o.Dialect == sitemap.V11 {
		return o.site
	}
	return o.site + site(" "+o.Dialect.String())
}

// formOf is raised when documents made of the same events get other octets.
const formOf = 2

// maxBase bounds the base URI.
const maxBase = 1024

// maxBytes is the limit of sitemaps.org, taken as powers of ten.
const maxBytes = 50_000_000
