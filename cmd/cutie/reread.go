package main

import (
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/daemon"
)

// live are the options for a running daemon; the others wait for the next start. Help and
// cutie config default say so.
var live = []string{"allow-fetch", "current", "dump-period", "grace", "keep", "keep-size", "log-keep", "log-level", "log-max",
	"max-waits", "period", "scrub", "trace-ratio"}

// listed prints options in lines of help.
func listed(options []string) string {
	return "--" + strings.Join(options[:6], ", --") + ",\n--" + strings.Join(options[6:], ", --") + "."
}

// reread returns a function to read the settings again: the command line stays, and file
// and environment are read as at the start. f has filled own with the settings in force.
func reread(own *pflag.FlagSet, f *Filler, file, home string) func() (*daemon.Changed, error) {
	started := map[string]string{}
	own.VisitAll(func(o *pflag.Flag) { started[o.Name] = o.Value.String() })
	typed := f.Origins
	return func() (*daemon.Changed, error) {
		var o serveOptions
		fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		o.bind(fs)
		var failed error
		own.VisitAll(func(was *pflag.Flag) {
			now := fs.Lookup(was.Name)
			if now == nil { // one of every command
				fs.String(was.Name, was.DefValue, was.Usage)
				now = fs.Lookup(was.Name)
			}
			if typed[was.Name] != Typed || failed != nil {
				return
			}
			if list, many := now.Value.(pflag.SliceValue); many {
				failed = list.Replace(was.Value.(pflag.SliceValue).GetSlice())
			} else {
				failed = now.Value.Set(started[was.Name])
			}
		})
		if failed != nil {
			return nil, failed
		}
		again := &Filler{Options: fs, Not: unset, Getenv: os.Getenv, Typed: func(name string) bool { return typed[name] == Typed }}
		if err := again.Fill(file); err != nil {
			return nil, err
		}
		level, err := parseLevel(o.logLevel)
		if err != nil {
			return nil, err
		}
		var later []string
		fs.VisitAll(func(now *pflag.Flag) { // before check, which lowers some
			if now.Value.String() != started[now.Name] && !slices.Contains(live, now.Name) && !slices.Contains(unset, now.Name) {
				later = append(later, now.Name)
			}
		})
		o.Log = zerolog.Nop()
		if err := o.check(); err != nil {
			return nil, err
		}
		o.Fetch.Close()
		if o.Source.KeepOctets, err = o.keepSize.on(home); err != nil {
			return nil, err
		}
		return &daemon.Changed{LogLevel: level, Waits: o.Limits.Waits, Grace: o.Limits.Grace, Fetch: o.fetch, AccessLog: o.AccessLog, TraceRatio: o.Traces.Ratio,
			Terms: o.Source.Terms(), Scrub: o.Source.Pace, Later: later}, nil
	}
}
