package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"cutie/publisher/destination"
)

var exportVerb = verb{
	name:  "export",
	args:  "DIR",
	min:   1,
	max:   1,
	about: "keep a copy of everything published in a directory",
	manual: `
Any web server or bucket can serve the directory. The paths in it are those of
the references; the Source Description stands in .well-known/resourcesync as
index.xml and index.html. Only what has changed since the last export is written,
each document whole, after everything that it names; what is named no longer is
removed last.

References stay as they are, unless --base-uri says where the directory is
served; that copy names no hub then, since hubs know the topics of the daemon
alone. With --resources the payloads and job files are written too, and the
directory is a whole Source; without, references to them lead to the daemon.
--robots writes robots.txt with a line for each Resource List; its place is the
top directory of a site.

--follow goes on until it is interrupted, and looks for changes every second or
as --every says.`,
	examples: `cutie export /srv/www --follow
cutie export /srv/mirror --base-uri https://mirror.example.org/ --resources --robots`,
	takes: atTarget,
	setup: func(fs *pflag.FlagSet) action {
		var o exportOptions
		fs.BoolVar(&o.follow, "follow", false, "go on until interrupted")
		fs.DurationVar(&o.every, "every", time.Second, "`time` between two looks with --follow")
		fs.StringVar(&o.baseURI, "base-uri", "", "`URI` under which the directory is served")
		fs.BoolVar(&o.resources, "resources", false, "write payloads and job files too")
		fs.BoolVar(&o.robots, "robots", false, "write robots.txt")
		return func(ctx context.Context, c *call) error { return c.export(ctx, o) }
	},
}

type exportOptions struct {
	follow, resources, robots bool
	every                     time.Duration
	baseURI                   string
}

func (c *call) export(ctx context.Context, o exportOptions) (err error) {
	if o.every < 100*time.Millisecond {
		return usagef("--every is 100ms or more")
	}
	if o.baseURI != "" {
		if o.baseURI, err = cleanBase(o.baseURI); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s, err := c.source(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if o.follow && s.direct {
		return withHint(fmt.Errorf("%s: no daemon runs on it, and none could while it is followed", c.home), "cutie serve --home "+c.home)
	}
	e := &destination.Mirror{Client: s.client, Source: s.base, Dir: c.args[0], BaseURI: o.baseURI,
		Resources: o.resources, Robots: o.robots, Home: s.home}
	done, err := e.Run(ctx)
	if err != nil {
		return fmt.Errorf("export to %s: %w", e.Dir, err)
	}
	if err = c.printExported(done); err != nil || !o.follow {
		return err
	}
	return c.follow(ctx, e, o.every)
}

// follow exports until it is interrupted. What goes wrong, as when the daemon
// is started anew, is said once and tried again.
func (c *call) follow(ctx context.Context, e *destination.Mirror, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		done, err := e.Run(ctx)
		if err != nil {
			err = fmt.Errorf("export to %s: %w", e.Dir, err)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			said = ""
			if done != (destination.Result{}) {
				err = c.printExported(done)
			}
			if err != nil {
				return err
			}
		case err.Error() != said:
			said = err.Error()
			c.warnf("%s; goes on", said)
		}
	}
}

func (c *call) printExported(x destination.Result) error {
	text := fmt.Sprintf("%d documents, %d files, %d removed, %d octets", x.Documents, x.Resources, x.Removed, x.Octets)
	if x.Moved > 0 {
		text += fmt.Sprintf(", %d files moved on", x.Moved)
	}
	_, err := fmt.Fprintln(c.stdout, text)
	return err
}
