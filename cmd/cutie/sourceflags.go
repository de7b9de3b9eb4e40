package main

import (
	"time"

	"github.com/spf13/pflag"

	"cutie/publisher"
	"cutie/sitemap"
)

// sourceOptions are the options of serve that say how a home is published.
type sourceOptions struct {
	publisher.Options
	dialect     string // "": as it was published before
	listSize    octets
	packageSize octets
	keepSize    octets
}

// flags adds the options.
func (o *sourceOptions) flags(fs *pflag.FlagSet) {
	fs.StringVar(&o.dialect, "dialect", "", "`version` of ResourceSync of all documents: 1.1, 1.0 or 0.9; another\none than before begins all of them anew (default that of before, at first 1.1)")
	fs.DurationVar(&o.Period, "period", 24*time.Hour, "`time` after which a Change List that has entries is closed, however few; 0: never")
	fs.IntVar(&o.MaxEntries, "list-entries", 0, "`number` of entries of a document, 2 to 50000; a page of a Resource List has\nroom for 1,024 jobs at least (default 50000)")
	fs.Var(&o.listSize, "list-size", "size of a document before compression, 64K to 50000000; a page of\n1,024 jobs may be larger (default 50000000)")
	fs.Var(&o.packageSize, "package-size", "size of the files in a package of a dump, before the next begins; those of\nthe 1,024 jobs of a page, or of an event, are never split (default 4G)")
	fs.DurationVar(&o.DumpPeriod, "dump-period", 0, "`time` after which a Resource Dump is made again; 0: only by cutie publish --now")
	fs.DurationVar(&o.Current, "current", 0, "`time` for which a closed Change List stands in the index; then only the archive\nnames it; 0: as long as it is kept")
	fs.DurationVar(&o.Keep, "keep", 0, "`time` for which closed Change Lists and former dumps stay; 0: for ever")
	fs.Var(&o.keepSize, "keep-size", "what those of one set may take on disk before the oldest go; 0: any size")
	fs.StringSliceVar(&o.Mirrors, "mirror", nil, "base `URI` of a copy that is published with every resource; up to four times")
	fs.StringVar(&o.Via, "via", "", "base `URI` that every resource came from originally, for a home that is a copy")
}

// check finds mistakes in the options before anything is opened.
func (o *sourceOptions) check() (err error) {
	if o.dialect == "" {
		return nil
	}
	if o.Dialect, err = sitemap.ParseDialect(o.dialect); err != nil || o.Dialect > sitemap.V09 {
		return usagef("--dialect is 1.1, 1.0 or 0.9, not %.20q", o.dialect)
	}
	return nil
}

// complete returns the options for a home.
func (o *sourceOptions) complete(home string) (publisher.Options, error) {
	p := o.Options
	p.MaxBytes, p.MaxPackage, p.KeepOctets = int64(o.listSize), int64(o.packageSize), int64(o.keepSize)
	if o.dialect != "" {
		return p, nil
	}
	before, err := publisher.Published(home)
	p.Dialect = before.Dialect
	return p, err
}
