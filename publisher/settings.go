package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// settingsFile has, in ANVL, the settings of documents and of retention. A
// command that opens the home without options goes on with these: with another
// base URI or version all lists would begin anew, and with another retention
// some would go.
const settingsFile = "cutie-source.txt"

const settingsTitle = "settings"

// Published returns the settings a home was last published with; the caller adds
// Now and Report. If their file is damaged or absent, base URI and version come
// from the cursor, and the others are zero. BaseURI is empty if nothing is
// published yet. After an error [New] must not be called with a guess: with
// other settings it would begin all lists anew.
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

// cursorSettings returns base URI and version from the first line of the cursor;
// nothing if there is no cursor.
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

// settings are the elements of the file. A zero value is left out.
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

// parseSettings reads what appendSettings prints. Unknown elements are of a later
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
	if _, err := o.complete(); err != nil {
		return Options{}, err
	}
	return o, nil
}

// remember writes the settings before anything is published with them, unless
// the file has them. A damaged file is set aside.
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
