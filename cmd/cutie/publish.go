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

	"github.com/spf13/pflag"

	"cutie/cmd/cutie/daemon"
	"cutie/publisher"
	"cutie/queuefs"
)

var publishVerb = verb{
	name:  "publish",
	about: "publish now, show how publishing goes, or publish anew",
	manual: `
A daemon publishes by itself: documents are true whenever they are asked for, and
packages are made when a Change List is closed.

--now makes at once what would be made in time, and a Resource Dump of every set
that has changed since its last one. It prints the status then.

--status prints a line for each set: queue, set, last event, cursor (last event
in the lists), how many events and seconds lie between them, entries of the open
Change List, closed Change Lists, packages, Resource Dumps, octets, and what went
wrong last. With -t json it is one JSON object.

--rebuild makes everything anew from the journal and the directory; no daemon may
run on the home. What was published is moved to a free name beside it, such as
resourcesync.1. Change Lists then begin as far back as the journal reaches, with
the octets that they had; it reaches back to what a checkpoint has not let go of
yet, so copies of the queues must be compared anew.`,
	examples: `cutie publish --status
cutie publish --now
cutie publish --rebuild --home /srv/cutie`,
	takes: atTarget | withForm | toOutput,
	setup: func(fs *pflag.FlagSet) action {
		now := fs.Bool("now", false, "make what is to be published")
		status := fs.Bool("status", false, "print how far publishing is")
		rebuild := fs.Bool("rebuild", false, "make everything anew")
		return func(ctx context.Context, c *call) error {
			n := 0
			for _, f := range []bool{*now, *status, *rebuild} {
				if f {
					n++
				}
			}
			switch {
			case n != 1:
				return usagef("one of --now, --status and --rebuild says what to do")
			case c.form != "" && c.form != "json":
				return usagef("the status has no other response form than json")
			case *rebuild:
				return c.rebuild(ctx)
			case *now:
				return c.publish(ctx, http.MethodPost, daemon.PublishingPath)
			}
			return c.publish(ctx, http.MethodGet, daemon.PublishingPath+"/status")
		}
	},
}

// maxStatus is more octets than the status of 100,000 sets.
const maxStatus = 64 << 20

// publish asks the source, and prints the status that it answers with.
func (c *call) publish(ctx context.Context, method, path string) (err error) {
	s, err := c.source(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	req, err := http.NewRequestWithContext(ctx, method, s.base+path[1:], nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", agent())
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		err := refusal(resp)
		if exitCode(err) == exitRefused {
			err = withHint(fmt.Errorf("%w: %w", errRefused, err), "CUTIE_TOKEN holds a token; this wants the right admin")
		}
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	if err != nil {
		return err
	}
	if c.form != "" {
		return c.emit(body)
	}
	var p daemon.Published
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("%s: %w", req.URL, err)
	}
	return c.printPublished(p)
}

func (c *call) printPublished(p daemon.Published) error {
	l := c.listing()
	l.heading("QUEUE", "SET", "EVENT", "CURSOR", "LAG", "SECONDS", "OPEN", "LISTS", "PACKAGES", "DUMPS", "SIZE", "ERROR")
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for _, s := range p.Sets {
		l.row(s.Queue, s.Set, number(s.Event), number(s.Cursor), number(s.LagEvents), strconv.FormatFloat(s.Lag, 'f', -1, 64),
			strconv.Itoa(s.Open), strconv.Itoa(s.Lists), strconv.Itoa(s.Packages), strconv.Itoa(s.Dumps), l.size(s.Octets), s.Error)
	}
	if err := l.print(c); err != nil {
		return err
	}
	if p.Error != "" {
		return fmt.Errorf("nothing is published: %s", p.Error)
	}
	return nil
}

// rebuild makes everything published of a home anew.
func (c *call) rebuild(ctx context.Context) (err error) {
	if c.url != "" {
		return usagef("--rebuild is for a home, not for a daemon")
	}
	svc, err := queuefs.Open(c.home, queuefs.Options{Report: func(p queuefs.Problem) { c.warnf("%s", p) }})
	if err != nil {
		return homeHint(c.home, err)
	}
	var pub *publisher.Publisher
	defer func() {
		err = errors.Join(err, svc.Close())
		if pub != nil {
			err = errors.Join(err, pub.Close())
		}
	}()
	if svc.Info().BaseURI == "" {
		svc.SetBaseURI("http://" + defaultListen + "/")
	}
	o, err := c.publishing(svc)
	if err != nil {
		c.warnf("%v; version 1.1 is published", err) // that it cannot be read is what this is for
		o.BaseURI = svc.Info().BaseURI
	}
	start := time.Now()
	aside, err := publisher.Rebuild(svc, o)
	if err != nil {
		return err
	}
	if pub, err = publisher.New(svc, o); err != nil {
		return err
	}
	svc.Follow(pub)
	if err := pub.Publish(ctx); err != nil {
		return err
	}
	if aside != "" {
		c.warnf("what was published is in %s/%s", c.home, aside)
	}
	c.sayf("rebuilt in %v", time.Since(start).Round(time.Millisecond))
	return c.printPublished(daemon.PublishingStatus(pub))
}
