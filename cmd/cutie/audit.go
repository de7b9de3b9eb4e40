package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/mirror"
	"cutie/publisher/destination"
	"cutie/publisher/destination/source"
	"cutie/queuefs/state"
)

// auditVerb compares a copy with its Source.
func auditVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit [URL] DIR | audit --source URL | audit --mirror QUEUE",
		Short: "prove that a copy equals its Source, or that a Source keeps the standard",
		Args:  between(1, 2),
		Long: `
Compares the files of a copy made by cutie sync with what the Source has now: its Resource
Lists, and the changes since. It prints a line for each difference: a resource is missing,
different, extra (no list names it, or it was deleted), or in transit (a change that was
not yet followed explains it: the copy is behind).

Each file is read, and its digests are compared with those that the Source gives. A file
of which it gives none is unverified. With --quick length and time are compared: files of
the right ones count as alike, not as the same. An audit changes no file.

With --source it reads a Source, and tells where it breaks the standard or its own
word: documents, links and times, gaps between Change Lists, resources and digests
(--sample of each set, -1 for all), and with --dumps the packages and manifests.

With --mirror a daemon compares a queue that it mirrors with the original, by the digests
of all files, now: by itself it does so once a day (cutie serve --mirror-audit).

It ends with 0 when nothing is missing, different or extra, and nothing is in transit that
was asked for in vain, or when a Source has no faults; else with 8.`,
		Example: `cutie audit mirror
cutie audit mirror --quick -t json
cutie audit --source http://127.0.0.1:8080 --dumps`,
	}
	var o syncOptions
	o.bind(cmd.Flags())
	fs := cmd.Flags()
	digests := fs.Bool("checksum", true, "compare digests; =false is --quick")
	_ = fs.MarkHidden("checksum") // scripts have it: it is the default
	fs.BoolVar(&o.Quick, "quick", false, "compare length and time alone: it does not prove that contents are the same")
	only := fs.Bool("source", false, "read a Source alone")
	sample := fs.Int("sample", 100, "with --source: ask for this `number` of resources of each set; -1: for all")
	mirrored := fs.Bool("mirror", false, "have a daemon audit a queue that it mirrors")
	dumps := fs.Bool("dumps", false, "with --source: read all packages of the dumps")
	return c.Verb(cmd, optTarget|optForm|optVerbose, func(ctx context.Context) error {
		o.Quick = o.Quick || !*digests
		if *mirrored {
			return auditedMirror(ctx, c)
		}
		if *only {
			return inspected(ctx, c, &o, destination.InspectOptions{Sets: o.Sets, Sample: *sample, Dumps: *dumps, MaxFiles: o.MaxFiles})
		}
		o.Look = true
		return o.with(ctx, c, func(ctx context.Context, copied *destination.Copy) error {
			r, err := copied.Audit(ctx)
			if err != nil {
				return err
			}
			if err := printAudit(c, r); err != nil {
				return err
			}
			if r.InTransit > r.Unexplained {
				c.Warnf("the copy is behind: %d resources have changes that it did not follow yet; cutie sync %s follows them", r.InTransit-r.Unexplained, o.Dir)
			}
			if !r.Clean() {
				err := fmt.Errorf("%w: %d missing, %d different, %d extra, %d asked for in vain", errDiffers, r.Missing, r.Different, r.Extra, r.Unexplained)
				if r.Skipped > 0 {
					err = fmt.Errorf("%w; %d sets, lists or entries of the Source could not be read", err, r.Skipped)
				}
				if r.Missing+r.Different+r.Extra+r.Unexplained == 0 {
					return withHint(err, "all else is the same; cutie audit --source URL tells more of what could not be read")
				}
				return withHint(err, "cutie sync --again --checksum --delete all "+o.Dir)
			}
			return nil
		})
	})
}

func printAudit(c *call, r *destination.AuditReport) error {
	asTyped := struct {
		state.Typed
		*destination.AuditReport
	}{state.AuditClass.Typed(), r}
	return c.report(asTyped, func(w io.Writer) {
		for _, d := range r.Differences {
			line := fmt.Sprintf("%s: %s", d.What, d.URI)
			if d.Why != "" {
				line += ": " + d.Why
			}
			fmt.Fprintln(w, line)
		}
		found, how := fmt.Sprintf("same %d", r.Same), "by digests"
		if r.Quick {
			found, how = fmt.Sprintf("alike %d", r.Alike), "by length and time alone"
		}
		fmt.Fprintf(w, "%d resources, %s, missing %d, different %d, extra %d, in transit %d, unverified %d; %s, %.1f s\n",
			r.Resources, found, r.Missing, r.Different, r.Extra, r.InTransit, r.Unverified, how, r.Seconds)
	})
}

// inspected reads a Source alone.
func inspected(ctx context.Context, c *call, o *syncOptions, how destination.InspectOptions) error {
	if len(c.Args) != 1 {
		return usagef("--source takes a URL alone")
	}
	url := c.Args[0]
	c.Args = []string{url, ""}
	if err := o.check(c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	o.HTTP.Origin = source.OriginOf(url)
	r, err := destination.Inspect(ctx, source.NewClient(o.HTTP), url, how)
	if err != nil {
		return hinted(err)
	}
	sum := fmt.Sprintf("%d sets, %d documents, %d resources, %d changes, %d resources and %d packages read, %d findings",
		r.Sets, r.Documents, r.Resources, r.Changes, r.Asked, r.Packages, len(r.Findings)+r.More)
	facts := state.OfFacts(state.SourceClass, r.Source, string(r.Found), int64(r.Sets), int64(r.Documents),
		int64(r.Resources), int64(r.Changes), int64(r.Asked), int64(r.Packages), int64(r.More))
	if err := c.Findings(r.Findings, sum, &facts); err != nil {
		return err
	}
	if !r.Clean() {
		return fmt.Errorf("%w: see the findings", errFaulty)
	}
	return nil
}

// auditedMirror has a daemon audit a mirror.
func auditedMirror(ctx context.Context, c *call) (err error) {
	if len(c.Args) != 1 {
		return usagef("--mirror takes a queue alone")
	}
	if _, err := wantsJSON(c); err != nil {
		return err
	}
	s, err := c.Source(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var r mirror.Audited
	if err := post(ctx, s, mirror.AuditPath+"/"+url.PathEscape(c.Args[0]), nil, &r); err != nil {
		return err
	}
	err = c.report(&r, func(w io.Writer) {
		for _, d := range r.Differences {
			fmt.Fprintln(w, d)
		}
		fmt.Fprintf(w, "%s: %d files of %s, missing %d, different %d, extra %d; by digests, %.1f s\n",
			r.Queue, r.Files, r.Source, r.Missing, r.Different, r.Extra, r.Seconds)
	})
	if n := r.Missing + r.Different + r.Extra; err == nil && n > 0 {
		err = fmt.Errorf("%w: %d files", errDiffers, n)
	}
	return err
}
