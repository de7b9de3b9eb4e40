package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/publisher"
	"cutie/queuefs/objects/s3"
	"cutie/queuefs/state"
)

func exportVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "keep a copy of everything published in a directory",
		Long: `
Any web server or bucket can serve the directory. Its paths are those of the
references; the Source Description is in .well-known/resourcesync as index.xml and
index.html. An export writes only the changes since the last one: each document
whole, after everything that it names. It removes old files last. A daemon does this
for administrators only.

References stay as they are, unless --base-uri says where the directory is served;
that copy names no hub, because hubs know only the topics of the daemon. With
--resources it writes payloads and job files too, and the directory is a whole
Source; without, references to them lead to the daemon. --robots writes robots.txt
with a line for each Resource List; its place is the top directory of a site.

It prints how much it has written, with -t json as an object.

--to copies every file into a bucket too, s3://BUCKET/PREFIX, in the same order: the bucket
is a Source of its own, also behind a web server or a CDN, and while no daemon runs.
Credentials come from the environment, as for cutie serve --store. The directory stays as
the memory of what the bucket has; without it all is copied again.

--follow goes on until it is interrupted and looks for changes every second, or as
--every says.`,
		Example: `cutie export /srv/www --follow
cutie export copy --to s3://archive/www --base-uri https://data.example.org/ --resources --follow
cutie export /srv/mirror --base-uri https://mirror.example.org/ --resources --robots`,
	}
	var o exportOptions
	fs := cmd.Flags()
	fs.BoolVar(&o.follow, "follow", false, "go on until interrupted")
	fs.DurationVar(&o.every, "every", time.Second, "`time` between two exports with --follow")
	fs.StringVar(&o.baseURI, "base-uri", "", "`URI` at which the directory is served")
	fs.BoolVar(&o.resources, "resources", false, "write payloads and job files too")
	fs.StringVar(&o.to, "to", "", "`URL` of a bucket that gets the same files, s3://BUCKET/PREFIX")
	fs.StringVar(&o.endpoint, "endpoint", "", "`URL` of the service that has the bucket (default that of AWS_ENDPOINT_URL, else Amazon S3)")
	fs.BoolVar(&o.robots, "robots", false, "write robots.txt")
	return c.Verb(cmd, optTarget|optForm, func(ctx context.Context) error { return export(ctx, c, o) })
}

type exportOptions struct {
	follow, resources, robots bool
	every                     time.Duration
	baseURI, to, endpoint     string
}

func export(ctx context.Context, c *call, o exportOptions) (err error) {
	if o.every < 100*time.Millisecond {
		return fault.Usagef("--every is 100ms or more")
	}
	if o.baseURI != "" {
		if o.baseURI, err = reach.CleanBase(o.baseURI); err != nil {
			return err
		}
	}
	var web publisher.Web
	if o.to != "" {
		bucket, err := s3.Open(o.to, o.endpoint)
		if err != nil {
			return fault.Usagef("--to: %v", err)
		}
		web = bucket
	} else if o.endpoint != "" {
		return fault.Usagef("--endpoint belongs to --to")
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s, err := c.Source(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if o.follow && s.Local() {
		return fault.Hint(fmt.Errorf("%s: no daemon runs on it, and none could while it is followed", c.Home), "cutie serve --home "+c.Home)
	}
	e := &publisher.ExportDir{Client: s.HTTP, Source: s.Base, Dir: c.Args[0], BaseURI: o.baseURI,
		Resources: o.resources, Robots: o.robots, Web: web, To: o.to}
	done, err := e.Run(ctx)
	if err != nil {
		return fmt.Errorf("export to %s: %w", e.Dir, err)
	}
	if err = printExported(c, done); err != nil || !o.follow {
		return err
	}
	return follow(ctx, c, e, o.every)
}

// follow exports until it is interrupted. A failure, such as a restart of the
// daemon, is reported once and tried again.
func follow(ctx context.Context, c *call, e *publisher.ExportDir, every time.Duration) error {
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
			if done != (publisher.ExportResult{}) {
				err = printExported(c, done)
			}
			if err != nil {
				return err
			}
		case err.Error() != said:
			said = err.Error()
			c.Warnf("%s; goes on", said)
		}
	}
}

func printExported(c *call, x publisher.ExportResult) error {
	if c.Form != "" {
		return c.Facts(false, state.OfFacts(state.ExportClass, int64(x.Documents), int64(x.Resources), int64(x.Removed), x.Octets, int64(x.Moved)))
	}
	text := fmt.Sprintf("%d documents, %d files, %d removed, %d octets", x.Documents, x.Resources, x.Removed, x.Octets)
	if x.Moved > 0 {
		text += fmt.Sprintf(", %d files moved on", x.Moved)
	}
	_, err := fmt.Fprintln(c.Out.Stdout, text)
	return err
}
