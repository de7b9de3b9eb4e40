package options

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/store"
	"cutie/queuefs/anvl"
	"cutie/sitemap"
)

// Published returns the settings a home was last published with; the caller adds
// Now and Report. If their file is damaged or absent, base URI and version come
// from the cursor, and the others are zero. BaseURI is empty if nothing is
// published yet. After an error New must not be called with a guess: with
// other settings it would begin all lists anew.
func Published(home string) (Options, error) {
	o, err := readPublished(home)
	if err != nil {
		return Options{}, fmt.Errorf("publisher: %w", err)
	}
	return o, nil
}

func readPublished(home string) (o Options, err error) {
	err = store.Settings(home, func(text []byte) (err error) {
		o, err = parseSettings(text)
		return err
	}, func(stamp string) (err error) {
		var version string
		var older bool
		if o.BaseURI, version, older = strings.Cut(stamp, " "); older {
			o.Dialect, err = sitemap.ParseDialect(version)
		}
		return err
	})
	return o, err
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

// parseSettings reads the output of appendSettings. Unknown elements are of a later
// version, and skipped.
func parseSettings(text []byte) (o Options, err error) {
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
