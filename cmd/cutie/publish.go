package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/daemon"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/objects/s3"
	"cutie/queuefs/state"
)

func publishVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "publish now, show the progress, or publish anew",
		Long: `
A daemon publishes by itself: documents are up to date when asked for, and
packages are made when a Change List is closed.

--now closes the open Change Lists and makes these at once, and a Resource Dump of
each set that has changed since its last one. Then it prints the status.

--status prints a line for each set: queue, set, last event, cursor (last event in
the lists), events and seconds between them, entries of the open Change List,
closed Change Lists, packages, Resource Dumps, octets, last error. With -t json it
is one JSON object.

--rebuild makes everything anew from the journal and the directory; no daemon may
run on the home. The old documents move to a free name beside them, such as
resourcesync.1. Change Lists begin again where the journal begins, which a
checkpoint shortens; copies of the queues must be compared anew.`,
		Example: `cutie publish --status
cutie publish --now
cutie publish --rebuild --home /srv/cutie`,
	}
	fs := cmd.Flags()
	now := fs.Bool("now", false, "publish at once")
	status := fs.Bool("status", false, "print the progress")
	rebuild := fs.Bool("rebuild", false, "make everything anew")
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		n := 0
		for _, f := range []bool{*now, *status, *rebuild} {
			if f {
				n++
			}
		}
		switch {
		case n != 1:
			return usagef("one of --now, --status and --rebuild says what to do")
		case c.Form != "" && c.Form != "json":
			return usagef("the status has no other response form than json")
		case *rebuild:
			return republish(ctx, c)
		case *now:
			return publish(ctx, c, http.MethodPost, daemon.PublishingPath)
		}
		return publish(ctx, c, http.MethodGet, daemon.PublishingPath+"/status")
	})
}

// maxStatus is the most octets of a status, enough for 100,000 sets.
const maxStatus = 64 << 20

// publish sends a request to the source, and prints the status in the answer.
func publish(ctx context.Context, c *call, method, path string) (err error) {
	s, err := c.Source(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	req, err := http.NewRequestWithContext(ctx, method, s.Base+path[1:], nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.Do(req)
	if err != nil {
		if exitCode(err) == exitRefused {
			err = withHint(fmt.Errorf("%w: %w", errRefused, err), "CUTIE_TOKEN holds a token; this wants the right admin")
		}
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	if err != nil {
		return err
	}
	if c.Form != "" {
		return c.Out.Emit(body)
	}
	var p daemon.Published
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("%s: %w", req.URL, err)
	}
	return printPublished(c, p)
}

func printPublished(c *call, p daemon.Published) error {
	l := c.Out.Table("QUEUE", "SET", "EVENT", "CURSOR", "LAG", "SECONDS", "OPEN", "LISTS", "PACKAGES", "DUMPS", "SIZE", "ERROR")
	for _, s := range p.Sets {
		err := l.Row(s.Queue, s.Set, s.Event, s.Cursor, s.LagEvents, strconv.FormatFloat(s.Lag, 'f', -1, 64),
			s.Open, s.Lists, s.Packages, s.Dumps, l.Size(s.Octets), s.Error)
		if err != nil {
			return err
		}
	}
	if err := l.End(); err != nil {
		return err
	}
	if p.Error != "" {
		return fmt.Errorf("nothing is published: %s", p.Error)
	}
	return nil
}

// republish makes all published documents of a home anew.
func republish(ctx context.Context, c *call) error {
	if c.URL != "" {
		return usagef("--rebuild is for a home, not for a daemon")
	}
	if err := asOwner(c.Home); err != nil {
		return err
	}
	svc, err := queuefs.Open(c.Home, queuefs.Options{Report: func(p durable.Finding) { c.Warnf("%s", p) }})
	if err != nil {
		return explainHome(err, c.Home)
	}
	start, aside := time.Now(), ""
	return withFollowers(svc, func() (publisher.Options, error) {
		o, err := c.Publishing(svc)
		if err != nil {
			c.Warnf("%v; version 1.1 is published", err) // rebuilding is for unreadable settings
			o.BaseURI = svc.Info().BaseURI
		}
		aside, err = publisher.Rebuild(svc, o)
		return o, err
	}, func(pub *publisher.Publisher) error {
		if err := pub.Publish(ctx); err != nil {
			return err
		}
		if aside != "" {
			c.Warnf("what was published is in %s/%s", c.Home, aside)
		}
		c.Sayf("rebuilt in %v", time.Since(start).Round(time.Millisecond))
		status := daemon.PublishingStatus(pub)
		if c.Form == "" {
			return printPublished(c, status)
		}
		body, err := json.MarshalIndent(status, "", "  ")
		if err != nil {
			return err
		}
		return c.Out.Emit(append(body, '\n'))
	})
}

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
	e := &publisher.ExportDir{}
	fs := cmd.Flags()
	following := fs.Bool("follow", false, "go on until interrupted")
	every := fs.Duration("every", time.Second, "`time` between two exports with --follow")
	fs.StringVar(&e.BaseURI, "base-uri", "", "`URI` at which the directory is served")
	fs.BoolVar(&e.Resources, "resources", false, "write payloads and job files too")
	fs.StringVar(&e.To, "to", "", "`URL` of a bucket that gets the same files, s3://BUCKET/PREFIX")
	endpoint := fs.String("endpoint", "", "`URL` of the service that has the bucket (default that of AWS_ENDPOINT_URL, else Amazon S3)")
	fs.BoolVar(&e.Robots, "robots", false, "write robots.txt")
	return c.Verb(cmd, optTarget|optForm, func(ctx context.Context) error {
		switch {
		case *every < 100*time.Millisecond:
			return usagef("--every is 100ms or more")
		case e.To == "" && *endpoint != "":
			return usagef("--endpoint belongs to --to")
		case e.To != "":
			bucket, err := s3.Open(e.To, *endpoint)
			if err != nil {
				return usagef("--to: %v", err)
			}
			e.Web = bucket
		}
		if !*following {
			*every = 0
		}
		return export(ctx, c, e, *every)
	})
}

// export exports once, or again every so often until it is interrupted.
func export(ctx context.Context, c *call, e *publisher.ExportDir, every time.Duration) (err error) {
	if e.BaseURI != "" {
		if e.BaseURI, err = cleanBase(e.BaseURI); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s, err := c.Source(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if every > 0 && s.Local() {
		return withHint(fmt.Errorf("%s: no daemon runs on it, and none could while it is followed", c.Home), "cutie serve --home "+c.Home)
	}
	e.Client, e.Source, e.Dir = s.HTTP, s.Base, c.Args[0]
	done, err := e.Run(ctx)
	if err != nil {
		return fmt.Errorf("export to %s: %w", e.Dir, err)
	}
	if err = printExported(c, done); err != nil || every == 0 {
		return err
	}
	return follow(ctx, c, e, every)
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
