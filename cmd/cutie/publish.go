package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/publisher"
	"cutie/queuefs"
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
			return fault.Usagef("one of --now, --status and --rebuild says what to do")
		case c.Form != "" && c.Form != "json":
			return fault.Usagef("the status has no other response form than json")
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
		if fault.ExitCode(err) == fault.ExitRefused {
			err = fault.Hint(fmt.Errorf("%w: %w", fault.ErrRefused, err), "CUTIE_TOKEN holds a token; this wants the right admin")
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
		return fault.Usagef("--rebuild is for a home, not for a daemon")
	}
	if err := reach.AsOwner(c.Home); err != nil {
		return err
	}
	svc, err := queuefs.Open(c.Home, queuefs.Options{Report: func(p queuefs.Problem) { c.Warnf("%s", p) }})
	if err != nil {
		return fault.Explain(err, c.Home)
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
