package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// settingsFile remembers, in ANVL, the settings that documents depend on, or
// what is kept of them. Whoever opens the home next without being told, as a
// command does, goes on with these: with another base URI or version all lists
// would begin anew, with another retention some would go.
const settingsFile = "cutie-source.txt"

const settingsTitle = "settings"

// Published returns the settings that a home was published with last, to be
// completed with Now and Report. If the file that has them is damaged or not
// there, base URI and version are those of what is published, and the others
// are zero. BaseURI is empty if nothing is published yet. The error says that
// something is, and that there is no telling how: [New] would begin all lists
// anew if it were told wrong.
func Published(home string) (Options, error) {
	o, err := readPublished(home)
	if err != nil {
		return Options{}, fmt.Errorf("publisher: %w", err)
	}
	return o, nil
}

func readPublished(home string) (Options, error) {
	d, err := durable.OpenDir(home, nil)
	if err != nil {
		return Options{}, err
	}
	defer d.Close()
	root, err := d.Sub(rootName)
	if errors.Is(err, fs.ErrNotExist) {
		return Options{}, nil
	}
	if err != nil {
		return Options{}, err
	}
	defer root.Close()
	text, err := sealed(root, settingsFile, settingsTitle).Read()
	if err == nil {
		var o Options
		if o, err = parseSettings(text); err == nil {
			return o, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return cursorSettings(root)
	}
	err = fmt.Errorf("%s/%s: %w", rootName, settingsFile, err)
	o, cursorErr := cursorSettings(root)
	if cursorErr != nil || o.BaseURI == "" {
		return Options{}, errors.Join(err, cursorErr)
	}
	return o, nil
}

// cursorSettings returns what the first line of the cursor says, base URI and
// version; nothing if there is no cursor.
func cursorSettings(root *durable.Dir) (o Options, err error) {
	data, err := sealed(root, cursorFile, cursorTitle).Read()
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	stamp, ok := strings.CutPrefix(first, strings.TrimSuffix(header(cursorTitle, ""), "\n"))
	if ok {
		var version string
		if o.BaseURI, version, ok = strings.Cut(stamp, " "); ok {
			o.Dialect, err = sitemap.ParseDialect(version)
		}
		ok = err == nil && o.BaseURI != ""
	}
	if !ok {
		return Options{}, fmt.Errorf("%s/%s: line 1 is %.200q", rootName, cursorFile, first)
	}
	return o, nil
}

// A setting is one element of the file.
type setting struct {
	name  string
	print func(*Options) []string
	parse func(*Options, string) error
}

var settings = []setting{
	{"baseURI", func(o *Options) []string { return []string{o.BaseURI} },
		func(o *Options, s string) error { o.BaseURI = s; return nil }},
	{"resourceSyncVersion", func(o *Options) []string { return []string{o.Dialect.String()} },
		func(o *Options, s string) (err error) { o.Dialect, err = sitemap.ParseDialect(s); return err }},
	number("maxEntries", func(o *Options) *int { return &o.MaxEntries }),
	number("maxBytes", func(o *Options) *int64 { return &o.MaxBytes }),
	number("maxPackage", func(o *Options) *int64 { return &o.MaxPackage }),
	duration("period", func(o *Options) *time.Duration { return &o.Period }),
	duration("dumpPeriod", func(o *Options) *time.Duration { return &o.DumpPeriod }),
	duration("current", func(o *Options) *time.Duration { return &o.Current }),
	duration("keep", func(o *Options) *time.Duration { return &o.Keep }),
	number("keepOctets", func(o *Options) *int64 { return &o.KeepOctets }),
	{"mirror", func(o *Options) []string { return o.Mirrors },
		func(o *Options, s string) error { o.Mirrors = append(o.Mirrors, s); return nil }},
	{"via", func(o *Options) []string {
		return slices.DeleteFunc([]string{o.Via}, func(s string) bool { return s == "" })
	},
		func(o *Options, s string) error { o.Via = s; return nil }},
}

// number is a setting that is left out if it is 0.
func number[N int | int64](name string, field func(*Options) *N) setting {
	return setting{name, func(o *Options) []string {
		if n := *field(o); n != 0 {
			return []string{strconv.FormatInt(int64(n), 10)}
		}
		return nil
	}, func(o *Options, s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		*field(o) = N(n)
		return err
	}}
}

// duration is a setting that is left out if it is 0.
func duration(name string, field func(*Options) *time.Duration) setting {
	return setting{name, func(o *Options) []string {
		if d := *field(o); d != 0 {
			return []string{d.String()}
		}
		return nil
	}, func(o *Options, s string) (err error) {
		*field(o), err = time.ParseDuration(s)
		return err
	}}
}

func appendSettings(dst []byte, o *Options) []byte {
	for _, s := range settings {
		for _, value := range s.print(o) {
			dst = anvl.AppendElement(dst, s.name, value)
		}
	}
	return dst
}

// parseSettings reads what appendSettings prints. What it does not know is of
// a later version, and passed over.
func parseSettings(text []byte) (o Options, err error) {
	r, err := anvl.ParseRecord(text)
	if err != nil {
		return o, err
	}
	for _, e := range r {
		i := slices.IndexFunc(settings, func(s setting) bool { return strings.EqualFold(s.name, e.Name) })
		if i < 0 {
			continue
		}
		if err := settings[i].parse(&o, e.Value); err != nil {
			return Options{}, fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	if _, ok := r.Lookup("resourceSyncVersion"); !ok { // cut off: 1.1 would be a guess
		return Options{}, errors.New("resourceSyncVersion is missing")
	}
	if _, err := o.complete(); err != nil {
		return Options{}, err
	}
	return o, nil
}

// remember writes the settings, unless they are there, before anything is
// published with them. What is there and makes no sense is set aside.
func (p *Publisher) remember() error {
	root := p.store.root()
	o := p.Options
	o.BaseURI = string(p.site)
	text := appendSettings(nil, &o)
	have, err := sealed(root, settingsFile, settingsTitle).Read()
	if err == nil {
		if bytes.Equal(have, text) {
			return nil
		}
		_, err = parseSettings(have)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		aside, asideErr := setAside(root, settingsFile)
		if asideErr != nil {
			return errors.Join(err, asideErr)
		}
		p.report(settingsFile, "%v; moved to %s, the settings of now are in its place", err, aside)
	}
	return sealed(root, settingsFile, settingsTitle).Write(text)
}
